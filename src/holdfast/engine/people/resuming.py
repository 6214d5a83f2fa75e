"""Asking workers to continue a run that they would leave alone: it failed, was paused or forked."""

from __future__ import annotations

from functools import partial

from holdfast.codec.meta import DUE, Meta, dump_meta
from holdfast.engine.holding.observing import refuse_if_held
from holdfast.engine.people.inbox import questions
from holdfast.engine.people.requests import continuable
from holdfast.engine.resume.activity import child_answered, due_of
from holdfast.engine.resume.history import History
from holdfast.engine.resume.stops import (
    RESUME,
    resume_requested,
    waits_by_itself,
)
from holdfast.errors import FlowChangedError, HoldfastError, RunActiveError, RunPausedError
from holdfast.kernel.appending import append_if
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.model import Entry, Kind, Status, check_id
from holdfast.operations.children import family, root_of
from holdfast.operations.saving import said_by


class _NothingToDoError(Exception):
    """Workers continue the run already."""


def submit_resume(core: Core, run_id: str, *, by: str | None = None) -> Op[bool]:
    """Have a worker continue a run that stopped; returns when that is durable.

    Returns False, and writes nothing, where a worker continues it anyway. `by` is recorded. Raises
    `CheckpointNotFoundError`, `RunFinishedError`, `RunActiveError` while a living process executes
    it or if it is a child run, `RunPausedError` where it waits for an answer or sleeps, and
    `FlowChangedError` for a run that no flow began.
    """
    check_id("run_id", run_id)
    signed = said_by(by)
    yield partial(_check, core, run_id)

    def decide(head: Entry | None) -> Draft:
        found = continuable(run_id, head)
        if _is_for_workers(core, found):
            raise _NothingToDoError
        facts = {"action": RESUME, DUE: core.journals.clock.now(), **signed}
        return Draft(Kind.REQUEST.value, found.status, step=found.step, meta=dump_meta(facts))

    try:
        yield from append_if(core, run_id, decide)
    except _NothingToDoError:
        return False
    return True


def continues_by_itself(core: Core, run_id: str) -> bool:
    """Whether a worker continues the run without being asked: asking changes nothing. Blocks."""
    try:
        _check(core, run_id)
        return _is_for_workers(core, continuable(run_id, core.journals.head(run_id)))
    except HoldfastError:  # who asks is told
        return False


def _check(core: Core, run_id: str) -> None:
    """Raise for a run that no worker can continue. Blocks."""
    opening = core.journals.opening(run_id)
    if opening is not None and Meta(opening).inputs_hash is None:
        raise FlowChangedError(
            run_id, ("it was not started by a flow",), "Load its state and start a flow with it."
        )
    root = root_of(core, run_id)
    if root is not None and root.run != run_id:
        head = core.journals.head(run_id)
        status = root.status if head is None else head.status
        raise RunActiveError(run_id, status, advice=f"it is a part of {root.run!r}: resume that")


def _is_for_workers(core: Core, head: Entry) -> bool:
    """Whether workers continue the run already. Raises if they can't. Blocks."""
    if head.status == Status.RUNNING:
        refuse_if_held(core, head)
    if head.status in (Status.RUNNING, Status.PAUSED) and head.flow is not None:
        asked_to_pause = History(core, head.run, whole=False).asked_to_pause
        if asked_to_pause is not None:
            return False  # that is taken back
    if head.status == Status.RUNNING:
        return True
    if head.status == Status.SUBMITTED or resume_requested(core, head) is not None:
        return True
    if head.status == Status.PAUSED and waits_by_itself(core, head):
        due = due_of(core, head.run)
        if due is not None and due.timestamp() * 1e6 <= core.journals.clock.now():
            return True
        asked = tuple(one.key for one in questions(core, head.run))
        if not asked and due is None:
            if child_answered(core, head.run):
                return True
            below = [one for one in family(core, head.run) if one.run != head.run]
            if not any(questions(core, one.run) for one in below):
                return False  # somebody paused a child run of it
            advice = "a child run of it waits for an answer: give that"
            raise RunActiveError(head.run, head.status, advice=advice)
        raise RunPausedError(head.run, asked, due)
    return False
