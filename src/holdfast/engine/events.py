"""The events of a run. Each carries the run's id, and has a JSON form.

Users import them from `holdfast.events`. Those of a checkpointer are in `holdfast.kernel.events`.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Final, Self

from holdfast.errors import StepFailedError
from holdfast.kernel.events import Event as Event  # others have it from here

_MOST_MEASURED: Final = 100_000  # objects in a value


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """The run starts, or resumes where it stopped."""

    flow: str
    resumed: bool = False
    restored: int = 0  # steps that were finished before, and are not run again
    parent: str | None = None  # of a child run: the run that it is a part of
    parent_step: str | None = None  # and the step of that run that it is
    trace: str | None = None  # recorded when the run was opened: a W3C traceparent


@dataclass(frozen=True, slots=True)
class StepEvent(Event):
    """An event of one step. `step` is unique in the run, `name` is what the flow calls it."""

    step: str
    name: str


@dataclass(frozen=True, slots=True)
class StepStarted(StepEvent):
    """A step is about to be executed."""

    attempt: int = 1


@dataclass(frozen=True, slots=True)
class StepProgress(StepEvent):
    """A step reports its progress."""

    fraction: float | None = None  # 0 to 1, if known
    message: str = ""


@dataclass(frozen=True, slots=True)
class StepOutput(StepEvent):
    """A part of what a step makes, before it is finished: see `current_step().emit`."""

    value: Any

    @property
    def held(self) -> int:
        """About how many bytes its value has."""
        return _size(self.value)


@dataclass(frozen=True, slots=True)
class StepCompleted(StepEvent):
    """A step is finished, and as durable as the checkpointer is set to make it."""

    duration: float = 0.0
    attempts: int = 1
    _show: Callable[[], Any] = field(default=lambda: None, repr=False, compare=False)
    _size: int = field(default=0, repr=False, compare=False)

    also: ClassVar[tuple[str, ...]] = ("value",)

    @property
    def held(self) -> int:
        """How many bytes its result has, as recorded."""
        return self._size

    @property
    def value(self) -> Any:
        """Its result, as recorded: a new copy each time."""
        return self._show()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(run_id={self.run_id!r}, step={self.step!r}, "
            f"value={self.value!r}, duration={self.duration:.6f}, attempts={self.attempts})"
        )


@dataclass(frozen=True, slots=True)
class StepRetrying(StepEvent):
    """An attempt failed; there will be another after `delay` seconds."""

    attempt: int
    error: str
    delay: float
    error_type: str = ""  # the error without its message, which may quote values


@dataclass(frozen=True, slots=True)
class StepFailed(StepEvent):
    """A step failed after its last attempt. The flow may handle that."""

    error: str
    attempts: int = 1
    error_type: str = ""


@dataclass(frozen=True, slots=True)
class StepSkipped(StepEvent):
    """A step, or its failure, was skipped."""

    reason: str


@dataclass(frozen=True, slots=True)
class StepArgumentsChanged(StepEvent):
    """A recorded step is called with other arguments now. Its recorded result is used."""


@dataclass(frozen=True, slots=True)
class CheckpointSaved(Event):
    """A step's outcome is durable: it will not be executed again."""

    checkpoint_id: str
    step: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class CheckpointFailed(Event):
    """Saving failed, and the run continues without it (`on_save_failure="warn"`)."""

    step: str | None
    error: str
    error_type: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointRejected(Event):
    """The run does not continue from this checkpoint: it does not verify any more."""

    checkpoint_id: str
    step: str | None
    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class RollbackStarted(Event):
    """The run failed or was cancelled: the steps named are undone, in this order."""

    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RollbackCompleted(Event):
    """The steps were undone, except those in `errors`."""

    steps: tuple[str, ...]
    errors: dict[str, str] = field(
        default_factory=dict
    )  # by step: what could not be undone, and why

    @property
    def success(self) -> bool:
        """Whether all of it was undone."""
        return not self.errors


@dataclass(frozen=True, slots=True)
class QuestionAsked(Event):
    """The run asks a person."""

    question: str
    prompt: str


@dataclass(frozen=True, slots=True)
class RunPaused(Event):
    """The run stopped, to be resumed: after the questions were answered, if it has any open."""

    questions: tuple[str, ...] = ()
    until: datetime | None = None  # when a worker continues it by itself

    stops: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RunCompleted(Event):
    """The run ended with a result."""

    result: Any
    duration: float = 0.0
    saved: bool = True  # False: the store did not take its end (`on_save_failure="warn"`)

    stops: ClassVar[bool] = True

    @property
    def held(self) -> int:
        """About how many bytes its result has."""
        return _size(self.result)

    def kept(self) -> Self:
        """The event with a copy of the result, which belongs to whoever executed the run."""
        return replace(self, result=copied(self.result))


@dataclass(frozen=True, slots=True)
class RunFailed(Event):
    """The run failed. It can be resumed, unless it was rolled back."""

    error: BaseException
    step: str | None = None

    also: ClassVar[tuple[str, ...]] = ("error_type",)
    stops: ClassVar[bool] = True

    @property
    def error_type(self) -> str:
        """The error without its message: that of the failed step, if a step failed."""
        if isinstance(self.error, StepFailedError):
            return self.error.error_type
        kind = type(self.error)
        return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


@dataclass(frozen=True, slots=True)
class RunCancelled(Event):
    """The run was cancelled."""

    stops: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RunStopped(Event):
    """This process stopped executing the run, which did not end: it is to be resumed.

    The engine was closed, the task that awaited the run was cancelled, the store is unavailable, or
    another process took the run over. Only listeners get this event; who follows the run gets the
    error.
    """

    error_type: str

    stops: ClassVar[bool] = True


def copied(value: Any) -> Any:
    """A copy that nobody else can change; what can't be copied is handed on as it is."""
    if type(value) in (str, bytes, int, float, bool, type(None)):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # it may raise anything: a generator, a lock, a class of the user's
        return value


def _size(value: Any) -> int:
    """About how many bytes a value has, with what is in it."""
    size = 0
    seen: set[int] = set()
    todo = [value]
    while todo and len(seen) < _MOST_MEASURED:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        size += sys.getsizeof(one, 0)
        if isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            todo += one
        else:
            todo += getattr(one, "__dict__", {}).values()
    return size
