"""What is measured, and how events become numbers. No id is ever a label."""

from __future__ import annotations

import copy
import threading
from abc import abstractmethod
from time import perf_counter
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self

from holdfast.engine import events as ev
from holdfast.errors import RunTimeoutError
from holdfast.evidence.checks import type_named
from holdfast.kernel.events import ClaimChecked, Event, SaveCommitted, SaveFailed
from holdfast.kernel.observing import Observer

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_LONG_SECONDS: Final = (0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 86400.0)
_BYTES: Final = (256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 16777216.0)


class Measure(NamedTuple):
    """Something that is counted or measured."""

    name: str  # as OpenTelemetry spells it
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    unit: Literal["", "s", "By"] = ""
    buckets: tuple[float, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """The name as Prometheus spells it."""
        unit = {"": "", "s": "_seconds", "By": "_bytes"}[self.unit]
        return self.name.replace(".", "_") + unit + ("_total" if self.kind == "counter" else "")


def _counted(name: str, what: str, *labels: str) -> Measure:
    return Measure(f"holdfast.{name}", "counter", what, labels)


def _timed(name: str, what: str, buckets: tuple[float, ...], *labels: str) -> Measure:
    return Measure(f"holdfast.{name}", "histogram", what, labels, "s", buckets)


SAVE_TIME: Final = _timed(
    "save.duration", "Seconds from handing entries to the writer until they were durable.", _SECONDS
)
SAVE_SIZE: Final = Measure(
    "holdfast.save.size", "histogram", "Bytes that a save stored.", unit="By", buckets=_BYTES
)
ENTRIES: Final = _counted("save.entries", "Journal entries that were saved.")
SAVE_FAILURES: Final = _counted(
    "save.failures", "Saves that failed, by type of error.", "error_type"
)
CHECKS: Final = _counted(
    "claim.checks",
    "Claims that were checked, by type of evidence and verdict.",
    "evidence_type",
    "status",
)
CHECK_TIME: Final = _timed(
    "claim.check.duration", "Seconds that checking a claim took.", _SECONDS, "evidence_type"
)
REJECTIONS: Final = _counted(
    "checkpoint.rejections",
    "Checkpoints that resumes went back behind: they did not verify.",
    "flow",
)
STARTS: Final = _counted("run.starts", "Runs that were started or resumed here.", "flow", "resumed")
ENDS: Final = _counted("run.ends", "Runs that stopped here, by how they stopped.", "flow", "status")
ACTIVE: Final = Measure("holdfast.run.active", "gauge", "Runs that are executed here.", ("flow",))
RUN_TIME: Final = _timed(
    "run.duration",
    "Seconds that runs were executed here until they stopped.",
    _LONG_SECONDS,
    "flow",
)
STEPS: Final = _counted(
    "step.ends", "Steps that were completed, failed or skipped here.", "flow", "status"
)
STEP_TIME: Final = _timed(
    "step.duration", "Seconds that completed steps took, retries included.", _LONG_SECONDS, "flow"
)
RETRIES: Final = _counted(
    "step.retries", "Attempts of steps that failed and were tried again.", "flow"
)
MEASURES: Final = (
    SAVE_TIME, SAVE_SIZE, ENTRIES, SAVE_FAILURES, CHECKS, CHECK_TIME, REJECTIONS, STARTS, ENDS,
    ACTIVE, RUN_TIME, STEPS, STEP_TIME, RETRIES,
)  # fmt: skip

_STATUSES: Final[dict[type[Event], str]] = {
    ev.RunCompleted: "completed",
    ev.RunFailed: "failed",
    ev.RunPaused: "paused",
    ev.RunCancelled: "cancelled",
    ev.RunStopped: "stopped",
}


class Measuring(Observer):
    """Turns events into numbers, and leaves it to a subclass what becomes of them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may tell something while it is held
        self._runs: dict[str, tuple[str, float]] = {}  # under way here: the flow, and since when

    def of_checkpointer(self) -> Self:
        """One that adds to the same numbers, and knows which runs are under way there."""
        one = copy.copy(self)
        one._runs = {}  # noqa: SLF001 - one of this class
        return one

    @abstractmethod
    def add(self, measure: Measure, amount: int, *labels: str) -> None:
        """Count."""

    @abstractmethod
    def record(self, measure: Measure, value: float, *labels: str) -> None:
        """Add a value to a histogram."""

    def on_event(self, event: Event) -> None:
        """Count and measure what happened."""
        handle = self._HANDLERS.get(type(event))
        if handle is not None:
            handle(self, event)

    # --- the checkpointer

    def _saved(self, event: SaveCommitted) -> None:
        self.record(SAVE_TIME, event.seconds)
        self.record(SAVE_SIZE, event.bytes)
        self.add(ENTRIES, event.entries)

    def _save_failed(self, event: SaveFailed) -> None:
        self.add(SAVE_FAILURES, 1, event.error_type)

    def _checked(self, event: ClaimChecked) -> None:
        kind = event.evidence_type
        if event.status == "error" and type_named(kind) is None:
            kind = "other"  # what stored claims say, rather than this program
        self.add(CHECKS, 1, kind, event.status)
        self.record(CHECK_TIME, event.seconds, kind)

    # --- runs

    def _started(self, event: ev.RunStarted) -> None:
        with self._lock:
            known = event.run_id in self._runs
            self._runs[event.run_id] = event.flow, perf_counter()
        self.add(STARTS, 1, event.flow, str(event.resumed).lower())
        if not known:
            self.add(ACTIVE, 1, event.flow)

    def _stopped(self, event: Event) -> None:
        with self._lock:
            flow, began = self._runs.pop(event.run_id, ("", None))
        if began is None:
            return
        late = isinstance(event, ev.RunFailed) and isinstance(event.error, RunTimeoutError)
        self.add(ACTIVE, -1, flow)
        self.add(ENDS, 1, flow, "timed_out" if late else _STATUSES[type(event)])
        self.record(RUN_TIME, perf_counter() - began, flow)

    def _rejected(self, event: ev.CheckpointRejected) -> None:
        self.add(REJECTIONS, 1, self._flow(event))

    # --- steps

    def _step_completed(self, event: ev.StepCompleted) -> None:
        flow = self._flow(event)
        self.add(STEPS, 1, flow, "completed")
        self.record(STEP_TIME, event.duration, flow)

    def _step_failed(self, event: ev.StepFailed) -> None:
        self.add(STEPS, 1, self._flow(event), "failed")

    def _step_skipped(self, event: ev.StepSkipped) -> None:
        self.add(STEPS, 1, self._flow(event), "skipped")

    def _retried(self, event: ev.StepRetrying) -> None:
        self.add(RETRIES, 1, self._flow(event))

    def _flow(self, event: Event) -> str:
        return self._runs.get(event.run_id, ("",))[0]

    _HANDLERS: ClassVar[dict[type[Event], Any]] = {
        SaveCommitted: _saved,
        SaveFailed: _save_failed,
        ClaimChecked: _checked,
        ev.RunStarted: _started,
        **dict.fromkeys(_STATUSES, _stopped),
        ev.CheckpointRejected: _rejected,
        ev.StepCompleted: _step_completed,
        ev.StepFailed: _step_failed,
        ev.StepSkipped: _step_skipped,
        ev.StepRetrying: _retried,
    }
