"""Runs that nobody carries out any more: finding them, and going on with them.

A run is taken over by an append, so going on with one that is not orphaned after all is never
wrong; it only takes the run away from its worker, and what that is doing is done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.core import Core
from holdfast.engine import live, requests, running
from holdfast.engine.history import meta
from holdfast.engine.hold import ABSORBED
from holdfast.engine.options import Options
from holdfast.engine.workers import WORKER, Worker, this_worker
from holdfast.model import Entry, Kind, Status
from holdfast.store import PAGE, RunFilter

SILENT_SECONDS: Final = 900.0
"""After so long without a sign of life, the worker of another machine is taken to be dead."""


class Orphan(NamedTuple):
    """A run that is under way, and nobody carries out."""

    run_id: str
    flow: str | None
    step: str | None
    worker: str  # who carried it out: host and pid
    since: datetime  # its last sign of life


def orphans(
    core: Core, *, flow: str | None = None, silent: float = SILENT_SECONDS, limit: int | None = None
) -> list[Orphan]:
    """The runs under way whose worker is dead, in the order of their ids. Blocks.

    Whether a process of this machine is alive is known; that of another is taken to be dead
    when it has recorded nothing for `silent` seconds. Runs within runs are their parents' matter.
    """
    found: list[Orphan] = []
    after = ""
    deadline = datetime.now(UTC) - timedelta(seconds=silent)
    while limit is None or len(found) < limit:
        heads = core.journals.store.runs(RunFilter(Status.RUNNING.value, flow), after=after)
        for head in heads:
            orphan = _orphan(core, head, deadline)
            found += [] if orphan is None else [orphan]
        if len(heads) < PAGE:
            break
        after = heads[-1].run
    return found[:limit]


async def recover(
    core: Core,
    makes: Mapping[str, running.Make],
    options: Options,
    *,
    silent: float = SILENT_SECONDS,
    at_once: int = 10,
    progress: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Go on with every orphaned run of these flows; returns what each came to: a result or an error.

    `progress` is called with the id of each run that has come to its end, or to where it stops.

    What nobody answered in time is answered first, as it says, and runs that paused for an answer
    which has come since go on, too.

    Runs of other flows are left alone. One that another worker takes first is that one's.
    """
    places = asyncio.Semaphore(at_once)
    came: dict[str, Any] = {}

    async def go_on(orphan: Orphan) -> None:
        async with places:
            try:
                plan = await running.resume(
                    core, makes[str(orphan.flow)], orphan.run_id, None, options
                )
                came[orphan.run_id] = await running.carry_out(plan)
            except Exception as error:
                came[orphan.run_id] = error
            if progress is not None:
                progress(orphan.run_id)

    await core.drive_async(requests.apply_deadlines(core))
    found = await core.off_loop(lambda: orphans(core, silent=silent))
    await asyncio.gather(*(go_on(orphan) for orphan in found if orphan.flow in makes))
    return came


def _orphan(core: Core, head: Entry, deadline: datetime) -> Orphan | None:
    opening = core.journals.opening(head.run)
    if live.is_carried_out(head.run) or opening is None or meta(opening).get("parent"):
        return None
    entries = core.journals.entries(head.run, newest_first=True, bodies=False)
    last = next((e for e in entries if e.kind not in ABSORBED), opening)  # of a worker's own
    taken_by = next((e for e in chain([last], entries) if e.kind == Kind.CLAIM), opening)
    worker = Worker.parse(meta(taken_by).get(WORKER))
    since = to_datetime(head.at)
    if last.status == Status.PAUSED:
        pass  # it stopped there, and what it waited for was answered since
    elif worker is not None and worker.is_here:
        if worker != this_worker() and worker.is_alive:
            return None
    elif since > deadline:
        return None
    named = "unknown" if worker is None else f"{worker.host}:{worker.pid}"
    return Orphan(head.run, head.flow, head.step, named, since)
