"""Which directory a relative path was claimed in, for a check in another working directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from holdfast.evidence.claims import Evidence
from holdfast.evidence.policy import Policy
from holdfast.evidence.verdicts import Verdict, VerificationStatus, inconclusive
from holdfast.evidence.world.paths import Place

BASE: Final = "base"
"""In a claim's metadata: where it was made. It is compared and shown, never opened."""

_LONGEST: Final = 200


def with_base(claim: Evidence, policy: Policy) -> Evidence:
    """The claim, naming the directory that its relative path starts in, if no policy says so."""
    if policy.directories or not claim.subject.startswith("path:") or BASE in claim.metadata:
        return claim
    if claim.expected["path"].startswith("/"):
        return claim
    metadata = {**claim.metadata, BASE: str(Path.cwd())}
    return Evidence(claim.evidence_type, claim.description, claim.expected, metadata)


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
        f"{place.path} was claimed in {base[:_LONGEST]}, and this is {here}: run it there, or give "
        "the verifier a base_path"
    )
