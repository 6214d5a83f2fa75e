"""Rolling back a run of a flow, unless a living process executes it."""

from __future__ import annotations

from functools import partial

from holdfast.checkpoint import Checkpoint
from holdfast.engine.holding.observing import standing
from holdfast.errors import RunActiveError, RunFinishedError
from holdfast.kernel import compose
from holdfast.kernel.appending import append_if
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.model import Entry, Kind, Status
from holdfast.operations import forking
from holdfast.operations.reading import require
from holdfast.operations.saving import said_by


class _AlreadyThereError(Exception):
    """The last thing that was done to the run is this rollback."""


def rollback_unheld(
    core: Core, run_id: str, place: str, *, by: str | None = None
) -> Op[tuple[Checkpoint, bool]]:
    """Make an earlier checkpoint the current one; that checkpoint, and whether this was new.

    Whether somebody executes the run is decided about the very entry that the rollback follows. A
    second rollback to the same place writes nothing. Raises `RunActiveError` while a living process
    executes the run, `CheckpointNotFoundError`, and `RunFinishedError` if it was deleted.
    """
    signed = said_by(by)
    target: Checkpoint = yield partial(require, core, run_id, None, place)
    yield partial(forking.refuse_undone, core, run_id, target.seq)
    draft = compose.rollback_to(target.entry, signed)

    def decide(head: Entry | None) -> Draft:
        if head is None:
            return draft  # the newest entry is damaged: this repairs the run
        if head.status == Status.DELETED:
            raise RunFinishedError(run_id, Status.DELETED)
        if head.kind == Kind.ROLLBACK and head.parent == target.seq:
            raise _AlreadyThereError
        refuse_if_executed(core, head)
        return draft

    try:
        yield from append_if(core, run_id, decide, past_damage=True)
    except _AlreadyThereError:
        return target, False
    return target, True


def refuse_if_executed(core: Core, head: Entry) -> None:
    """Raise `RunActiveError` if a living process executes the run with this head. Blocks."""
    found = standing(core, head)
    if found.why is None:
        advice = "pause it first, and then roll it back"
        raise RunActiveError(head.run, head.status, found.name, advice)
