"""OpenTelemetry: spans of runs and steps, current inside the steps, linked across processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.integrations.otel import Metering, Tracing
from holdfast.workflow import ask, for_each, step, workflow
from tests.waiting import PATIENCE


class Spans:
    """A tracer provider in memory, and what it was told."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("user")

    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def above(self, span: ReadableSpan) -> str | None:
        """The name of the span that it is below."""
        if span.parent is None:
            return None
        names = {one.context.span_id: one.name for one in self.all() if one.context is not None}
        return names.get(span.parent.span_id, "?")


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


def of(span: ReadableSpan) -> Any:
    """What a span says."""
    return span.attributes or {}


def test_a_run_has_a_span_and_its_steps_are_below_it(spans: Spans) -> None:
    @step
    async def measure() -> int:
        return 1

    @workflow
    async def tide() -> int:
        return await measure()

    with hf.Engine("memory://", listeners=[Tracing(spans.provider)]) as engine:
        engine.run_sync(tide(), run_id="r")
    run, below = spans.one("run tide"), spans.one("step measure")
    assert run.parent is None
    assert of(run)["holdfast.run_id"] == of(below)["holdfast.run_id"] == "r"
    assert (of(run)["holdfast.status"], of(run)["holdfast.resumed"]) == ("completed", False)
    assert spans.above(below) == "run tide"
    assert run.status.status_code is StatusCode.UNSET


def test_runs_of_the_same_id_in_two_stores_have_spans_of_their_own(spans: Spans) -> None:
    both = threading.Barrier(2)
    tracing = Tracing(spans.provider)

    @step
    def meet() -> None:
        both.wait(PATIENCE)

    @workflow
    async def meeting() -> None:
        await meet()

    async def main() -> None:
        async with (
            hf.Engine("memory://", listeners=[tracing]) as one,
            hf.Engine("memory://", listeners=[tracing]) as other,
        ):
            await asyncio.gather(*(engine.run(meeting(), run_id="x") for engine in (one, other)))

    asyncio.run(main())
    runs = spans.named("run meeting")
    assert [of(run)["holdfast.status"] for run in runs] == ["completed"] * 2
    steps = spans.named("step meet")
    assert {run.context.span_id for run in runs} == {
        step.parent.span_id for step in steps if step.parent
    }


@pytest.mark.parametrize("where", ["async", "thread", "executor", "for_each", "stream", "node"])
def test_spans_that_a_step_makes_are_below_its_own(where: str, spans: Spans) -> None:
    def work(_: Any = None) -> dict[str, int]:
        with spans.tracer.start_as_current_span("mine"):
            return {}

    async def async_work() -> dict[str, int]:
        await asyncio.sleep(0)
        return work()

    pool = ThreadPoolExecutor(1)
    given: Any = async_work if where == "async" else work
    options: Any = {"run_on": pool} if where == "executor" else {}
    made = step(name="work", **options)(given)

    @workflow
    async def flow() -> None:
        if where == "for_each":
            await for_each([1, 2], step(name="work")(work))
        else:
            await made()

    graph = Graph(dict, name="g").add_node("work", work).add_edge("work", END).set_entry("work")
    call = graph.compile()({}) if where == "node" else flow()

    async def main() -> None:
        async with hf.Engine("memory://", listeners=[Tracing(spans.provider)]) as engine:
            if where != "stream":
                await engine.run(call)
                return
            async for _ in engine.stream(call):
                assert not trace.get_current_span().get_span_context().is_valid

    with pool:
        asyncio.run(main())
    found = spans.named("mine")
    assert len(found) == (2 if where == "for_each" else 1)
    assert {spans.above(span) for span in found} == {"step work"}


def test_a_child_run_is_below_its_step_and_a_run_below_what_called_it(spans: Spans) -> None:
    @step
    def leaf() -> None: ...

    @workflow
    async def inner() -> None:
        await leaf()

    @workflow
    async def outer() -> None:
        await inner()

    with (
        hf.Engine("memory://", listeners=[Tracing(spans.provider)]) as engine,
        spans.tracer.start_as_current_span("request"),
    ):
        engine.run_sync(outer())
    above = {span.name: spans.above(span) for span in spans.all()}
    assert above == {
        "request": None,
        "run outer": "request",
        "step inner": "run outer",
        "run inner": "step inner",
        "step leaf": "run inner",
    }
    assert len({span.context.trace_id for span in spans.all() if span.context}) == 1


