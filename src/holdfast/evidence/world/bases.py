"""Which directory a relative path was claimed in, for whoever looks from another one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from holdfast.evidence.claims import Evidence, EvidenceType
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.policy import Policy
from holdfast.evidence.verdicts import Verdict, VerificationStatus, inconclusive
from holdfast.evidence.world.paths import Place

BASE: Final = "base"
"""In a claim's metadata: where it was made. It is compared and shown, and never looked into."""

_FILES: Final = (EvidenceType.ARTIFACT_EXISTS, EvidenceType.FILE_SHA256)
_LONGEST: Final = 200


def with_base(claim: Evidence, policy: Policy) -> Evidence:
    """The claim, saying which directory its relative path begins in where no policy says it."""
    if policy.directories or claim.evidence_type not in _FILES:
        return claim
    expected, metadata = claim.expected, claim.metadata
    path = expected.get("path")
    if not isinstance(path, str) or path.startswith("/") or BASE in metadata:
        return claim
    told = {**metadata, BASE: str(Path.cwd())}
    return Evidence(claim.evidence_type, claim.description, expected, told)


def pack_with_base(pack: EvidencePack, policy: Policy) -> EvidencePack:
    """The pack with each of its claims saying it."""
    return replace(pack, evidence_list=[with_base(one, policy) for one in pack.evidence_list])


def from_its_base(verdict: Verdict, evidence: Evidence, place: Place) -> Verdict:
    """The verdict; INCONCLUSIVE instead of FAILED if this is not where the claim was made."""
    if verdict.status is not VerificationStatus.FAILED or place.root is None:
        return verdict
    base = evidence.metadata.get(BASE)
    if not isinstance(base, str) or place.path.startswith("/"):
        return verdict
    here = os.path.abspath(place.root)  # noqa: PTH100 - Path.absolute keeps ".."
    if base in (here, os.path.realpath(here)):
        return verdict
    return inconclusive(
        f"{place.path} was claimed in {base[:_LONGEST]}, and this is {here}: go there, or give "
        "the verifier a base_path"
    )
