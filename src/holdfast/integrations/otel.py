"""OpenTelemetry: spans of runs and steps, and metrics. The extra `otel`.

    from holdfast.integrations.otel import Metering, Tracing

    engine = hf.Engine("sqlite:///runs.db", listeners=[Tracing(), Metering()])

They need the OpenTelemetry API alone, and do nothing until the program sets up an SDK. Neither
shows arguments, results, error messages or what evidence was found.
"""

from __future__ import annotations

import copy
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, TraceFlags
except ImportError as error:
    from holdfast.extras import missing_extra

    raise missing_extra("otel", error) from error

import holdfast
from holdfast.engine import events as ev
from holdfast.engine.observing import RunObserver
from holdfast.kernel.events import Event
from holdfast.telemetry.measures import MEASURES, Measure, Measuring

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from holdfast.engine.context import StepInfo

__all__ = ["Metering", "Tracing"]

_MOST_OPENED: Final = 1000  # spans of runs that were opened and have not begun
_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NO_ERRORS: Final = ("asyncio.exceptions.CancelledError", "GeneratorExit")

_NOTED: Final[dict[type[Event], tuple[str, tuple[str, ...]]]] = {
    ev.StepSkipped: ("step skipped", ("step",)),
    ev.StepArgumentsChanged: ("step arguments changed", ("step",)),
    ev.CheckpointFailed: ("checkpoint failed", ("step", "error_type")),
    ev.CheckpointRejected: ("checkpoint rejected", ("checkpoint_id", "step")),
    ev.QuestionAsked: ("question asked", ("question",)),
    ev.RollbackStarted: ("rollback started", ("steps",)),
    ev.RollbackCompleted: ("rollback completed", ("steps", "success")),
}


@dataclass(slots=True)
class _Spans:
    """The spans of one run that is executed here."""

    run: Span
    steps: dict[str, Span] = field(default_factory=dict)  # under way, by key


