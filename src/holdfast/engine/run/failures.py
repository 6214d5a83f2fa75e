"""Failures as they are recorded: made from an exception, and read back with the same message."""

from __future__ import annotations

from typing import Any, Final

from holdfast.engine.program import Task
from holdfast.engine.tracebacks import written
from holdfast.errors import CheckpointCorruptedError, RunError, StepFailedError
from holdfast.model import Entry
from holdfast.revealed import scrubbed

_LONGEST_TRACE: Final = 20_000
_LONGEST_MESSAGE: Final = 2_000  # of a group
_OURS: Final = ("holdfast.engine.", "concurrent.futures.", "asyncio.")


def failure(run_id: str, task: Task, error: BaseException, attempts: int) -> StepFailedError:
    """What the flow gets for a failed step: the same message live and after a resume."""
    if isinstance(error, StepFailedError) and error.step == task.key and task.child is None:
        return error
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
        trace = trace.tb_next  # begin in the step's own code
    shown = error if trace is None else error.with_traceback(trace)
    lines = scrubbed(written(shown, task.fn))[-_LONGEST_TRACE:]
    failed = StepFailedError(task.key, type_name(error), message_of(error), attempts, lines, run_id)
    failed.__cause__ = error
    if isinstance(error, RunError):
        failed.state = error.state
    return failed


def given_up(run_id: str, task: Task, deaths: int, attempts: int) -> StepFailedError:
    """The failure of a step that is not tried again: too many processes died in it."""
    message = f"its process died {deaths} times; resume the run to try once more"
    return StepFailedError(task.key, "crash", message, attempts, "", run_id)


def type_name(error: BaseException) -> str:
    """An error's type by name, for those who can't import it."""
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def message_of(error: BaseException) -> str:
    """What an error says, without secrets; that of a group also what each in it says, once."""
    if not isinstance(error, BaseExceptionGroup):
        return scrubbed(str(error))
    parts = dict.fromkeys(f"{type_name(one)}: {message_of(one)}" for one in error.exceptions)
    return f"{scrubbed(str(error))}: {'; '.join(parts)}"[:_LONGEST_MESSAGE]


def describe(error: BaseException) -> dict[str, Any]:
    """An error as it is recorded."""
    failed = error if isinstance(error, StepFailedError) else failure("", Task("", ""), error, 1)
    return {
        "type": failed.error_type,
        "message": failed.message,
        "step": failed.step,
        "attempts": failed.attempts,
        "trace": failed.trace,
    }


def failure_in(entry: Entry, recorded: Any) -> StepFailedError:
    """The failure that an entry records with this value. Raises `CheckpointCorruptedError`."""
    try:
        step, attempts = recorded.get("step", ""), recorded.get("attempts", 1)
        return StepFailedError(
            step, recorded["type"], recorded["message"], attempts, recorded["trace"], entry.run
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, f"no failure: {error!r}") from None
