"""The events of a run. Each carries the run's id, and has a JSON form.

Users import them from `holdfast.events`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from holdfast.codec import readable


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened in a run."""

    run_id: str

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON has it, for `json.dumps`: "event" is its name, the rest its fields.

        Values are in the readable form of stored ones (docs/format.md), errors are text. What
        can't be stored is shown by its `repr`.
        """
        names = [one.name for one in fields(self) if not one.name.startswith("_")]
        names += ["value"] if isinstance(self, StepCompleted) else []
        told = {name: _plain(name, getattr(self, name)) for name in names}
        return {"event": type(self).__name__, **told}


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
class StepOutput(StepEvent):
    """A part of what a step makes, before it is finished: see `current_step().emit`."""

    value: Any


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
    until: datetime | None = None  # when a worker continues it by itself


@dataclass(frozen=True, slots=True)
class RunCompleted(Event):
    """The run ended with a result."""

    result: Any
    duration: float = 0.0
    saved: bool = True  # False: the store did not take its end (`on_save_failure="warn"`)


@dataclass(frozen=True, slots=True)
class RunFailed(Event):
    """The run failed. It can be resumed, unless it was rolled back."""

    error: BaseException
    step: str | None = None


@dataclass(frozen=True, slots=True)
class RunCancelled(Event):
    """The run was cancelled."""


def _plain(name: str, value: Any) -> Any:
    """A field of an event as JSON has it."""
    if isinstance(value, tuple) and name not in ("value", "result"):  # a list of names
        value = list(value)
    if isinstance(value, datetime) and name == "until":
        return value.isoformat()
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {_text(str, value)}"
    try:
        return readable.to_json(value)
    except Exception:  # an event has a JSON form, whatever its value
        return _text(repr, value)


def _text(make: Callable[[Any], str], value: Any) -> str:
    """What `str` or `repr` makes of a value of the user's, whose own methods may fail."""
    try:
        return make(value)
    except Exception:
        return f"<{type(value).__name__}>"