class Tracing(RunObserver):
    """A span for each run and each of its steps, told to OpenTelemetry.

    The span of a step is current while the step runs, so that the spans of what it calls are below
    it. Retries are events of it. A child run is below its step. The span of a resumed run links to
    that of the run's first execution, or to the span that submitted it, in whichever process that
    was: it is recorded with the run.

    `tracer_provider` is the global one unless given. With `messages`, spans of failures have the
    errors' messages, which may quote what the program works with.
    """

    def __init__(
        self, tracer_provider: TracerProvider | None = None, *, messages: bool = False
    ) -> None:
        self._tracer = trace.get_tracer("holdfast", holdfast.__version__, tracer_provider)
        self._messages = messages
        self._lock = threading.RLock()  # a finalizer may tell something while it is held
        self._opened: OrderedDict[str, Span] = OrderedDict()  # by what is recorded of them
        self._runs: dict[str, _Spans] = {}

    def of_checkpointer(self) -> Self:
        """One that knows the runs which are under way there."""
        one = copy.copy(self)
        one._runs = {}  # noqa: SLF001 - one of this class
        return one

    def opening(
        self, flow: str, *, submitted: bool, parent: tuple[str, str] | None = None
    ) -> str | None:
        """The span that is recorded with a new run: its own, or the one that submits it."""
        if submitted:
            return _traceparent(trace.get_current_span().get_span_context())
        span = self._tracer.start_span(f"run {flow}", context=self._above(parent))
        name = _traceparent(span.get_span_context())
        if name is None:
            return None
        with self._lock:
            self._opened[name] = span
            _, never_begun = (
                self._opened.popitem(last=False) if len(self._opened) > _MOST_OPENED else ("", None)
            )
        if never_begun is not None:
            never_begun.end()
        return name

    @contextmanager
    def around_step(self, step: StepInfo) -> Iterator[None]:
        """Make the step's span the current one."""
        spans = self._runs.get(step.run_id)
        if spans is None:
            yield
            return
        span = spans.steps.get(step.step)
        if span is not None:
            with _current(span):
                yield
            return
        # No events tell of it: it undoes another step, for example.
        span = self._begin_step(spans, step.run_id, step.step, step.name)
        try:
            with _current(span):
                yield
        except BaseException as error:
            kind = type(error)
            self._fail(span, f"{kind.__module__}.{kind.__qualname__}", error)
            raise
        finally:
            span.end()

    def on_event(self, event: Event) -> None:
        """Begin, complete and end spans."""
        handle = self._HANDLERS.get(type(event))
        if handle is not None:
            handle(self, event)

    # --- runs

    def _run_started(self, event: ev.RunStarted) -> None:
        with self._lock:
            span = self._opened.pop(event.trace, None) if event.trace else None
        if span is None:
            parent = None if event.parent is None else (event.parent, event.parent_step or "")
            earlier = _parsed(event.trace)
            span = self._tracer.start_span(
                f"run {event.flow}",
                context=self._above(parent),
                links=() if earlier is None else (Link(earlier),),
            )
        span.set_attributes(
            {
                "holdfast.run_id": event.run_id,
                "holdfast.flow": event.flow,
                "holdfast.resumed": event.resumed,
                "holdfast.restored_steps": event.restored,
            }
        )
        with self._lock:
            earlier_here = self._runs.pop(event.run_id, None)
            self._runs[event.run_id] = _Spans(span)
        if earlier_here is not None:
            _end(earlier_here, "stopped")

    def _run_stopped(self, event: Event) -> None:
        with self._lock:
            spans = self._runs.pop(event.run_id, None)
        if spans is None:
            return
        if isinstance(event, ev.RunFailed):
            self._fail(spans.run, event.error_type, event.error)
        elif isinstance(event, ev.RunStopped):
            if event.error_type in _NO_ERRORS:
                spans.run.set_attribute("error.type", event.error_type)
            else:
                self._fail(spans.run, event.error_type)
        _end(spans, type(event).__name__.removeprefix("Run").lower())

    def _above(self, parent: tuple[str, str] | None) -> Any:
        """The context of a new run: below the step that it is, or below what is current here."""
        spans = None if parent is None else self._runs.get(parent[0])
        if parent is None or spans is None:
            return None
        return trace.set_span_in_context(spans.steps.get(parent[1], spans.run))

    # --- steps

    def _step_started(self, event: ev.StepStarted) -> None:
        spans = self._runs.get(event.run_id)
        if spans is None:
            return
        span = spans.steps.get(event.step)
        if span is None:
            span = self._begin_step(spans, event.run_id, event.step, event.name)
            spans.steps[event.step] = span
        span.add_event("attempt", {"holdfast.attempt": event.attempt})

    def _begin_step(self, spans: _Spans, run_id: str, step: str, name: str) -> Span:
        return self._tracer.start_span(
            f"step {name}",
            context=trace.set_span_in_context(spans.run),
            attributes={"holdfast.run_id": run_id, "holdfast.step": step},
        )

    def _step_retrying(self, event: ev.StepRetrying) -> None:
        span = self._step(event)
        if span is not None:
            said = {"exception.message": event.error} if self._messages else {}
            span.add_event(
                "retry",
                {
                    "holdfast.attempt": event.attempt,
                    "holdfast.delay": event.delay,
                    "error.type": event.error_type,
                    **said,
                },
            )

    def _step_ended(self, event: ev.StepCompleted | ev.StepFailed) -> None:
        spans = self._runs.get(event.run_id)
        span = None if spans is None else spans.steps.pop(event.step, None)
        if span is None:
            return
        span.set_attribute("holdfast.attempts", event.attempts)
        if isinstance(event, ev.StepFailed):
            self._fail(span, event.error_type, event.error)
        span.end()

    def _step(self, event: ev.StepEvent) -> Span | None:
        spans = self._runs.get(event.run_id)
        return None if spans is None else spans.steps.get(event.step)

    def _fail(self, span: Span, error_type: str, message: object = None) -> None:
        """Mark a span as failed. Messages may quote values: they are shown on request."""
        said = str(message) if self._messages and message is not None else None
        span.set_attribute("error.type", error_type)
        span.set_status(Status(StatusCode.ERROR, said))

    # --- what is an event of the run's span

    def _noted(self, event: Event) -> None:
        spans = self._runs.get(event.run_id)
        if spans is not None:
            name, shown = _NOTED[type(event)]
            said = {f"holdfast.{one}": getattr(event, one) for one in shown}
            spans.run.add_event(
                name, {key: value for key, value in said.items() if value is not None}
            )

    _HANDLERS: ClassVar[dict[type[Event], Any]] = {
        ev.RunStarted: _run_started,
        ev.RunCompleted: _run_stopped,
        ev.RunFailed: _run_stopped,
        ev.RunPaused: _run_stopped,
        ev.RunCancelled: _run_stopped,
        ev.RunStopped: _run_stopped,
        ev.StepStarted: _step_started,
        ev.StepRetrying: _step_retrying,
        ev.StepCompleted: _step_ended,
        ev.StepFailed: _step_ended,
        **dict.fromkeys(_NOTED, _noted),
    }


class Metering(Measuring):
    """The metrics of `holdfast.telemetry`, told to OpenTelemetry.

    `meter_provider` is the global one unless given.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        super().__init__()
        meter = metrics.get_meter("holdfast", holdfast.__version__, meter_provider)
        self._tell: dict[Measure, Callable[[float, Mapping[str, str]], None]] = {}
        for one in MEASURES:
            unit = one.unit or "1"
            if one.kind == "counter":
                self._tell[one] = meter.create_counter(one.name, unit, one.help).add
            elif one.kind == "gauge":
                self._tell[one] = meter.create_up_down_counter(one.name, unit, one.help).add
            else:
                self._tell[one] = meter.create_histogram(
                    one.name, unit, one.help, explicit_bucket_boundaries_advisory=one.buckets
                ).record
        self._names = {
            label: "error.type" if label == "error_type" else f"holdfast.{label}"
            for one in MEASURES
            for label in one.labels
        }

    def add(self, measure: Measure, amount: int, *labels: str) -> None:
        """Count."""
        self.record(measure, amount, *labels)

    def record(self, measure: Measure, value: float, *labels: str) -> None:
        """Tell the instrument."""
        names = (self._names[label] for label in measure.labels)
        self._tell[measure](value, dict(zip(names, labels, strict=True)))


@contextmanager
def _current(span: Span) -> Iterator[None]:
    token = context.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        context.detach(token)


def _end(spans: _Spans, status: str) -> None:
    """End the spans of a run, and of the steps that were under way in it."""
    for span in spans.steps.values():
        span.end()
    spans.run.set_attribute("holdfast.status", status)
    spans.run.end()


def _traceparent(span: SpanContext) -> str | None:
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def _parsed(text: str | None) -> SpanContext | None:
    found = None if text is None else _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    span = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return span if span.is_valid else None
