"""Runs that this process stopped executing without recording an end.

The consumer of a stream dropped it, or the task that executed the run was cancelled. The journal
looks as if the process had died, but here it is known which steps were under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from holdfast.model import FROM_OUTSIDE, Entry

_MOST: Final = 10_000  # runs that are remembered; beyond that the oldest count as crashed


class Left(NamedTuple):
    """What is known about the attempts of a run that was left."""

    deaths: int  # of processes, before it was resumed here
    cut_short: Mapping[str, int]  # attempts that began and did not end, by step


_left: dict[bytes, Left] = {}  # by the digest of the run's newest entry


def remember(digest: bytes, left: Left) -> None:
    """The run with this newest entry was left. Takes no lock: a finalizer may call it."""
    while len(_left) >= _MOST:
        _left.pop(next(iter(_left), b""), None)
    _left[digest] = left


def recall(newest_first: Iterable[Entry]) -> Left | None:
    """What is known if this process left the run of these entries, and nobody resumed it since."""
    for entry in newest_first:
        found = _left.get(entry.digest)
        if found is not None or entry.kind not in FROM_OUTSIDE:
            return found
    return None
