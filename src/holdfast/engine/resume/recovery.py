"""Runs that nobody executes any more: finding and resuming them.

A run is taken over by an append, so resuming one that is not orphaned after all is safe: its
holder loses the run, and the step under way is executed again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.codec.meta import Meta
from holdfast.engine import launch
from holdfast.engine.people import requests
from holdfast.engine.resume.holders import SILENT_SECONDS, is_at_work, last_holder, silent_since
from holdfast.engine.run import live
from holdfast.errors import CheckpointCorruptedError, HoldfastError, RunActiveError
from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_runs
from holdfast.model import Entry, Status
from holdfast.store import RunFilter

_STOPPED: Final = (Status.COMPLETED, Status.CANCELLED, Status.FAILED, Status.DELETED)

log = logging.getLogger("holdfast")


class Orphan(NamedTuple):
    """A run that is under way although nobody executes it."""

    run_id: str
    flow: str | None
    step: str | None
    holder: str  # the process that executed it: host and pid
    since: datetime  # when it recorded its last entry
    answered: bool  # it paused for an answer, which has come


def orphans(
    core: Core, *, flow: str | None = None, silent: float = SILENT_SECONDS, limit: int | None = None
) -> list[Orphan]:
    """The runs under way whose holder is dead, in the order of their ids. Blocks.

    Whether a process of this machine is alive is known; one of another machine is considered
    dead when it has recorded nothing for `silent` seconds. Child runs are left to their parents,
    and a run that can't be read is logged and skipped.
    """
    found: list[Orphan] = []
    deadline = silent_since(core, silent)
    for head in all_runs(core.journals.store, RunFilter(Status.RUNNING.value, flow)):
        if limit is not None and len(found) >= limit:
            break
        try:
            orphan = _orphan(core, head, deadline)
        except CheckpointCorruptedError as error:  # the others are still to be found
            log.warning("the holder of run %s can't be read: %s", head.run, error)
            continue
        found += [] if orphan is None else [orphan]
    return found


async def recover(
    core: Core,
    flows: Collection[str],
    prepare: Callable[[str], Awaitable[launch.Prepared | launch.Recorded]],
    *,
    silent: float = SILENT_SECONDS,
    at_once: int = 10,
    progress: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Resume every orphaned run of these flows; returns the result or error of each by run id.

    `prepare` takes over the run of an id. `progress` is called with the id of each run that has
    stopped. Overdue questions are answered first, and runs that paused for an answer which has
    come are resumed, too. Runs of other flows are left alone, and so is one that another process
    takes over first.
    """
    places = asyncio.Semaphore(at_once)
    came: dict[str, Any] = {}

    async def resume(orphan: Orphan) -> None:
        async with places:
            try:
                came[orphan.run_id] = await launch.execute(await prepare(orphan.run_id))
            except RunActiveError:
                pass  # this process has just begun to execute it
            except Exception as error:
                came[orphan.run_id] = error
            if progress is not None:
                progress(orphan.run_id)

    for flow in flows:
        try:
            await core.drive_async(requests.apply_deadlines(core, flow=flow))
        except HoldfastError as error:  # runs that wait for no answer are resumed all the same
            log.warning("the deadlines of %s were not applied: %s", flow, error)
    found = await core.off_loop(lambda: orphans(core, silent=silent))
    await asyncio.gather(*(resume(orphan) for orphan in found if orphan.flow in flows))
    return came


def _orphan(core: Core, head: Entry, deadline: datetime) -> Orphan | None:
    if live.is_executed_here(head.run):
        return None
    opening = core.journals.opening(head.run)
    if opening is None or Meta(opening).parent:
        return None
    last, holder = last_holder(core, head.run)
    last = last or opening
    if last.status in _STOPPED:
        return None  # since it was listed
    since = to_datetime(head.at)
    if last.status != Status.PAUSED and is_at_work(holder, since > deadline):
        return None  # else it stopped there, and what it waited for was answered since
    named = "unknown" if holder is None else holder.name
    answered = last.status == Status.PAUSED
    return Orphan(head.run, head.flow, head.step, named, since, answered)
