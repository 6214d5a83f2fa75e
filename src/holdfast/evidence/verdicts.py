"""Verdicts: what checking a claim found."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple


class VerificationStatus(StrEnum):
    """The outcome of a check. Only VERIFIED counts as verified."""

    PENDING = "pending"  # not checked yet
    VERIFIED = "verified"  # found to be true
    FAILED = "failed"  # found to be false
    INCONCLUSIVE = "inconclusive"  # could not be decided: no time, no connection, no record
    ERROR = "error"  # never checked: malformed, not allowed by the policy, or the check broke


class Verdict(NamedTuple):
    """What one check found. The verifier fills in all but the first three fields."""

    status: VerificationStatus
    reason: str | None = None  # why it is not verified
    transient: bool = False  # a retry may give another verdict
    at: int = 0  # microseconds since the epoch, when the check ended
    seconds: float = 0.0  # that it took, with its retries
    attempts: int = 1
    evidence: str = ""  # the digest of the claim

    @property
    def verified_at(self) -> datetime:
        """When the check ended, in UTC."""
        return datetime.fromtimestamp(self.at // 1_000_000, UTC).replace(
            microsecond=self.at % 1_000_000
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `from_dict` takes it."""
        return self._asdict() | {"status": self.status.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        """The verdict that `to_dict` was called on. Raises `ValueError` for anything else."""
        try:
            verdict = cls(**{**data, "status": VerificationStatus(data["status"])})
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(f"not a verdict: {error}") from None
        wanted = (str, str | None, bool, int, float | int, int, str)
        for value, kind in zip(verdict, wanted, strict=True):
            if not isinstance(value, kind):
                raise ValueError(f"not a verdict: {value!r} is of another type")
        return verdict


def verified() -> Verdict:
    """The claim was found to be true."""
    return _VERIFIED


def failed(reason: str) -> Verdict:
    """The claim was found to be false."""
    return Verdict(VerificationStatus.FAILED, reason)


def inconclusive(reason: str, *, transient: bool = False) -> Verdict:
    """It could not be decided; `transient` if a retry may give another verdict."""
    return Verdict(VerificationStatus.INCONCLUSIVE, reason, transient)


def error(reason: str) -> Verdict:
    """The check itself broke, or could not begin."""
    return Verdict(VerificationStatus.ERROR, reason)


_VERIFIED = Verdict(VerificationStatus.VERIFIED)
