"""Metrics: what is counted and measured, and the text that Prometheus reads."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import holdfast
from holdfast.events import ClaimChecked, RunFailed, RunStarted, StepCompleted
from holdfast.telemetry import Metrics
from holdfast.telemetry.metrics import MOST_SERIES
from holdfast.workflow import ask, step, workflow
from tests.telemetry.exposition import read
from tests.waiting import PATIENCE


@step(retry=2)
def work(fails: bool) -> None:
    if fails:
        raise ValueError


@workflow
async def working(fails: bool) -> None:
    await work(fails)


@workflow
async def asking() -> None:
    await ask("Go on?", returns=bool)


def test_runs_steps_and_saves_are_counted() -> None:
    metrics = Metrics()
    with hf.Engine("memory://", listeners=[metrics]) as engine:
        engine.run_sync(working(False))
        with pytest.raises(hf.StepFailedError):
            engine.run_sync(working(True))
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(asking())
    value = metrics.value
    assert value("holdfast_run_starts_total", flow="working", resumed="false") == 2
    assert value("holdfast_run_ends_total", flow="working", status="completed") == 1
    assert value("holdfast_run_ends_total", status="failed") == 1
    assert value("holdfast_run_ends_total", flow="asking", status="paused") == 1
    assert value("holdfast_run_active") == 0
    assert value("holdfast_step_ends_total", flow="working") == 2
    assert value("holdfast_step_retries_total") == 1
    assert value("holdfast_step_duration_seconds", flow="working") == 1
    assert value("holdfast_save_duration_seconds") == value("holdfast_save_size_bytes") > 0
    assert value("holdfast_save_entries_total") >= value("holdfast_save_size_bytes")
    with pytest.raises(KeyError):
        value("holdfast_run_ends_total", run_id="r")


def test_runs_of_the_same_id_in_two_stores_are_counted_apart() -> None:
    metrics = Metrics()
    both = threading.Barrier(2)

    @step
    def meet() -> None:
        both.wait(PATIENCE)

    @workflow
    async def meeting() -> None:
        await meet()

    async def main() -> None:
        async with (
            hf.Engine("memory://", listeners=[metrics]) as one,
            hf.Engine("memory://", listeners=[metrics]) as other,
        ):
            await asyncio.gather(*(engine.run(meeting(), run_id="x") for engine in (one, other)))
            again = hf.Engine(one.checkpointer, listeners=[metrics])
            await again.run(working(False), run_id="y")  # told once, though two engines listen

    asyncio.run(main())
    assert metrics.value("holdfast_run_ends_total", flow="meeting") == 2
    assert metrics.value("holdfast_run_ends_total", flow="working") == 1
    assert metrics.value("holdfast_run_active") == 0


def test_a_checkpointer_alone_is_measured() -> None:
    metrics = Metrics()
    with hf.SyncCheckpointer("memory://", listeners=[metrics]) as cp:
        cp.save("r", {"n": 1})
        text = metrics.prometheus(cp.count_runs())
    families = read(text)
    assert families["holdfast_runs"].samples == {("", frozenset({("status", "open")})): 1}
    assert families["holdfast_save_entries_total"].samples == {("", frozenset()): 2}


def test_failures_are_counted_by_type_of_evidence(tmp_path: Path) -> None:
    metrics = Metrics()
    with hf.SyncCheckpointer("memory://", listeners=[metrics]) as cp:
        manager = hf.CheckpointManager(cp, base_path=tmp_path)
        begun = manager.begin_step("task", "iteration_end", {})
        claim = hf.Evidence("artifact_exists", "it is there", {"path": "missing"})
        manager.commit_step(begun, hf.EvidencePack([claim]))
    name = "holdfast_claim_checks_total"
    assert metrics.value(name, evidence_type="artifact_exists", status="failed") == 1
    assert metrics.value("holdfast_claim_check_duration_seconds") == 1


def test_the_text_is_what_prometheus_reads() -> None:
    metrics = Metrics()
    with hf.Engine("memory://", listeners=[metrics]) as engine:
        engine.run_sync(working(False), run_id="run-42")
    text = metrics.prometheus({"paused": 3})
    families = read(text)
    assert families["holdfast_run_ends_total"].kind == "counter"
    assert families["holdfast_save_duration_seconds"].kind == "histogram"
    assert families["holdfast_runs"].samples == {("", frozenset({("status", "paused")})): 3}
    assert "run-42" not in text
    assert read(Metrics().prometheus())  # also with nothing to tell


@given(flow=st.text(), value=st.floats(0, 1e6))
def test_any_name_of_a_flow_can_be_told(flow: str, value: float) -> None:
    metrics = Metrics()
    metrics.on_event(RunStarted("r", flow))
    metrics.on_event(StepCompleted("r", "s", "s", value))
    families = read(metrics.prometheus())
    shown = flow.encode("utf-8", "backslashreplace").decode()
    labels = frozenset({("flow", shown)})
    assert families["holdfast_run_active"].samples == {("", labels): 1}
    assert families["holdfast_step_duration_seconds"].samples["_sum", labels] == value


def test_a_value_on_a_bound_is_below_it() -> None:
    metrics = Metrics()
    metrics.on_event(RunStarted("r", "f"))
    metrics.on_event(StepCompleted("r", "s", "s", 0.1))
    assert 'holdfast_step_duration_seconds_bucket{flow="f",le="0.1"} 1' in metrics.prometheus()
    assert 'holdfast_step_duration_seconds_bucket{flow="f",le="0.01"} 0' in metrics.prometheus()


def test_the_number_of_series_is_limited() -> None:
    metrics = Metrics()
    for number in range(3 * MOST_SERIES):
        metrics.on_event(RunStarted(f"r{number}", f"flow {number}"))
        metrics.on_event(RunFailed(f"r{number}", ValueError()))
        metrics.on_event(ClaimChecked("r", f"made up {number}", "error", 0.1))
    families = read(metrics.prometheus())
    assert len(families["holdfast_run_ends_total"].samples) == MOST_SERIES + 1
    assert metrics.value("holdfast_run_ends_total") == 3 * MOST_SERIES
    assert metrics.value("holdfast_run_active") == 0
    assert metrics.value("holdfast_claim_checks_total", evidence_type="other") == 3 * MOST_SERIES


def test_threads_lose_no_count() -> None:
    metrics = Metrics()

    def count() -> None:
        for _ in range(2000):
            metrics.on_event(ClaimChecked("r", "artifact_exists", "verified", 0.1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.value("holdfast_claim_checks_total") == 8000


def test_the_command_line_shows_runs_by_status(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with hf.SyncCheckpointer(url) as cp:
        cp.save("r", {"n": 1})
    shown = CliRunner().invoke(holdfast, ["stats", "--prometheus", "--store", url])
    assert read(shown.output)["holdfast_runs"].samples == {("", frozenset({("status", "open")})): 1}
    refused = CliRunner().invoke(holdfast, ["stats", "r", "--prometheus", "--store", url])
    assert refused.exit_code == 2
