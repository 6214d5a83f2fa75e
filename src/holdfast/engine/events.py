"""The events of a run. Each carries the run's id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened in a run."""

    run_id: str

    @property
    def workflow_id(self) -> str:
        """The run's id, in the word of workflows."""
        return self.run_id


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """The run starts, or resumes where it stopped."""

    flow: str
    resumed: bool = False
    restored: int = 0  # steps that were finished before, and are not run again


@dataclass(frozen=True, slots=True)
class StepEvent(Event):
    """Something happened to one step. `step` is unique in the run, `name` is what the flow calls it."""

    step: str
    name: str


@dataclass(frozen=True, slots=True)
class StepStarted(StepEvent):
    """A step is about to be executed."""

    attempt: int = 1


@dataclass(frozen=True, slots=True)
class StepProgress(StepEvent):
    """A step reports its progress."""

    fraction: float | None = None  # 0 to 1, if it can tell
    message: str = ""


@dataclass(frozen=True, slots=True)
class StepCompleted(StepEvent):
    """A step is finished, and as durable as the checkpointer is set to make it."""

    duration: float = 0.0
    attempts: int = 1
    _show: Callable[[], Any] = field(default=lambda: None, repr=False, compare=False)

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


@dataclass(frozen=True, slots=True)
class StepFailed(StepEvent):
    """A step failed after its last attempt. The flow may handle that."""

    error: str
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class StepSkipped(StepEvent):
    """A step, or its failure, was skipped."""

    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointSaved(Event):
    """A step's outcome is durable: it will not be executed again."""

    checkpoint_id: str
    step: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class CheckpointFailed(Event):
    """Saving failed, and the run continues without (`on_save_failure="warn"`)."""

    step: str | None
    error: str


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


@dataclass(frozen=True, slots=True)
class RunCompleted(Event):
    """The run ended with a result."""

    result: Any
    duration: float = 0.0


@dataclass(frozen=True, slots=True)
class RunFailed(Event):
    """The run failed. It can be resumed, unless it was rolled back."""

    error: BaseException
    step: str | None = None


@dataclass(frozen=True, slots=True)
class RunCancelled(Event):
    """The run was cancelled."""