def test_retries_are_events_and_errors_are_types(spans: Spans) -> None:
    @step(retry=2)
    def flaky() -> None:
        raise LookupError("SECRET")

    @workflow
    async def failing() -> None:
        await flaky()

    with (
        hf.Engine("memory://", listeners=[Tracing(spans.provider)]) as engine,
        pytest.raises(hf.StepFailedError),
    ):
        engine.run_sync(failing())
    failed = spans.one("step flaky")
    assert [event.name for event in failed.events] == ["attempt", "retry", "attempt"]
    for span in (failed, spans.one("run failing")):
        assert of(span)["error.type"] == "LookupError"
        assert span.status.status_code is StatusCode.ERROR
        assert "SECRET" not in span.to_json()
    assert of(failed)["holdfast.attempts"] == 2


def test_messages_are_shown_on_request(spans: Spans) -> None:
    @workflow
    async def failing() -> None:
        raise LookupError("no such tide")

    with (
        hf.Engine("memory://", listeners=[Tracing(spans.provider, messages=True)]) as engine,
        pytest.raises(LookupError),
    ):
        engine.run_sync(failing())
    assert spans.one("run failing").status.description == "no such tide"


def test_undoing_a_step_has_a_span(spans: Spans) -> None:
    @step(with_rollback=lambda result: None)
    def book() -> str:
        return "seat"

    @workflow
    async def trip() -> None:
        await book()
        raise ValueError("full")

    with (
        hf.Engine("memory://", listeners=[Tracing(spans.provider)]) as engine,
        pytest.raises(ValueError, match="full"),
    ):
        engine.run_sync(trip())
    assert len([span for span in spans.all() if spans.above(span) == "run trip"]) == 2
    assert "rollback completed" in [event.name for event in spans.one("run trip").events]


def test_a_resumed_run_links_to_its_first_execution(spans: Spans, tmp_path: Path) -> None:
    @workflow
    async def asking() -> bool:
        return await ask("Go on?", returns=bool)

    url = f"sqlite:///{tmp_path}/runs.db"
    with (
        hf.Engine(url, listeners=[Tracing(spans.provider)]) as engine,
        pytest.raises(hf.RunPausedError),
    ):
        engine.run_sync(asking(), run_id="r")
    with hf.Engine(url, flows=[asking], listeners=[Tracing(spans.provider)]) as engine:
        engine.answer_sync("r", True)
        engine.resume_sync("r")
    first, second = spans.named("run asking")
    (link,) = second.links
    assert link.context.span_id == first.context.span_id
    assert link.context.trace_id == first.context.trace_id
    assert [of(span)["holdfast.status"] for span in (first, second)] == ["paused", "completed"]
    assert not first.links


def test_a_submitted_run_links_to_what_submitted_it(spans: Spans, tmp_path: Path) -> None:
    @workflow
    async def later() -> int:
        return 1

    url = f"sqlite:///{tmp_path}/runs.db"
    with hf.Engine(url, flows=[later], listeners=[Tracing(spans.provider)]) as engine:
        with spans.tracer.start_as_current_span("request"):
            engine.submit_sync(later())
        engine.work_sync(until_idle=True)
    (link,) = spans.one("run later").links
    assert link.context.span_id == spans.one("request").context.span_id


def test_a_run_that_is_left_ends_its_spans(spans: Spans) -> None:
    began = asyncio.Event()

    @step
    async def endless() -> None:
        began.set()
        await asyncio.Event().wait()

    @workflow
    async def long() -> None:
        await endless()

    async def main() -> None:
        engine = hf.Engine("memory://", listeners=[Tracing(spans.provider)])
        await engine.start(long())
        await began.wait()
        await engine.close()

    asyncio.run(main())
    assert spans.above(spans.one("step endless")) == "run long"
    assert of(spans.one("run long"))["holdfast.status"] == "stopped"


def test_what_is_recorded_is_not_believed() -> None:
    from holdfast.integrations.otel import _parsed

    for text in (None, "", "x" * 55, "00-" + "0" * 32 + "-" + "1" * 16 + "-01", "00-\n"):
        assert _parsed(text) is None


def test_metrics_are_told_to_opentelemetry() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])

    @step
    async def measure() -> int:
        return 1

    @workflow
    async def tide() -> int:
        return await measure()

    with hf.Engine("memory://", listeners=[Metering(provider)]) as engine:
        engine.run_sync(tide(), run_id="run-42")
    data = reader.get_metrics_data()
    assert data is not None
    text = data.to_json()
    found = {
        metric.name: metric.data.data_points
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    provider.shutdown()
    (ended,) = found["holdfast.run.ends"]
    assert dict(ended.attributes or {}) == {"holdfast.flow": "tide", "holdfast.status": "completed"}
    (active,) = found["holdfast.run.active"]
    (saves,) = found["holdfast.save.duration"]
    assert (getattr(active, "value", None), getattr(saves, "count", 0) > 0) == (0, True)
    assert "run-42" not in text


def test_without_opentelemetry_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import holdfast as hf, holdfast.telemetry\n"
        "import holdfast.integrations.otel"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "[otel]'" in done.stderr.splitlines()[-1]
