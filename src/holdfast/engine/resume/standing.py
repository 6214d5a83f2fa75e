"""What a run that is under way is really doing: whether anyone carries it out. Blocks."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from holdfast.checkpoint import RunInfo, to_datetime
from holdfast.engine.resume.recovery import SILENT_SECONDS, is_at_work
from holdfast.engine.resume.workers import last_work
from holdfast.engine.run import live
from holdfast.kernel.core import Core
from holdfast.model import Status


class Standing(NamedTuple):
    """Who carries a run out."""

    carried_out_by: str | None  # its worker, dead or alive: host and pid; None if none is known
    orphaned: bool  # it is under way, and its worker is dead
    answered: bool  # it stopped for an answer, which has come: it waits to be resumed


def standing(core: Core, run: RunInfo, *, silent: float = SILENT_SECONDS) -> Standing:
    """Who carries a run out, as its journal and this machine tell. Writes nothing.

    A worker of another machine is taken to be dead when it has recorded nothing for `silent`
    seconds. Runs that are not under way have nobody.
    """
    if run.status != Status.RUNNING:
        return Standing(None, orphaned=False, answered=False)
    last, worker = last_work(core, run.run_id)
    if last is not None and last.status == Status.PAUSED:
        return Standing(None, orphaned=False, answered=True)
    deadline = to_datetime(core.journals.clock.now()) - timedelta(seconds=silent)
    lives = live.is_carried_out(run.run_id) or is_at_work(worker, run.updated_at > deadline)
    return Standing(None if worker is None else worker.name, orphaned=not lives, answered=False)
