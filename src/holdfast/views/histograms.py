"""Runs over time, as bars."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from holdfast.checkpointer import SyncCheckpointer


class Histogram(NamedTuple):
    """How many runs began, and how they ended, over time."""

    start: datetime
    length: timedelta  # of a bar
    started: list[int]
    failed: list[int]
    completed: int
    median: timedelta | None


_CHARTED: Final = timedelta(hours=24)
_BARS: Final = 60
_LONGEST: Final = timedelta(days=366)


def histogram(
    cp: SyncCheckpointer, begin: datetime | None = None, flow: str | None = None
) -> Histogram:
    """What the runs of a flow, or of all, did since then, or in the last day.

    At most 60 bars, each of as many hours as it takes.
    """
    now = datetime.now(UTC)
    begin = max(begin or now - _CHARTED, now - _LONGEST)
    found = cp.tally(min(begin, now), flow=flow)
    per = max(1, -(-len(found) // _BARS))
    bars = [found[at : at + per] for at in range(0, len(found), per)]
    ended = sorted(
        (each.median, each.completed + each.failed) for each in found if each.median is not None
    )
    return Histogram(
        found[0].start if found else begin,
        timedelta(hours=per),
        [sum(each.started for each in bar) for bar in bars],
        [sum(each.failed for each in bar) for bar in bars],
        sum(each.completed for each in found),
        _median(ended),
    )


def _median(ended: Sequence[tuple[timedelta, int]]) -> timedelta | None:
    """The median of medians, each with its weight."""
    half, until = sum(n for _, n in ended) / 2, 0
    for length, n in ended:
        until += n
        if until >= half:
            return length
    return None
