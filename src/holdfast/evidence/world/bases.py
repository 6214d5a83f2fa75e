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


def where_claimed(verdict: Verdict, place: Place, *, absent: bool = False) -> Verdict:
    """The verdict; INCONCLUSIVE if it was looked up elsewhere than where it was claimed.

    What is found as it was claimed is VERIFIED wherever it is; that it is `absent` is not: most
    things are absent elsewhere.
    """
    if place.claimed_in is None:
        return verdict
    here = os.path.abspath(place.root or ".")  # noqa: PTH100 - Path.absolute keeps ".."
    if verdict.status is VerificationStatus.FAILED:
        found = f"in {here}, {verdict.reason}"
    elif verdict.status is VerificationStatus.VERIFIED and absent:
        found = f"that it is not in {here} says nothing"
    else:
        return verdict
    return inconclusive(
        f"{place.path} was claimed in {place.claimed_in[:_LONGEST]}; {found}: "
        "Policy(roots=[...]) with that directory looks there, and Policy(base_path=...) where it is "
        "now"
    )
