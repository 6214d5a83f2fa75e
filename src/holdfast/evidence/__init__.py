"""Claims about the world that are checked before a checkpoint is trusted."""

from holdfast.evidence.capture import (
    artifact_evidence,
    command_evidence,
    file_evidence,
    files_evidence,
    process_evidence,
)
from holdfast.evidence.checks import CHECKS, refuse_unverifiable
from holdfast.evidence.claims import Evidence, EvidenceType
from holdfast.evidence.context import Check, Context
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.policy import Policy
from holdfast.evidence.trust.rule import Standing
from holdfast.evidence.verdicts import (
    Verdict,
    VerificationStatus,
    error,
    failed,
    inconclusive,
    verified,
)
from holdfast.evidence.verifier import EvidenceVerifier
from holdfast.evidence.world.commands import CommandResult, run_command
from holdfast.evidence.world.hashing import HashCache

__all__ = [
    "CHECKS",
    "Check",
    "CommandResult",
    "Context",
    "Evidence",
    "EvidencePack",
    "EvidenceType",
    "EvidenceVerifier",
    "HashCache",
    "Policy",
    "Standing",
    "Verdict",
    "VerificationStatus",
    "artifact_evidence",
    "command_evidence",
    "error",
    "failed",
    "file_evidence",
    "files_evidence",
    "inconclusive",
    "process_evidence",
    "refuse_unverifiable",
    "run_command",
    "verified",
]
