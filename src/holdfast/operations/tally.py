"""Statistics over time, by the hour or longer, for charts. Blocks, and writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.checkpoint import to_datetime, to_micros
from holdfast.heads import HOUR, Tally
from holdfast.kernel.core import Core
from holdfast.operations.reading import outages_named


class HourTally(NamedTuple):
    """What the runs of a store did in one hour, or in several if that was asked for."""

    start: datetime
    started: int
    completed: int
    failed: int
    cancelled: int
    paused: int
    saves: int  # entries that were recorded, as far as they are counted by now
    mean: timedelta | None  # how long the runs took that completed or failed
    median: timedelta | None  # half of them took less: at most this, and more than half of it
    p95: timedelta | None  # as `median`, for 95 % of them


def tally(
    core: Core,
    since: datetime,
    until: datetime | None = None,
    *,
    flow: str | None = None,
    hours: int = 1,
) -> list[HourTally]:
    """What happened in each hour from `since` on, oldest first, of all flows or of one.

    Every hour is there, also those in which nothing happened. With `hours`, so many of them are
    counted together; 24 are a day in UTC. Naive datetimes are local time. Runs that were deleted
    since are still counted. One that is continued after its end counts again when it ends again.
    Saves are counted when a run ends, stops or continues, and every 64th time in between.
    """
    if hours < 1:
        raise ValueError(f"hours must be at least 1, not {hours}")
    length = hours * HOUR
    first = to_micros(since) // length * length
    last = core.journals.clock.now() if until is None else to_micros(until)
    with outages_named():
        found = core.journals.store.tally(first, last, flow=flow)
    periods: dict[int, list[Tally]] = {
        period: [] for period in range(max(0, first // length), max(0, -(-last // length)))
    }
    for each in found:
        periods[each.hour // hours].append(each)
    return [_period(period * length, numbers) for period, numbers in periods.items()]


def _period(start: int, numbers: list[Tally]) -> HourTally:
    counts: Counter[str] = Counter()
    buckets: Counter[int] = Counter()
    total = 0
    for each in numbers:
        counts[each.what] += each.n
        if each.what in ("completed", "failed"):
            buckets[each.bucket] += each.n
            total += each.total
    ended = buckets.total()
    return HourTally(
        start=to_datetime(start),
        started=counts["started"],
        completed=counts["completed"],
        failed=counts["failed"],
        cancelled=counts["cancelled"],
        paused=counts["paused"],
        saves=counts["saves"],
        mean=timedelta(microseconds=total // ended) if ended else None,
        median=_below(buckets, 0.5),
        p95=_below(buckets, 0.95),
    )


def _below(buckets: Counter[int], share: float) -> timedelta | None:
    """The end of the bucket in which this share of the durations is reached."""
    wanted = share * buckets.total()
    return next(
        (
            timedelta(milliseconds=1 << bucket)
            for bucket, until in _running_total(buckets)
            if until >= wanted
        ),
        None,
    )


def _running_total(buckets: Counter[int]) -> Iterator[tuple[int, int]]:
    until = 0
    for bucket in sorted(buckets):
        until += buckets[bucket]
        yield bucket, until
