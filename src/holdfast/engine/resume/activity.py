"""Whether a run is being executed, for those who look at it."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from holdfast.checkpoint import RunInfo, to_datetime
from holdfast.codec.meta import Meta
from holdfast.engine.holding.observing import standing
from holdfast.engine.resume.stops import TIMER, resume_requested
from holdfast.heads import OF_STEPS
from holdfast.kernel.core import Core
from holdfast.model import Status
from holdfast.operations.children import family


class Activity(NamedTuple):
    """Whether a run is being executed, and by which process."""

    holder: str | None  # host and pid, dead or alive; None if none is known, or it left the run
    orphaned: bool  # the run is under way, and nobody executes it
    answered: bool  # it paused for an answer, which has come: it waits to be resumed
    due: datetime | None = None  # from then on workers continue it: it was submitted, sleeps, or
    # somebody asked for it


_STOPPED: Final = (Status.SUBMITTED, Status.PAUSED, Status.FAILED, Status.OPEN)


def is_for_workers(core: Core, run_id: str) -> bool:
    """Whether a worker is to continue a run that has not stopped for people. Blocks."""
    head = core.journals.head(run_id)
    if head is None:
        return False
    if resume_requested(core, head) is not None:
        return True
    if head.status == Status.PAUSED:
        if Meta(head).waits_for not in (TIMER, "child"):
            return False
        if Meta(head).due is not None:
            return True
        if not child_answered(core, run_id):
            return False
    if head.status in (Status.RUNNING, Status.PAUSED):
        opening = core.journals.opening(run_id)
        return opening is not None and opening.status == Status.SUBMITTED
    return head.status == Status.SUBMITTED


def child_answered(core: Core, run_id: str) -> bool:
    """Whether a child run of a run was answered, and not continued since. Blocks."""
    return any(standing(core, head, bury=False).answered for head in family(core, run_id))


def activity_of(core: Core, run: RunInfo) -> Activity:
    """Who executes a run, according to its journal and the slots. Writes nothing. Blocks.

    A run that is not under way has no holder.
    """
    if run.status in _STOPPED:
        return Activity(None, orphaned=False, answered=False, due=due_of(core, run.run_id))
    head = core.journals.head(run.run_id) if run.status == Status.RUNNING else None
    if head is None or head.status != Status.RUNNING:
        return Activity(None, orphaned=False, answered=False)
    found = standing(core, head, bury=False)
    holder = None
    if found.holder is not None and found.why != "released":
        holder = found.holder.process.name
    orphaned = found.why is not None and not found.answered
    return Activity(holder, orphaned=orphaned, answered=found.answered)


def due_of(core: Core, run_id: str) -> datetime | None:
    """When a run that stopped is to be continued, as it or somebody else says. Blocks."""
    head = core.journals.head(run_id)
    if head is not None and head.seq != head.term:
        head = resume_requested(core, head) or core.journals.entry(run_id, head.term)
    due = None if head is None or head.kind in OF_STEPS else Meta(head).due
    return None if due is None else to_datetime(due)
