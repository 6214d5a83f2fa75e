"""How a run ends: completed, failed, cancelled or timed out; and undoing its steps if it must."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from holdfast.engine import events as ev
from holdfast.engine.options import Strategy
from holdfast.engine.run.failures import describe
from holdfast.errors import (
    CheckpointSaveError,
    HoldfastError,
    RunCancelledError,
    RunError,
    RunTimeoutError,
    StepFailedError,
    StepNotAwaitedError,
    UnansweredError,
)
from holdfast.kernel import compose
from holdfast.kernel.draft import Draft
from holdfast.model import Kind, Status
from holdfast.operations.retention import after_run

if TYPE_CHECKING:
    from holdfast.engine.run.execute import Finished
    from holdfast.engine.run.loop import Run


async def complete(run: Run) -> Any:
    """Record the end of the run, with its result unless the newest checkpoint is the result."""
    program = run.program
    await run.take_up()
    encoding = None
    if program.flow.replays or not run.options.strategy.saves_all:
        try:
            recorded = program.recorded_result
            encoding = compose.encode(run.core, run.run_id, recorded, root="result")
            result = program.revive_result(run.core.journals.decode(encoding))
        except HoldfastError as error:
            return await fail(run, error)
    else:
        result = program.result
    stamp = program.flow.stamp_text
    end = Draft(Kind.COMPLETE.value, Status.COMPLETED.value, encoding, meta=stamp)
    run.recorder.forget_unsaved()
    await run.recorder.save_and_announce([end], urgent=True)
    run.emit(ev.RunCompleted(run.run_id, result, perf_counter() - run.began, run.saved))
    await _retain(run)
    return result


def let_go(run: Run) -> None:
    """The run has stopped, and nothing is under way: break the cycles of what it kept.

    It is then freed at once, and not left to the garbage collector. What others may still ask of
    the run does without, such as to stop: they may not know yet that it has.
    """
    del run.results, run.program.abandon
    run.steps.let_go()
    run.recorder.let_go()


async def time_out(run: Run) -> None:
    """Pause the run, with everything saved that is finished. Raises `RunTimeoutError`."""
    assert run.options.timeout is not None
    note = run.recorder.note(Kind.PAUSE, Status.PAUSED, {"reason": "timeout"})
    await run.recorder.save_and_announce([note], urgent=True)
    late = RunTimeoutError(run.run_id, run.options.timeout)
    late.state = run.program.state
    run.recorder.tell_if_unsaved(late)
    run.emit(ev.RunFailed(run.run_id, late))
    raise late


async def cancel(run: Run) -> Any:
    """Undo the finished steps and end the run. Raises `RunCancelledError`."""
    error = RunCancelledError(run.run_id)
    error.state = run.program.state
    await run.take_up()
    undone = await roll_back(run, error)
    end = run.recorder.note(Kind.CANCEL, Status.CANCELLED, {"rolled_back": undone})
    await run.recorder.save_and_announce([end], urgent=True)
    run.recorder.tell_if_unsaved(error)
    run.emit(ev.RunCancelled(run.run_id))
    await _retain(run)
    raise error


async def fail(run: Run, error: BaseException, done: Finished | None = None) -> Any:
    """Undo the finished steps that say how, record the failure and raise it."""
    if isinstance(error, RunError) and error.state is None:
        error.state = run.program.state
    step = error.step if isinstance(error, StepFailedError | UnansweredError) else None
    task = None if done is None else done.task
    step = step if task is None else task.key
    drafts = []
    if run.options.strategy in (Strategy.EVERY_STEP, Strategy.ON_ERROR):
        for record in run.program.at_failure(task):
            took = done.last if done is not None and record.status is Status.FAILED else None
            drafts.append(run.recorder.draft(record, took))
    try:
        await run.take_up()
        forgotten = isinstance(error, StepNotAwaitedError)  # to be corrected, and resumed
        undone = None if forgotten else await roll_back(run, error)
        facts = {"of": "run", "step": step, "rolled_back": undone, **_steps_behind(error)}
        end = run.recorder.note(Kind.FAIL, Status.FAILED, facts, value=describe(error), step=step)
        await run.recorder.save_and_announce([*drafts, end], urgent=True)
    except CheckpointSaveError as unsaved:
        raise unsaved from error  # that it failed could not even be recorded
    run.recorder.tell_if_unsaved(error)
    run.emit(ev.RunFailed(run.run_id, error, step))
    await _retain(run)
    raise error


async def roll_back(run: Run, error: BaseException) -> list[str] | None:
    """Undo the finished steps that say how; returns their keys, or None if none do.

    The beginning and each undone step are recorded, so that a crash in the middle neither forgets
    the rest nor undoes anything twice.
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
        run.check_lease()
        finished = await run.steps.execute([task])
        if not finished:
            run.check_lease()  # it was interrupted, and is not undone
        for done in finished:
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


async def _retain(run: Run) -> None:
    """Apply a bit of retention, if the checkpointer has any."""
    if run.parent is None and run.core.settings.retention:
        appended = run.hold.seq - run.hold.term
        await run.hold.off_loop(partial(after_run, run.core, run.run_id, appended))


def _steps_behind(error: BaseException) -> dict[str, Any]:
    """The steps whose failure the error tells about, or the flow turned into an error of its own."""
    steps = _steps_in(error)
    if steps and not isinstance(error, BaseExceptionGroup):
        return {"others": steps[1:] or None}
    behind = steps or _steps_in(error.__cause__ or error.__context__)
    return {"cause": behind[0], "others": behind[1:] or None} if behind else {}


def _steps_in(error: BaseException | None) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [step for one in error.exceptions for step in _steps_in(one)]
    if isinstance(error, StepFailedError):
        return [error.step, *(other.step for other in error.others)]
    return [error.step] if isinstance(error, UnansweredError) else []
