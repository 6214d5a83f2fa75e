"""One module per type of evidence, loaded when it is first needed.

Each has two functions. `admit(evidence, policy)` returns the claim taken apart, or raises
`InvalidEvidenceError` if it is malformed and `EvidencePolicyError` if the policy can never allow
it; it looks at nothing but the claim. `check(evidence, context)` looks and returns a verdict.
"""

from __future__ import annotations

import importlib
from collections.abc import Container
from functools import cache, partial
from typing import Any, Final

from holdfast.errors import InvalidEvidenceError
from holdfast.evidence.claims import Evidence, EvidenceType
from holdfast.evidence.context import Check, Context
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.policy import Policy
from holdfast.evidence.verdicts import Verdict


def refuse_unverifiable(
    pack: EvidencePack, policy: Policy, custom: Container[str] = frozenset()
) -> None:
    """Raise if a claim of the pack could never be verified; called before it is saved.

    `InvalidEvidenceError` for one that is malformed or of a type that is neither holdfast's nor
    in `custom`, `EvidencePolicyError` for one that the policy can never allow. Nothing is looked
    at: no file, no name, no database.
    """
    for evidence in pack.evidence_list:
        kind = str(evidence.evidence_type)
        if kind in CHECKS:
            _module(kind).admit(evidence, policy)
        elif kind not in custom:
            raise InvalidEvidenceError(
                kind, "no such type of evidence; register_check adds one of your own"
            )


@cache
def _module(kind: str) -> Any:
    return importlib.import_module(f"holdfast.evidence.checks.{kind}")


def _check(kind: str, evidence: Evidence, context: Context) -> Verdict:
    verdict: Verdict = _module(kind).check(evidence, context)
    return verdict


CHECKS: Final[dict[str, Check]] = {kind.value: partial(_check, kind.value) for kind in EvidenceType}
