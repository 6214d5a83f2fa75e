"""What a run was given, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec import readable
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Kind, Status
from holdfast.operations.timeline import Moment

_HEADER: Final = "Traceback (most recent call last):\n"


class Failure(NamedTuple):
    """What ended a run, as it was recorded."""

    error_type: str
    message: str
    step: str  # empty if the flow itself failed
    attempts: int
    trace: str  # of the user's own code

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}" if self.message else self.error_type

    @property
    def where(self) -> str:
        """In which step, and in which attempt."""
        step = f"in {self.step}" if self.step else "in the flow"
        return f"{step}, after {self.attempts} attempts" if self.attempts > 1 else step

    def lines(self) -> list[str]:
        """The traceback without its first and last lines, which say nothing new."""
        return lines_of(self.trace, str(self))


class Outcome(NamedTuple):
    """Values are in JSON's form, and None where there are none, or they can't be read."""

    inputs: Any = None
    result: Any = None
    failure: Failure | None = None

    def document(self) -> dict[str, Any]:
        """As `holdfast show --json` has it."""
        failure = None if self.failure is None else self.failure._asdict()
        return {"inputs": self.inputs, "result": self.result, "failure": failure}


def outcome_of(cp: SyncCheckpointer, info: RunInfo, moments: Sequence[Moment]) -> Outcome:
    """The inputs, and the result or failure, of a run with these moments, the newest last."""
    inputs = _read(cp, info.run_id, 0, Kind.OPEN)
    last = next((one for one in reversed(moments) if one.kind in (Kind.FAIL, Kind.COMPLETE)), None)
    if last is None or last.status != info.status:
        return Outcome(inputs)
    value = _read(cp, info.run_id, last.seq, last.kind)
    if info.status == Status.COMPLETED:
        return Outcome(inputs, value)
    return Outcome(inputs, failure=failure_from(value) if info.status == Status.FAILED else None)


def failure_from(told: Any) -> Failure | None:
    """A failure as it was recorded; None for what is none."""
    if not isinstance(told, dict):
        return None
    attempts = told.get("attempts")
    return Failure(
        str(told.get("type", "")),
        str(told.get("message", "")),
        str(told.get("step", "")),
        attempts if isinstance(attempts, int) else 1,
        str(told.get("trace", "")),
    )


def lines_of(trace: str, last: str) -> list[str]:
    """The lines of a traceback but for the first and the last, if that is what it ends with."""
    return trace.removeprefix(_HEADER).rstrip().removesuffix(last).rstrip().splitlines()


def _read(cp: SyncCheckpointer, run_id: str, seq: int, kind: str) -> Any:
    try:
        entry = cp.core.journals.entry(run_id, seq)
        if entry is None or not entry.size or entry.kind != kind:
            return None
        return readable.to_json(cp.core.journals.value(run_id, seq, as_data=True))
    except CheckpointCorruptedError:  # the timeline says so
        return None
