"""Claims about the world, checked before a checkpoint is trusted.

Here: `claims` and `packs` (what is claimed), `policy` (what may be looked at), `checks/` (the types
of evidence), `world/` (bounded access to files, hosts, databases), `verifier` (runs the checks),
`verdicts`, `capture` (claims from what is there now) and `trust/`, where `rule.py` decides which
checkpoints may be trusted. Not here: what a step claims (`engine/claims.py`), and what a resume
does when a checkpoint does not verify (`engine/resume`).
"""

from holdfast.evidence.capture import (
    artifact_evidence,
    command_evidence,
    file_evidence,
    files_evidence,
    process_evidence,
)
from holdfast.evidence.checks import EvidenceType, refuse_unverifiable, register_type
from holdfast.evidence.claims import Evidence
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
from holdfast.kernel.processes import this_host

__all__ = [
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
    "register_type",
    "run_command",
    "this_host",
    "verified",
]
