"""Results of a workflow's run and of its steps, read from its journal."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from holdfast.codec.meta import Meta
from holdfast.engine.resume.history import History
from holdfast.engine.run.failures import failure_in
from holdfast.kernel.core import Core
from holdfast.model import Entry, Kind, Status


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step's outcome."""

    name: str
    step_type: str
    success: bool
    output: Any
    duration_ms: int
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True)
class WorkflowResult:
    """The result of a run so far."""

    workflow_id: str
    workflow_name: str
    status: str
    output: Any
    error: str | None
    steps: tuple[StepResult, ...]

    @property
    def success(self) -> bool:
        """Whether it is completed."""
        return self.status == Status.COMPLETED

    @property
    def total_duration_ms(self) -> int:
        """What its steps took together."""
        return sum(step.duration_ms for step in self.steps)


def result_of(core: Core, run_id: str) -> WorkflowResult:
    """Read a run's journal. Raises `CheckpointNotFoundError`. Blocks."""
    history = History(core, run_id, whole=True)
    head = history.head
    output, error = None, None
    if head.kind == Kind.COMPLETE:
        output = history.value(head)
    elif head.kind == Kind.FAIL:
        error = _words(head, history)
    steps = tuple(steps_in(history))
    return WorkflowResult(run_id, history.opening.flow or "", head.status, output, error, steps)


def steps_in(history: History, *, up_to: int | None = None) -> list[StepResult]:
    """The outcomes of the steps, in the order they were recorded; all, or those up to a seq."""
    found = []
    for entry in history.of(Kind.RESULT, Kind.FAIL):
        if up_to is not None and entry.seq > up_to:
            break
        meta = history.meta(entry)
        if entry.kind == Kind.RESULT:
            found.append(_step(entry, meta, True, history.value(entry), None))
        elif meta.of == "step":
            found.append(_step(entry, meta, False, None, _words(entry, history)))
    return found


def _words(entry: Entry, history: History) -> str:
    failed = failure_in(entry, history.value(entry))
    return f"{failed.error_type}: {failed.message}"


def _step(entry: Entry, meta: Meta, success: bool, output: Any, error: str | None) -> StepResult:
    spent = round(1000 * (entry.duration or 0))
    return StepResult(str(entry.step), meta.kind, success, output, spent, error)
