"""Times, sizes and numbers as people read them: the same on a terminal and on a page."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from holdfast.codec.summaries import size
from holdfast.errors.base import one_line

__all__ = ["ago", "moment", "plural", "size", "some", "span"]

_NAMED: Final = 3
_MILLENNIA: Final = 10_000 * 365.25 * 86_400  # seconds


def moment(when: datetime | None) -> str:
    """A point in time, in the reader's own zone."""
    return "" if when is None else f"{when.astimezone():%Y-%m-%d %H:%M:%S}"


def ago(when: datetime) -> str:
    """How long ago that was."""
    return f"{span((datetime.now(UTC) - when).total_seconds())} ago"


def span(seconds: float) -> str:
    """A length of time, in its two largest units; a damaged entry may state any number."""
    if seconds < 0:
        return f"-{span(-seconds)}"
    if not seconds < _MILLENNIA:
        return "unknown" if math.isnan(seconds) else "over 10,000 years"
    if seconds < 0.0995:
        return f"{1000 * seconds:.1f} ms" if seconds < 0.00995 else f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for name, length, small, rest in (("d", 86_400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= length:
            return f"{whole // length} {name} {whole % length // rest} {small}"
    return f"{whole // 60} m {whole % 60} s"


def plural(count: int, noun: str) -> str:
    """So many of something: "1 run", "1,000 runs"."""
    many = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count:,} {noun if count == 1 else many}"


def some(names: Iterable[str]) -> str:
    """The first of these names, and how many more there are."""
    listed = list(names)
    more = len(listed) - _NAMED
    shown = ", ".join(map(one_line, listed[:_NAMED]))
    return f"{shown} and {more:,} more" if more > 0 else shown
