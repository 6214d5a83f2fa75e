"""Runs that nobody executes any more: finding and resuming them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.codec.meta import Meta
from holdfast.engine import launch
from holdfast.engine.holding.lease import Holder
from holdfast.engine.holding.observing import (
    Standing,
    look_again_within,
    standing,
    standing_of,
)
from holdfast.engine.people import requests
from holdfast.engine.resume.stops import waits_by_itself
from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    RunActiveError,
    RunFinishedError,
)
from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_listed
from holdfast.logs import about, logger
from holdfast.model import Entry, Status
from holdfast.operations.children import root_of
from holdfast.store import RunFilter

log = logger()

_MOST: Final = 10_000  # runs that wait to be continued; workers take them
_LOOK: Final = 0.5  # seconds between two looks at processes elsewhere, at most


class Orphan(NamedTuple):
    """A run that is under way although nobody executes it."""

    run_id: str
    flow: str | None
    step: str | None
    holder: str  # the process that executed it: host and pid; "unknown" if it left the run
    since: datetime  # when it recorded its last entry
    answered: bool  # it, or a child run of it, paused for an answer, which has come
    undecided: bool = False  # its process is elsewhere, and may be alive
    patience: float = 0.0  # seconds until that is decided, at most


def survey(
    core: Core,
    flows: Collection[str] | None = None,
    *,
    bury: bool = False,
    warn: bool = True,
    damaged: Callable[[str, CheckpointCorruptedError], object] = lambda *_: None,
) -> list[Orphan]:
    """The runs under way that nobody executes, in the order of their ids. Blocks.

    Whether a process of this machine is alive is known at once. One elsewhere has to be looked at
    for a while: until then its runs are undecided. Nothing is written, unless the dead are to be
    buried. Child runs are left to their parents. A run that can't be read is logged, unless nobody
    is to be warned of it again, and `damaged` is called for it.
    """
    found: dict[str, Orphan] = {}
    for head in _not_held(core):
        try:
            orphan = _orphan(core, head, bury)
        except CheckpointCorruptedError as error:  # the others are still to be found
            if warn:
                log.warning(
                    "the holder of run %s can't be read: %s", head.run, error, extra=about(head.run)
                )
            if flows is None or head.flow in flows:
                damaged(head.run, error)
            continue
        if orphan is not None and (flows is None or orphan.flow in flows):
            found.setdefault(orphan.run_id, orphan)
    return [found[name] for name in sorted(found)]


def _not_held(core: Core) -> Iterator[Entry]:
    """The heads of runs under way whose holder may be dead, or that nobody holds. Blocks."""
    store = core.journals.store
    for text in store.holders():
        found = standing_of(core, Holder.parse(text), "", bury=False)
        if found.why is not None or found.undecided:
            yield from (head for _, head in all_listed(store, RunFilter(holder=text)))
    for row in store.due(core.journals.clock.now(), limit=_MOST):
        head = core.journals.head(row.run) if row.status == Status.RUNNING else None
        if head is not None and head.status == Status.RUNNING:
            yield head


def orphans(core: Core) -> list[Orphan]:
    """The runs under way whose holder is dead, in the order of their ids. Blocks."""
    return [orphan for orphan in survey(core) if not orphan.undecided]


async def recover(
    core: Core,
    flows: Collection[str],
    prepare: Callable[[str], Awaitable[launch.Prepared | launch.Recorded]],
    *,
    wait: bool = True,
    at_once: int = 10,
    progress: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Resume every orphaned run of these flows; returns the result or error of each by run id.

    `prepare` takes over the run of an id. `progress` is called with the id of each run that has
    stopped. Overdue questions are answered first, and runs that paused for an answer which has
    come are resumed, too. Runs of other flows are left alone, and so is one that another process
    takes over first. With `wait`, processes elsewhere are looked at until it is clear whether
    they are alive.
    """
    places = asyncio.Semaphore(at_once)
    came: dict[str, Any] = {}

    async def resume(orphan: Orphan) -> None:
        async with places:
            try:
                came[orphan.run_id] = await launch.execute(await prepare(orphan.run_id))
            except (RunActiveError, RunFinishedError):
                return  # another process was faster
            except Exception as error:
                came[orphan.run_id] = error
            if progress is not None:
                progress(orphan.run_id)

    try:
        await core.drive_async(requests.apply_deadlines(core, flows=flows))
    except HoldfastError as error:  # runs that wait for no answer are resumed all the same
        log.warning("the deadlines were not applied: %s", error)
    tasks: dict[str, asyncio.Task[None]] = {}
    try:
        await _begin_all(core, flows, resume, tasks, wait, came.setdefault)
        await asyncio.gather(*tasks.values())
    except (Exception, asyncio.CancelledError):
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        raise
    return came


async def _begin_all(
    core: Core,
    flows: Collection[str],
    resume: Callable[[Orphan], Coroutine[Any, Any, None]],
    tasks: dict[str, asyncio.Task[None]],
    wait: bool,
    damaged: Callable[[str, CheckpointCorruptedError], object],
) -> None:
    """Resume the orphans as soon as it is clear that they are; each in a task."""
    clock, began, told = core.journals.clock, core.journals.clock.monotonic(), False
    while True:
        # The dead are buried now: some of their runs may have to wait until others are finished.
        found = await core.off_loop(lambda: survey(core, flows, bury=True, damaged=damaged))
        for orphan in found:
            if not orphan.undecided and orphan.run_id not in tasks:
                tasks[orphan.run_id] = asyncio.create_task(resume(orphan))
        patience = max((orphan.patience for orphan in found), default=0.0)
        if not wait or clock.monotonic() - began >= patience:
            return
        if not told:
            told = True
            log.info("looking for up to %.0f s whether processes elsewhere are alive", patience)
        await asyncio.sleep(min(_LOOK, look_again_within(core)))


def _orphan(core: Core, head: Entry, bury: bool) -> Orphan | None:
    opening = core.journals.opening(head.run)
    if opening is None:
        return None
    found = standing(core, head, bury=bury)
    if found.why is None and not found.undecided:
        return None
    if Meta(opening).parent:
        return _waiting_root(core, head, found)
    since = to_datetime(head.at)
    return Orphan(
        head.run,
        head.flow,
        head.step,
        "unknown" if found.why == "released" else found.name,
        since,
        found.answered,
        found.undecided,
        found.patience,
    )


def _waiting_root(core: Core, child: Entry, found: Standing) -> Orphan | None:
    """The run that waits for its child run, which was answered, and which nobody executes."""
    root = root_of(core, child.run)
    if root is None or root.status != Status.PAUSED or not waits_by_itself(core, root):
        return None
    since = to_datetime(child.at)
    answered = not found.undecided
    return Orphan(
        root.run,
        root.flow,
        child.step,
        found.name,
        since,
        answered,
        found.undecided,
        found.patience,
    )
