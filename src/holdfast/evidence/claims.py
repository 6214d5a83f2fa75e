"""Claims: what a program says is true of the world, in a form that can be checked later."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from holdfast.codec import readable, values
from holdfast.errors import InvalidEvidenceError, SerializeError
from holdfast.evidence.verdicts import Verdict, VerificationStatus
from holdfast.operations.subjects import canonical, subject_of

__all__ = ["MAX_CLAIM_BYTES", "Evidence", "EvidenceType", "VerificationStatus"]

MAX_CLAIM_BYTES: Final = 1 << 20
"""A claim names things; it does not hold them."""


class EvidenceType(StrEnum):
    """The types that holdfast checks itself. A type of one's own is any other string."""

    ARTIFACT_EXISTS = "artifact_exists"
    FILE_SHA256 = "file_sha256"
    COMMAND_EXIT = "command_exit"
    DB_ROW = "db_row"
    NETWORK_REACHABLE = "network_reachable"
    API_RESPONSE = "api_response"
    CONTAINER_RUNNING = "container_running"
    PROCESS_EXISTS = "process_exists"


class Evidence:
    """One claim, and a view of the newest verdict on it.

    The claim (type, description, expected, metadata) is fixed when it is made, from copies;
    `expected` and `metadata` give a fresh copy each time. `verified`, `verification_status`,
    `verification_error` and `verified_at` show what was found last. They are no part of the
    claim: not of its digest, not of equality and not of `to_dict`, so that a stored claim never
    vouches for itself. Only `judge` sets them.

    Raises `InvalidEvidenceError` for what is not text and plain data. Whether a claim makes
    sense for its type is checked by `refuse_unverifiable` and by the verifier.
    """

    __slots__ = (
        "_absence", "_digest", "_expected", "_metadata", "_subject", "_verdict", "description",
        "evidence_type",
    )  # fmt: skip

    evidence_type: EvidenceType | str
    description: str

    def __init__(
        self,
        evidence_type: EvidenceType | str,
        description: str,
        expected: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if not _is_name(evidence_type):
            raise InvalidEvidenceError("evidence_type", f"{evidence_type!r} is no name of a type")
        if not isinstance(description, str):
            raise InvalidEvidenceError("description", "must be a str")
        put = super().__setattr__
        put("evidence_type", _type(evidence_type))
        put("description", str(description))
        claim = (_plain("expected", expected), _plain("metadata", metadata or {}))
        put("_expected", values.encode(claim[0]))
        put("_metadata", values.encode(claim[1]))
        put("_digest", _digest_of(str(evidence_type), description, claim))
        put("_subject", subject_of(str(evidence_type), description, *claim, self._digest))
        put("_absence", evidence_type == "artifact_exists" and claim[0].get("type") == "absent")
        put("_verdict", None)

    _absence: bool
    _digest: str
    _expected: bytes
    _metadata: bytes
    _subject: str
    _verdict: Verdict | None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{name} of a claim can't be set: make another one; verdicts are set by the verifier"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} of a claim can't be deleted")

    @property
    def expected(self) -> dict[str, Any]:
        """What is claimed; a copy."""
        claimed: dict[str, Any] = values.decode(self._expected)
        return claimed

    @property
    def metadata(self) -> dict[str, Any]:
        """What helps to check it; a copy."""
        told: dict[str, Any] = values.decode(self._metadata)
        return told

    @property
    def subject(self) -> str:
        """What the claim is about: a path, a row, a URL … A later claim on it supersedes this one.

        Claims on one subject in the same pack stand beside each other.
        """
        return self._subject

    @property
    def is_absence(self) -> bool:
        """Whether it claims that nothing stands at a path."""
        return self._absence

    @property
    def digest(self) -> str:
        """The SHA-256 of the claim, in hex. Equal claims have equal digests."""
        return self._digest

    @property
    def verdict(self) -> Verdict | None:
        """What was found last; None if it was not checked yet."""
        return self._verdict

    @property
    def verified(self) -> bool:
        """Whether the newest verdict is VERIFIED."""
        return self.verification_status is VerificationStatus.VERIFIED

    @property
    def verification_status(self) -> VerificationStatus:
        """The newest verdict's status; PENDING if it was not checked yet."""
        return VerificationStatus.PENDING if self._verdict is None else self._verdict.status

    @property
    def verification_error(self) -> str | None:
        """Why it is not verified."""
        return None if self._verdict is None else self._verdict.reason

    @property
    def verified_at(self) -> datetime | None:
        """When it was checked last, whatever was found."""
        return None if self._verdict is None else self._verdict.verified_at

    def judge(self, verdict: Verdict | None) -> None:
        """Show this verdict from now on. Raises `InvalidEvidenceError` if it is of another claim."""
        if verdict is not None and verdict.evidence != self._digest:
            raise InvalidEvidenceError("verdict", f"it was not given on {self}")
        object.__setattr__(self, "_verdict", verdict)

    def to_dict(self) -> dict[str, Any]:
        """The claim in JSON form, without any verdict; `from_dict` turns it back exactly."""
        return {
            "evidence_type": str(self.evidence_type),
            "description": self.description,
            "expected": readable.to_json(self.expected),
            "metadata": readable.to_json(self.metadata),
        }

    def verdict_dict(self) -> dict[str, Any]:
        """The view of the newest verdict in JSON form."""
        at = self.verified_at
        return {
            "verified": self.verified,
            "verification_status": self.verification_status.value,
            "verification_error": self.verification_error,
            "verified_at": None if at is None else at.isoformat(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evidence:
        """The claim that `to_dict` was called on, not yet checked.

        A verdict beside it (`verdict_dict`) is left out: it is not for the claim to say. Raises
        `InvalidEvidenceError` for anything else.
        """
        if not _is_claim(data):
            raise InvalidEvidenceError("evidence", f"is an object with {', '.join(sorted(_KEYS))}")
        try:
            expected = readable.from_json(data["expected"])
            metadata = readable.from_json(data["metadata"])
        except ValueError as error:
            raise InvalidEvidenceError("evidence", str(error)) from None
        return cls(data["evidence_type"], data["description"], expected, metadata)

    def __eq__(self, other: object) -> bool:
        return self._digest == other.digest if isinstance(other, Evidence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._digest)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (
            str(self.evidence_type),
            self.description,
            self.expected,
            self.metadata,
            self._verdict,
        )

    def __str__(self) -> str:
        name = f"{self.evidence_type} {self.description!r}"
        why = f": {self.verification_error}" if self.verification_error else ""
        return f"{name} is {self.verification_status}{why}"

    def __repr__(self) -> str:
        return f"<Evidence {self} {self.expected!r}>"


_KEYS: Final = {"evidence_type", "description", "expected", "metadata"}
_VIEW: Final = {"verified", "verification_status", "verification_error", "verified_at"}
_TYPES: Final = {kind.value: kind for kind in EvidenceType}


def _type(name: str) -> EvidenceType | str:
    return _TYPES.get(str(name), str(name))


def _is_name(given: object) -> bool:
    return isinstance(given, str) and 0 < len(given) <= 100


def _is_claim(data: object) -> bool:
    return isinstance(data, Mapping) and set(data) - _VIEW == _KEYS


def _plain(what: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(type(key) is str for key in given):
        raise InvalidEvidenceError(what, "must be a dict with str keys")
    told = {key: _path(value) for key, value in given.items()}
    try:
        data = values.encode(told, root=what)
    except SerializeError as error:
        raise InvalidEvidenceError(error.path, error.reason) from None
    if len(data) > MAX_CLAIM_BYTES:
        raise InvalidEvidenceError(what, f"takes {len(data):,} bytes; claim a digest instead")
    plain: dict[str, Any] = values.decode(data)
    return plain


def _path(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _digest_of(kind: str, description: str, claim: tuple[dict[str, Any], dict[str, Any]]) -> str:
    text = canonical(["holdfast evidence 1", kind, description, *claim])
    return hashlib.sha256(text.encode()).hexdigest()


def _restore(
    kind: str,
    description: str,
    expected: dict[str, Any],
    metadata: dict[str, Any],
    verdict: Verdict | None,
) -> Evidence:
    evidence = Evidence(kind, description, expected, metadata)
    evidence.judge(verdict)
    return evidence
