"""A claim: what a program says is true of the world, in a form that can be checked later."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from holdfast.codec import readable, values
from holdfast.errors import InvalidEvidenceError, SerializeError
from holdfast.errors.base import one_line
from holdfast.evidence.checks import BUILT_IN, EvidenceType, facts_of, subject_of
from holdfast.evidence.verdicts import Verdict, VerificationStatus
from holdfast.kernel.processes import this_host

MAX_CLAIM_BYTES: Final = 1 << 20
"""A claim names data; it does not contain it."""


class Evidence:
    """One claim, and a view of the newest verdict on it.

    The claim (type, description, expected, metadata) is fixed when it is made, from copies;
    `expected` and `metadata` give a fresh copy each time. With `host`, which is kept in the
    metadata, the claim is about that machine and can be checked only there. `verified`, `verification_status`,
    `verification_error` and `verified_at` show what was found last. They are not part of the
    claim: not of its digest, not of equality and not of `claim_dict`, so that a stored claim never
    vouches for itself. Only `judge` sets them. Neither are `base` and `observed`, which say what
    holdfast itself saw when the claim was made or saved: only `noted` sets them, and they are
    stored with the checkpoint, beside the claim.

    Raises `InvalidEvidenceError` for what is not text and plain data. Whether a claim makes
    sense for its type is checked by `refuse_unverifiable` and by the verifier.
    """

    __slots__ = (
        "_expected", "_facts", "_metadata", "_subject", "base", "description", "digest",
        "evidence_type", "host", "observed", "verdict",
    )  # fmt: skip

    evidence_type: EvidenceType | str
    description: str
    digest: str  # the SHA-256 of the claim, in hex; equal claims have equal digests
    host: str | None  # the machine where it can be checked; None: anywhere
    verdict: Verdict | None  # the newest; None if it was not checked yet
    base: str | None  # the directory that a relative path starts in; None if it is not known
    observed: Mapping[str, Any] | None  # what holdfast saw itself, such as an exit code
    _expected: bytes
    _metadata: bytes
    _subject: str | None
    _facts: Mapping[str, object] | None

    def __init__(
        self,
        evidence_type: EvidenceType | str,
        description: str,
        expected: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        host: str | None = None,
    ) -> None:
        if not _is_name(evidence_type):
            raise InvalidEvidenceError("evidence_type", f"{evidence_type!r} is not a type's name")
        if not isinstance(description, str):
            raise InvalidEvidenceError("description", "must be a str")
        name = str(evidence_type)
        put = super().__setattr__
        put("evidence_type", BUILT_IN.get(name, name))
        put("description", str(description))
        put("_expected", _encoded("expected", expected))
        labelled: object = metadata or {}
        if host is not None and isinstance(labelled, Mapping):
            labelled = {**labelled, "host": host}
        put("_metadata", _encoded("metadata", labelled))
        beside = self.metadata
        put("host", _host(beside.get("host")))
        claim = canonical(["holdfast evidence 1", name, description, self.expected, beside])
        put("digest", hashlib.sha256(claim.encode()).hexdigest())
        put("_subject", None)
        put("_facts", None)
        put("verdict", None)
        put("base", None)
        put("observed", None)

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
        beside: dict[str, Any] = values.decode(self._metadata)
        return beside

    @property
    def subject(self) -> str:
        """What the claim is about: a path, a row, a URL …

        A later claim on it replaces the `facts` that both state. A path is absolute where `base`
        is known.
        """
        if self._subject is None:
            object.__setattr__(self, "_subject", subject_of(self))
        assert self._subject is not None
        return self._subject

    @property
    def is_elsewhere(self) -> bool:
        """Whether it can be checked only on another machine than this one."""
        return self.host is not None and self.host != this_host()

    @property
    def facts(self) -> Mapping[str, object]:
        """What it says of its subject, by name: of a file, its digest, its size, that it exists.

        The value is what can be true in one way only; None where that does not matter.
        """
        if self._facts is None:
            object.__setattr__(self, "_facts", facts_of(self))
        assert self._facts is not None
        return self._facts

    @property
    def verified(self) -> bool:
        """Whether the newest verdict is VERIFIED."""
        return self.verification_status is VerificationStatus.VERIFIED

    @property
    def verification_status(self) -> VerificationStatus:
        """The newest verdict's status; PENDING if it was not checked yet."""
        return VerificationStatus.PENDING if self.verdict is None else self.verdict.status

    @property
    def verification_error(self) -> str | None:
        """Why it is not verified."""
        return None if self.verdict is None else self.verdict.reason

    @property
    def verified_at(self) -> datetime | None:
        """When it was checked last, whatever was found."""
        return None if self.verdict is None else self.verdict.verified_at

    def judge(self, verdict: Verdict | None) -> None:
        """Show this verdict from now on. Raises `InvalidEvidenceError` if it is of another claim."""
        if verdict is not None and verdict.evidence != self.digest:
            raise InvalidEvidenceError("verdict", f"it was not given on {self}")
        object.__setattr__(self, "verdict", verdict)

    def noted(
        self, *, base: str | None = None, observed: Mapping[str, Any] | None = None
    ) -> Evidence:
        """The same claim, not yet checked, with what holdfast saw itself.

        What is not given stays as it is.
        """
        same = object.__new__(Evidence)
        for name in Evidence.__slots__:
            object.__setattr__(same, name, getattr(self, name))
        object.__setattr__(same, "verdict", None)
        same.note(self.base if base is None else base, observed or self.observed)
        return same

    def note(self, base: str | None, observed: Mapping[str, Any] | None) -> None:
        """Take over what was recorded beside the claim. Only for a claim that nobody has yet."""
        object.__setattr__(self, "_subject", None)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "observed", observed)

    def to_dict(self) -> dict[str, Any]:
        """The claim in JSON form, and the newest verdict on it; `from_dict` reads the claim."""
        return self.claim_dict() | self._verdict_dict()

    def claim_dict(self) -> dict[str, Any]:
        """The claim alone in JSON form, as it is stored; `from_dict` turns it back exactly."""
        return {
            "evidence_type": str(self.evidence_type),
            "description": self.description,
            "expected": readable.to_json(self.expected),
            "metadata": readable.to_json(self.metadata),
        }

    def _verdict_dict(self) -> dict[str, Any]:
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

        The verdict beside it is ignored: a claim does not vouch for itself. Raises
        `InvalidEvidenceError` for anything else.
        """
        if not is_object_of(data, _KEYS, _VIEW):
            raise InvalidEvidenceError("evidence", f"is an object with {', '.join(sorted(_KEYS))}")
        try:
            expected = readable.from_json(data["expected"])
            metadata = readable.from_json(data["metadata"])
        except ValueError as error:
            raise InvalidEvidenceError("evidence", str(error)) from None
        return cls(data["evidence_type"], data["description"], expected, metadata)

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Evidence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.claim_dict(), self.verdict, self.base, self.observed)

    def __str__(self) -> str:
        if self.verification_error:
            return f"{one_line(self.verification_error)} (claim: {self.description!r})"
        kind = one_line(str(self.evidence_type))
        return f"{kind} {self.description!r} is {self.verification_status}"

    def __repr__(self) -> str:  # without what is expected: that may be a secret
        kind = one_line(str(self.evidence_type))
        return f"<Evidence {kind} {self.description!r}: {self.verification_status}>"


def canonical(value: object) -> str:
    """The same text for equal plain data, whatever the order of its keys."""
    return json.dumps(readable.to_json(value), sort_keys=True, separators=(",", ":"))


_KEYS: Final = {"evidence_type", "description", "expected", "metadata"}
_VIEW: Final = {"verified", "verification_status", "verification_error", "verified_at"}


def is_object_of(data: object, keys: set[str], ignored: set[str]) -> bool:
    """Whether it is a mapping with these keys, beside ignored ones."""
    return isinstance(data, Mapping) and set(data) - ignored == keys


def _is_name(given: object) -> bool:
    return isinstance(given, str) and 0 < len(given) <= 100


def _host(given: object) -> str | None:
    """The label of a machine. Raises `InvalidEvidenceError`."""
    if given is None:
        return None
    if not _is_name(given) or not str(given).isprintable() or "/" in str(given):
        raise InvalidEvidenceError("host", f"{given!r} is not the name of a machine")
    return str(given)


def _encoded(what: str, given: object) -> bytes:
    if not isinstance(given, Mapping) or not all(type(key) is str for key in given):
        raise InvalidEvidenceError(what, "must be a dict with str keys")
    plain = {k: os.fspath(v) if isinstance(v, os.PathLike) else v for k, v in given.items()}
    try:
        data = values.encode(plain, root=what)
    except SerializeError as error:
        raise InvalidEvidenceError(error.path, error.reason) from None
    if len(data) > MAX_CLAIM_BYTES:
        raise InvalidEvidenceError(what, f"takes {len(data):,} bytes; claim a digest instead")
    return data


def _restore(
    data: Mapping[str, Any],
    verdict: Verdict | None,
    base: str | None,
    observed: Mapping[str, Any] | None,
) -> Evidence:
    evidence = Evidence.from_dict(data).noted(base=base, observed=observed)
    evidence.judge(verdict)
    return evidence
