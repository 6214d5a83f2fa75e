"""Undoing what a run did, when it failed or was cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.engine import events as ev
from holdfast.engine.run.failures import describe
from holdfast.errors import RunCancelledError
from holdfast.model import Kind, Status

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run


async def roll_back(run: Run, error: BaseException) -> list[str] | None:
    """Undo the finished steps that say how; returns their keys, or None if none do.

    That it began is recorded, and each step that was undone, so that a crash in the middle
    neither forgets the rest nor undoes anything twice.
    """
    tasks = run.program.compensations()
    if not tasks:
        return None
    names = tuple(task.name for task in tasks)
    undone = dict(run.behind.undone)
    if run.behind.failure is None:
        facts = {"of": "rollback", "cancel": isinstance(error, RunCancelledError) or None}
        begun = run.recorder.note(Kind.FAIL, Status.RUNNING, facts, value=describe(error))
        await run.recorder.save([begun], urgent=True)
    run.emit(ev.RollbackStarted(run.run_id, names))
    await run.hand_over()
    run.undoing = True
    run.steps.calm_down()
    for task in tasks:
        if task.key in undone:
            continue
        for done in await run.steps.execute([task]):
            undone[task.key] = "" if done.error is None else str(done.error)
        note = run.recorder.note(
            Kind.DECISION, Status.RUNNING, {"undone": undone.get(task.key, "")}, step=task.key
        )
        await run.recorder.save([note], urgent=True)
    errors = {key: why for key, why in undone.items() if why}
    run.emit(ev.RollbackCompleted(run.run_id, names, errors))
    if errors:
        error.add_note("not everything could be undone: " + "; ".join(errors.values()))
    return [task.key for task in tasks]
