"""Runs that this process stopped executing without recording an end.

The consumer of a stream dropped it, or the task that executed the run was cancelled. The journal
looks as if the process had died, but here it is known which steps were under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.model import FROM_OUTSIDE, Entry

_MOST: Final = 10_000  # runs that are remembered; beyond that the oldest count as crashed


Attempts = Mapping[str, int]
"""How many attempts began and did not end, by step."""

_left: dict[bytes, Attempts] = {}  # by the digest of the run's newest entry


def remember(digest: bytes, cut_short: Attempts) -> None:
    """The run with this newest entry was left. Takes no lock: a finalizer may call it."""
    while len(_left) >= _MOST:
        _left.pop(next(iter(_left), b""), None)
    _left[digest] = cut_short


def recall(newest_first: Iterable[Entry]) -> Attempts | None:
    """The attempts that were cut short, if this process left the run of these entries, and nobody resumed it since."""
    for entry in newest_first:
        found = _left.get(entry.digest)
        if found is not None or entry.kind not in FROM_OUTSIDE:
            return found
    return None
