"""Parsing a claim: which fields it may have, of which type."""

from __future__ import annotations

import posixpath
import re
from typing import Final, TypeVar

from holdfast.errors import InvalidEvidenceError
from holdfast.evidence.claims import Evidence

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
T = TypeVar("T")
D = TypeVar("D")


class Fields:
    """What a claim expects. Raises `InvalidEvidenceError` for a field that is not `known`."""

    def __init__(self, evidence: Evidence, *known: str) -> None:
        self._name = f"{evidence.evidence_type} {evidence.description!r}"
        self._expected = evidence.expected
        for name in self._expected:
            if name not in known:
                raise self.refuse(f"{name!r} is not among {', '.join(known)}")

    def __contains__(self, name: str) -> bool:
        return name in self._expected

    def required(self, name: str, kind: type[T]) -> T:
        """The value, of exactly this type: a bool is not an int."""
        if name not in self._expected:
            raise self.refuse(f"expected[{name!r}] is missing")
        return self.typed(name, self._expected[name], kind)

    def optional(self, name: str, kind: type[T], default: D) -> T | D:
        """The value, of exactly this type; the default if there is none."""
        return self.required(name, kind) if name in self._expected else default

    def typed(self, name: str, value: object, kind: type[T]) -> T:
        """The value, if it is of exactly this type."""
        if type(value) is not kind:
            raise self.refuse(f"{name} must be {kind.__name__}, not {type(value).__name__}")
        return value

    def sha256(self, name: str) -> str:
        """A SHA-256 in hex, in lower case; upper case is the same digest."""
        digest = self.required(name, str).lower()
        if not _SHA256.fullmatch(digest):
            raise self.refuse(f"{name} must be 64 hexadecimal digits")
        return digest

    def refuse(self, reason: str) -> InvalidEvidenceError:
        """The error to raise for a malformed claim."""
        return InvalidEvidenceError(self._name, reason)


def path_subject(path: str, base: str | None) -> str:
    """What a claim on a path is about, however the path is spelled. Raises for anything else.

    A relative path starts in `base`, if that is known.
    """
    if not path:
        raise ValueError("no path")
    path = posixpath.join(base or "", path)
    # "//x" is "/x" on every system we run on, but POSIX lets normpath keep it.
    return f"path:{posixpath.normpath(re.sub('^//+', '/', path))}"
