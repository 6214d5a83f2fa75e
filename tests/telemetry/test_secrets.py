"""A secret goes through everything that a run has: no span, metric or line of a log shows it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import holdfast as hf
from holdfast.events import Event
from holdfast.evidence import EvidenceVerifier
from holdfast.integrations.otel import Metering, Tracing
from holdfast.telemetry import Listener, Metrics, StepFilter
from holdfast.workflow import ask, for_each, step, workflow

CANARY = "hunter2-canary"


class SecretError(Exception):
    """Quotes what it should not."""


@step(retry=2, with_rollback=lambda result: fail(result))
def keep(secret: str) -> str:
    hf.current_step().progress(0.5, secret)
    hf.current_step().emit(secret)
    return secret


def fail(secret: str) -> None:
    raise SecretError(secret)


@step(retry=2)
async def lose(secret: str) -> None:
    fail(secret)


@step(outputs=lambda result, path, secret: path)
def write(path: str, secret: str) -> str:
    Path(path).write_text(secret)
    return secret


@workflow
async def child(secret: str) -> str:
    return await keep(secret)


@workflow
async def leaking(secret: str, path: str) -> str:
    kept = await child(secret)
    await for_each([secret], keep)
    written = await write(path, secret)
    with suppress(hf.StepFailedError):
        await lose(secret)
    answer = await ask(f"Is it {secret}?", returns=str)
    if answer == secret:
        fail(kept + written)
    return secret


async def everything(url: str, path: Path, listeners: list[Listener]) -> None:
    async with hf.Engine(url, flows=[leaking], listeners=listeners) as engine:
        with pytest.raises(hf.RunPausedError):
            await engine.run(leaking(CANARY, str(path)), run_id="r")
        await engine.answer("r", "no")
        assert await engine.resume("r") == CANARY
        await engine.submit(leaking(CANARY, str(path)), run_id="failing")
        await engine.work(until_idle=True)
        path.write_text(f"another {CANARY}")
        await engine.answer("failing", CANARY)
        await engine.work(until_idle=True)  # goes back, and asks again
        await engine.answer("failing", CANARY)
        await engine.work(until_idle=True)  # fails, and can't be undone
        assert await engine.status("failing") == "failed"


def test_a_secret_is_in_no_span_metric_or_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.handler.addFilter(StepFilter())
    exporter, reader, metrics = InMemorySpanExporter(), InMemoryMetricReader(), Metrics()
    traces, meters = TracerProvider(), MeterProvider([reader])
    traces.add_span_processor(SimpleSpanProcessor(exporter))

    def broken(event: Event) -> None:
        raise SecretError(repr(event.to_dict()))

    listeners: list[Listener] = [metrics, Tracing(traces), Metering(meters), broken]
    asyncio.run(everything(f"sqlite:///{tmp_path}/runs.db", tmp_path / "kept", listeners))
    manager = hf.CheckpointManager(
        hf.SyncCheckpointer("memory://", listeners=listeners),
        verifier=EvidenceVerifier(tmp_path),
    )
    claim = hf.Evidence("file_sha256", "unchanged", {"path": "kept", "sha256": "0" * 64})
    manager.commit_step(
        manager.begin_step("task", "iteration_end", {"secret": CANARY}), hf.EvidencePack([claim])
    )
    manager.close()
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    measured = reader.get_metrics_data()
    traces.shutdown()
    meters.shutdown()
    assert len(spans) >= 15
    assert measured is not None
    assert metrics.value("holdfast_claim_checks_total", status="failed") >= 2
    assert metrics.value("holdfast_checkpoint_rejections_total") >= 1
    assert "SecretError" in caplog.text
    shown = [*spans, measured.to_json(), metrics.prometheus(), caplog.text]
    shown += [repr(vars(record)) for record in caplog.records]
    leaks = [text[max(0, text.find(CANARY) - 200) :][:300] for text in shown if CANARY in text]
    assert leaks == []
