"""Statistics of a store: what happened over time, and what there is now. From the index alone."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.resume.recovery import survey
from holdfast.engine.working.listing import WorkerInfo, list_workers
from holdfast.heads import HOUR
from holdfast.operations.tally import HourTally
from holdfast.store import PAGE, RunFilter


class Window(NamedTuple):
    """A length of time until now, and how it is divided."""

    name: str
    hours: int
    step: int  # hours that are counted together

    @property
    def each(self) -> str:
        """The length of a part in words, as in "runs per hour"."""
        return {1: "hour", 24: "day"}.get(self.step, f"{self.step} hours")

    def starts(self, now: int) -> list[datetime]:
        """When each part begins. The last one isn't over at `now`, in microseconds."""
        length = self.step * HOUR
        first = (now - self.hours * HOUR) // length
        return [to_datetime(length * part) for part in range(first, now // length + 1)]


WINDOWS: Final = {
    window.name: window
    for window in (Window("24h", 24, 1), Window("7d", 7 * 24, 6), Window("30d", 30 * 24, 24))
}
"""By the word that URLs have for them."""

_NEWEST: Final = 200  # runs whose flows are offered


def over_time(cp: SyncCheckpointer, window: Window, flow: str | None = None) -> dict[str, Any]:
    """What runs did in each part of a window, for charts. Every run counts, also child runs."""
    now = cp.core.journals.clock.now()
    found = tallied(cp, window, now, flow)
    return {
        "since": window.name,
        "hours": window.step,
        "flow": flow,
        "as_of": to_datetime(now),
        "periods": [_numbers(period) for period in found],
    }


def tallied(
    cp: SyncCheckpointer, window: Window, now: int, flow: str | None = None
) -> list[HourTally]:
    """What runs did in each part of a window until `now`, in microseconds."""
    until = to_datetime(now + 1)  # the part that begins now is one of them
    since = to_datetime(now) - timedelta(hours=window.hours)
    return cp.tally(since, until, flow=flow, hours=window.step)


def _numbers(period: HourTally) -> dict[str, Any]:
    times = {name: getattr(period, name) for name in ("mean", "median", "p95")}
    return period._asdict() | {
        name: None if time is None else time.total_seconds() for name, time in times.items()
    }


class Number(NamedTuple):
    """How many there are, or the most that were counted."""

    n: int
    more: bool = False

    def __str__(self) -> str:
        return f"{self.n:,}{'+' if self.more else ''}"


class Present(NamedTuple):
    """What there is now that somebody may have to look at."""

    as_of: datetime
    orphaned: Number  # runs whose process is dead
    undecided: int  # runs whose process is elsewhere, and may be dead
    asking: Number  # runs with open questions
    due: Number  # runs that a worker should execute by now
    workers: list[WorkerInfo]


def present(cp: SyncCheckpointer) -> Present:
    """What there is now. Takes longer the more runs nobody executes."""
    now = cp.core.journals.clock.now()
    seen = survey(cp.core, warn=False)  # pages ask again and again
    undecided = sum(orphan.undecided for orphan in seen)
    asking = cp.store.listed(RunFilter(asking=True), limit=PAGE)
    due = cp.store.due(now, limit=PAGE)
    return Present(
        to_datetime(now),
        Number(sum(not orphan.undecided and not orphan.answered for orphan in seen)),
        undecided,
        Number(len(asking), len(asking) == PAGE),
        Number(len(due), len(due) == PAGE),
        list_workers(cp.core),
    )


def recent_flows(cp: SyncCheckpointer, most: int = 50) -> list[str]:
    """The flows of the newest runs, those with the most runs first."""
    rows = (row for row, _ in cp.store.listed(limit=_NEWEST))
    return [flow for flow, _ in Counter(row.flow for row in rows if row.flow).most_common(most)]
