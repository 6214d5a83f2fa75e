"""Taking a claim apart: what must be there, of which type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from holdfast.errors import InvalidEvidenceError
from holdfast.evidence.claims import Evidence

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
T = TypeVar("T")


def known_only(evidence: Evidence, expected: Mapping[str, Any], *names: str) -> None:
    """Raise for anything claimed that the check would not look at."""
    for name in expected:
        if name not in names:
            raise _malformed(evidence, f"{name!r} is not among {', '.join(names)}")


def required(evidence: Evidence, expected: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """The value of exactly this type. A bool is no int."""
    if name not in expected:
        raise _malformed(evidence, f"expected[{name!r}] is missing")
    return typed(evidence, name, expected[name], kind)


def optional(
    evidence: Evidence, expected: Mapping[str, Any], name: str, kind: type[T], default: T
) -> T:
    """The value of exactly this type, or the default where there is none."""
    return typed(evidence, name, expected[name], kind) if name in expected else default


def typed(evidence: Evidence, name: str, value: object, kind: type[T]) -> T:
    """The value, if it is exactly of this type."""
    if type(value) is not kind:
        raise _malformed(evidence, f"{name} must be {kind.__name__}, not {type(value).__name__}")
    return value


def sha256_text(evidence: Evidence, expected: Mapping[str, Any], name: str) -> str:
    """A SHA-256 in hex, in lower case; upper case is the same digest."""
    digest = required(evidence, expected, name, str).lower()
    if not _SHA256.fullmatch(digest):
        raise _malformed(evidence, f"{name} must be 64 hexadecimal digits")
    return digest


def refuse(evidence: Evidence, reason: str) -> InvalidEvidenceError:
    """The error to raise for a malformed claim."""
    return _malformed(evidence, reason)


def same(found: object, claimed: object) -> bool:
    """Whether two plain values are the same, also inside; 1 is 1.0, but no True and no "1"."""
    if isinstance(found, bool) or isinstance(claimed, bool):
        return found is claimed
    if isinstance(found, dict) and isinstance(claimed, dict):
        return found.keys() == claimed.keys() and all(
            same(value, claimed[key]) for key, value in found.items()
        )
    if isinstance(found, list | tuple) and isinstance(claimed, list | tuple):
        return len(found) == len(claimed) and all(map(same, found, claimed))
    return found == claimed


def _malformed(evidence: Evidence, reason: str) -> InvalidEvidenceError:
    return InvalidEvidenceError(f"{evidence.evidence_type} {evidence.description!r}", reason)
