"""Which directory a relative path was claimed in, for a check in another working directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from holdfast.evidence.claims import Evidence
from holdfast.evidence.policy import Policy
from holdfast.evidence.verdicts import Verdict, VerificationStatus, inconclusive
from holdfast.evidence.world.paths import Place

_LONGEST: Final = 200


def base_of(policy: Policy) -> str | None:
    """Where relative paths start now; None in a working directory that was deleted."""
    try:
        return os.path.realpath(policy.directories[0] if policy.directories else Path.cwd())
    except FileNotFoundError:
        return None


def with_base(claim: Evidence, base: str | None) -> Evidence:
    """The claim, not yet checked, noting where its relative path starts, unless it does so already."""
    return claim.noted(base=claim.base or base)


def where_claimed(verdict: Verdict, place: Place) -> Verdict:
    """The verdict; INCONCLUSIVE instead of FAILED if it was not looked up where it was claimed."""
    if verdict.status is not VerificationStatus.FAILED or place.claimed_in is None:
        return verdict
    here = os.path.abspath(place.root or ".")  # noqa: PTH100 - Path.absolute keeps ".."
    return inconclusive(
        f"{place.path} was claimed in {place.claimed_in[:_LONGEST]}, and it is not in {here}: "
        "Policy(roots=[...]) with that directory looks there, and a base_path where it is now"
    )
