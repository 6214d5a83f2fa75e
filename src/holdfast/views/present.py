"""What there is now that somebody may have to look at, from the index and some journals."""

from collections import Counter
from datetime import datetime
from typing import Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.resume.recovery import survey
from holdfast.engine.working.listing import WorkerInfo, list_workers
from holdfast.store import PAGE, RunFilter

_NEWEST: Final = 200  # runs whose flows are offered


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
    workers: list[WorkerInfo]


def present(cp: SyncCheckpointer, flow: str | None = None) -> Present:
    """What there is now, of all flows or of one. Takes longer the more runs nobody executes."""
    now = cp.core.journals.clock.now()
    flows = None if flow is None else [flow]
    seen = survey(cp.core, flows, warn=False)  # pages ask again and again
    undecided = sum(orphan.undecided for orphan in seen)
    asking = cp.store.listed(RunFilter(asking=True, flow=flow), limit=PAGE)
    return Present(
        to_datetime(now),
        Number(sum(not orphan.undecided and not orphan.answered for orphan in seen)),
        undecided,
        Number(len(asking), len(asking) == PAGE),
        list_workers(cp.core),
    )


def recent_flows(cp: SyncCheckpointer, most: int = 50) -> list[str]:
    """The flows of the newest runs, those with the most runs first."""
    rows = (row for row, _ in cp.store.listed(limit=_NEWEST))
    return [flow for flow, _ in Counter(row.flow for row in rows if row.flow).most_common(most)]
