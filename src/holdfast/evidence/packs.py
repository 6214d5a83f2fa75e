"""Packs: the claims made of one checkpoint, and how many of them must verify."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from holdfast.codec.meta import OBSERVED
from holdfast.errors import InvalidEvidenceError
from holdfast.evidence.claims import Evidence, is_object_of
from holdfast.evidence.verdicts import VerificationStatus

MAX_CLAIMS: Final = 10_000


class AtCommit(StrEnum):
    """What holdfast observed of a pack when its checkpoint was saved. It is history, no verdict."""

    SATISFIED = "satisfied"  # as many claims were verified as it requires
    NOT_SATISFIED = "not satisfied"  # too many were false
    UNCHECKED = "unchecked"  # nobody looked, or it could not be decided


@dataclass(frozen=True, slots=True)
class EvidencePack:
    """The claims of one checkpoint. It is one of two things, and says which:

    - `require_all=True`, the default: every claim must verify.
    - `require_all=False, allow_partial=True, min_verified=n`: at least n of them must.

    Anything else would leave open what it takes, and raises `InvalidEvidenceError`: an empty
    pack; `require_all` with `allow_partial` or with a `min_verified` below their number;
    `allow_partial` without the number that is enough; more required than there are; the same
    claim twice, which would count one fact as two; and claims of which one excludes the other.
    """

    evidence_list: Sequence[Evidence]
    require_all: bool = True
    allow_partial: bool = False
    min_verified: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "evidence_list", tuple(self.evidence_list))
        problem = self._problem()
        if problem:
            raise InvalidEvidenceError("an evidence pack", problem)

    @property
    def required(self) -> int:
        """How many claims must verify."""
        return len(self.evidence_list) if self.require_all else self.min_verified

    @property
    def is_verified(self) -> bool:
        """Whether as many claims are verified as the pack requires, by their newest verdicts."""
        return sum(evidence.verified for evidence in self.evidence_list) >= self.required

    @property
    def at_commit(self) -> AtCommit:
        """What the newest verdicts say of the pack, as a checkpoint records it."""
        found = [evidence.verification_status for evidence in self.evidence_list]
        if found.count(VerificationStatus.VERIFIED) >= self.required:
            return AtCommit.SATISFIED
        if len(found) - found.count(VerificationStatus.FAILED) < self.required:
            return AtCommit.NOT_SATISFIED
        return AtCommit.UNCHECKED

    def verification_summary(self) -> dict[str, Any]:
        """Counts by status, `success_rate`, `all_passed`, and `is_verified` as the pack means it."""
        return {**summary(self.evidence_list), "is_verified": self.is_verified}

    def to_dict(self) -> dict[str, Any]:
        """The claims with the newest verdicts, and what it takes, in JSON form; see `from_dict`."""
        claims = [evidence.to_dict() for evidence in self.evidence_list]
        return self.claim_dict() | {"evidence_list": claims}

    def claim_dict(self) -> dict[str, Any]:
        """The claims and what it takes in JSON form, without verdicts, as they are stored."""
        return {
            "evidence_list": [evidence.claim_dict() for evidence in self.evidence_list],
            "require_all": self.require_all,
            "allow_partial": self.allow_partial,
            "min_verified": self.min_verified,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EvidencePack:
        """The pack that `to_dict` was called on, not yet checked. Raises `InvalidEvidenceError`."""
        if not is_object_of(data, _KEYS, {OBSERVED}):
            raise InvalidEvidenceError(
                "an evidence pack", f"is an object with {', '.join(sorted(_KEYS))}"
            )
        if not isinstance(data["evidence_list"], list):
            raise InvalidEvidenceError("an evidence pack", "its evidence_list must be a list")
        claims = [Evidence.from_dict(claim) for claim in data["evidence_list"]]
        return cls(claims, data["require_all"], data["allow_partial"], data["min_verified"])

    def _problem(self) -> str | None:
        """What is wrong with the pack as it was put together."""
        total, least = len(self.evidence_list), self.min_verified
        if not all(isinstance(evidence, Evidence) for evidence in self.evidence_list):
            return "takes Evidence and nothing else"
        if {type(self.require_all), type(self.allow_partial)} != {bool}:
            return "require_all and allow_partial are True or False"
        if type(least) is not int or least < 0:
            return f"min_verified is a number of claims, not {least!r}"
        if not total:
            return "is empty: without a claim nothing can be verified; make it of the whole list"
        if total > MAX_CLAIMS:
            return f"has {total:,} claims; {MAX_CLAIMS:,} is the limit"
        if least > total:
            return f"can never be satisfied: min_verified is {least}, but it has {total} claims"
        if self.require_all and self.allow_partial:
            return "contradicts itself: require_all and allow_partial; set one of them"
        if self.require_all and 0 < least < total:
            return (
                f"contradicts itself: all {total} are required, and {least} would be enough; "
                f"pass require_all=False, allow_partial=True for {least}"
            )
        if not self.require_all and not self.allow_partial:
            return "contradicts itself: not all are required, and some are not enough; pass allow_partial=True"
        if self.allow_partial and not least:
            return "would be verified by nothing: pass min_verified, the number that is enough"
        return self._conflict()

    def _conflict(self) -> str | None:
        """Claims that count twice, or of which one excludes the other."""
        facts: dict[tuple[str, str], object] = {}
        seen: set[str] = set()
        for evidence in self.evidence_list:
            if evidence.digest in seen:
                return f"has the same claim twice: {evidence.description!r}"
            seen.add(evidence.digest)
            for name, fact in evidence.facts.items() if self.require_all else ():
                if fact is None or _same(facts.setdefault((evidence.subject, name), fact), fact):
                    continue
                return (
                    f"can never be satisfied: it claims two different values of {name!r} "
                    f"for {evidence.subject}"
                )
        return None


def _same(one: object, other: object) -> bool:
    """Whether two facts are equal; there are values that can't even be compared."""
    try:
        return one is other or bool(one == other)
    except ArithmeticError:  # Decimal("sNaN")
        return False


def summary(claims: Iterable[Evidence]) -> dict[str, Any]:
    """Counts by the newest verdicts. Without any claim, `all_passed` is False."""
    counts = Counter(evidence.verification_status for evidence in claims)
    total, verified = counts.total(), counts[VerificationStatus.VERIFIED]
    return {
        "total": total,
        **{status.value: counts[status] for status in _ORDER},
        "success_rate": verified / total if total else 0.0,
        "all_passed": 0 < total == verified,
    }


_KEYS: Final = {"evidence_list", "require_all", "allow_partial", "min_verified"}
_ORDER: Final = (
    VerificationStatus.VERIFIED,
    VerificationStatus.FAILED,
    VerificationStatus.INCONCLUSIVE,
    VerificationStatus.ERROR,
    VerificationStatus.PENDING,
)
