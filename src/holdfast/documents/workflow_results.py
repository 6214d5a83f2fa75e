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
    if head.status == Status.COMPLETED:
        ends = [entry for entry in history.of(Kind.COMPLETE) if entry.size]
        output = history.value(ends[-1]) if ends else None
    elif head.status == Status.FAILED:
        ends = [entry for entry in history.of(Kind.FAIL) if history.meta(entry).of == "run"]
        error = _words(ends[-1], history) if ends else None
    steps = tuple(steps_in(history))
    return WorkflowResult(run_id, history.opening.flow or "", head.status, output, error, steps)


def steps_in(history: History, *, up_to: int | None = None) -> list[StepResult]:
    """The outcomes of the steps, in the order they were recorded; all, or those up to a seq.

    Of a step that was run again, the last outcome. A failure that made the run fail is dropped
    once the run is resumed: the step is tried again then, or not needed any more.
    """
    found: dict[str, StepResult] = {}
    failed: list[str] = []  # with the run, until somebody resumes it
    for entry in history.entries:
        if up_to is not None and entry.seq > up_to:
            break
        meta, key = history.meta(entry), str(entry.step)
        if entry.kind == Kind.CLAIM:
            for step in failed:
                found.pop(step, None)
        elif entry.kind == Kind.RESULT:
            found.pop(key, None)
            found[key] = _step(entry, meta, True, history.value(entry), None)
        elif entry.kind == Kind.FAIL and meta.of == "step":
            found.pop(key, None)
            found[key] = _step(entry, meta, False, None, _words(entry, history))
        elif entry.kind == Kind.FAIL and meta.of == "run":
            failed = [str(step) for step in (meta.step, meta.cause, *meta.others) if step]
            failed = [step for step in failed if step in found and not found[step].success]
    return list(found.values())


def _words(entry: Entry, history: History) -> str:
    failed = failure_in(entry, history.value(entry))
    return f"{failed.error_type}: {failed.message}"


def _step(entry: Entry, meta: Meta, success: bool, output: Any, error: str | None) -> StepResult:
    spent = round(1000 * (entry.duration or 0))
    return StepResult(name_of(entry), meta.kind, success, output, spent, error)


def name_of(entry: Entry) -> str:
    """The step's name as the workflow gives it, each time that it runs."""
    return str(Meta(entry).step_name or entry.step)
