"""Listeners: functions that are told of every event of an engine, and never disturb its runs."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.events import (
    ClaimChecked,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunStarted,
    RunStopped,
    SaveCommitted,
    SaveFailed,
    StepCompleted,
    StepFailed,
    StepOutput,
    StepProgress,
    StepRetrying,
    StepStarted,
)
from holdfast.graph import END, Graph
from holdfast.kernel import observing
from holdfast.kernel.observing import Observer
from holdfast.manager import CheckpointManager
from holdfast.pipeline import Pipeline
from holdfast.telemetry import Metrics
from holdfast.workflow import ask, step, workflow
from tests.waiting import PATIENCE


@step
async def double(number: int) -> int:
    return 2 * number


@workflow
async def child(number: int) -> int:
    return await double(number)


@workflow
async def doubling(number: int) -> int:
    return await child(await double(number))


@workflow
async def asking() -> bool:
    return await ask("Go on?", returns=bool)


class Seen(list[Event]):
    """A listener that keeps what it is told."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, *kinds: type[Event]) -> list[Any]:
        return [event for event in self if isinstance(event, kinds)]

    def of_runs(self) -> list[str]:
        """The events of runs, in order, by name."""
        return [type(one).__name__ for one in self if not isinstance(one, SaveCommitted)]


RUN = ["RunStarted", "StepStarted", "StepCompleted", "CheckpointSaved", "RunCompleted"]


def test_a_listener_hears_of_a_run_and_its_child_runs() -> None:
    seen = Seen()
    with hf.Engine("memory://", listeners=[seen]) as engine:
        assert engine.run_sync(doubling(2), run_id="r") == 8
    (whole, part) = seen.of(RunStarted)
    assert (whole.run_id, whole.parent, part.parent) == ("r", None, "r")
    assert [event.run_id for event in seen.of(RunCompleted)] == [part.run_id, "r"]
    assert {event.name for event in seen.of(StepCompleted)} == {"double", "child"}
    for event in seen:
        json.dumps(event.to_dict())


@pytest.mark.parametrize("how", ["run", "start", "stream", "run_sync", "start_sync", "submit"])
def test_it_hears_the_same_however_a_run_is_executed(how: str, tmp_path: Path) -> None:
    seen = Seen()
    engine = hf.Engine(f"sqlite:///{tmp_path}/runs.db", flows=[child], listeners=[seen])
    call = child(3)

    async def run() -> None:
        if how == "run":
            await engine.run(call)
        elif how == "start":
            await (await engine.start(call))
        elif how == "stream":
            async for _ in engine.stream(call):
                pass
        elif how == "submit":
            await engine.submit(call)
            await engine.work(until_idle=True)

    if how == "run_sync":
        engine.run_sync(call)
    elif how == "start_sync":
        engine.start_sync(call).result()
    else:
        asyncio.run(run())
    engine.close_sync()
    assert seen.of_runs() == RUN
    assert seen.of(SaveCommitted)


def test_it_hears_of_graphs_and_pipelines() -> None:
    seen = Seen()
    graph = Graph(dict, name="g").add_node("n", lambda state: state).add_edge("n", END)
    app = graph.set_entry("n").compile()
    steps = [{"id": "only", "function": lambda data: data}]
    paths = [{"from": "only", "to": "end"}]
    pipeline = Pipeline(steps=steps, flow={"start_at": "only", "paths": paths})
    with hf.Engine("memory://", listeners=[seen]) as engine:
        engine.run_sync(app({"n": 1}))
        engine.run_sync(pipeline({"n": 1}))
    assert seen.of_runs() == [*RUN, *RUN]


def test_it_hears_that_a_run_pauses_and_is_resumed() -> None:
    seen = Seen()
    with hf.Engine("memory://", listeners=[seen]) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(asking(), run_id="r")
        engine.answer_sync("r", True)
        engine.resume_sync("r")
    assert [event.resumed for event in seen.of(RunStarted)] == [False, True]
    (paused,) = seen.of(RunPaused)
    assert paused.questions
    assert not seen.of(RunStopped)


def test_it_hears_what_a_step_reports_retries_and_fails_with() -> None:
    @step(retry=2)
    def flaky() -> None:
        hf.current_step().progress(0.5, "half")
        hf.current_step().emit("part")
        raise LookupError("not there")

    @workflow
    async def failing() -> None:
        await flaky()

    seen = Seen()
    with hf.Engine("memory://", listeners=[seen]) as engine, pytest.raises(hf.StepFailedError):
        engine.run_sync(failing())
    assert len(seen.of(StepProgress)) == len(seen.of(StepOutput)) == len(seen.of(StepStarted)) == 2
    for kind in (StepRetrying, StepFailed, RunFailed):
        (event,) = seen.of(kind)
        assert event.error_type == "LookupError"


def test_it_hears_that_this_process_stops_executing_a_run() -> None:
    began = asyncio.Event()

    @step
    async def endless() -> None:
        began.set()
        await asyncio.Event().wait()

    @workflow
    async def long() -> None:
        await endless()

    async def main() -> None:
        engine = hf.Engine("memory://", listeners=[seen])
        await engine.start(long(), run_id="r")
        await began.wait()
        await engine.close()

    seen = Seen()
    asyncio.run(main())
    assert seen.of(RunStopped) == [RunStopped("r", "asyncio.exceptions.CancelledError")]


def test_an_async_listener_is_awaited() -> None:
    heard: list[str] = []

    async def listener(event: Event) -> None:
        await asyncio.sleep(0)
        heard.append(type(event).__name__)

    with hf.Engine("memory://", listeners=[listener]) as engine:
        engine.run_sync(child(1))
    assert [name for name in heard if name != "SaveCommitted"] == RUN


def test_a_listener_that_fails_is_logged_without_values_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[Event] = []

    def broken(event: Event) -> None:
        heard.append(event)
        raise SystemExit("SECRET")

    class BrokenObserver(Observer):
        def on_event(self, event: Event) -> None:
            raise KeyError("SECRET")

    with hf.Engine("memory://", listeners=[broken, BrokenObserver()]) as engine:
        assert engine.run_sync(child(1)) == 2
    assert len(heard) >= len(RUN)
    assert "broken failed: SystemExit in " in caplog.text
    assert "BrokenObserver failed: KeyError in " in caplog.text
    assert "SECRET" not in caplog.text


def test_a_run_does_not_wait_for_a_slow_listener(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "MOST_WAITING", 3)
    go_on, heard = threading.Event(), Seen()

    def slow(event: Event) -> None:
        go_on.wait()
        heard(event)

    with hf.Engine("memory://", listeners=[slow]) as engine:
        assert engine.run_sync(child(1)) == 2  # to its end
        go_on.set()
    assert 3 <= len(heard) <= 4  # what waited, and perhaps what it had begun with
    assert "slow is too slow" in caplog.text


def test_what_waits_for_a_slow_listener_is_bounded_in_bytes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "MOST_WAITING_BYTES", 100_000)
    go_on, heard = threading.Event(), Seen()

    def slow(event: Event) -> None:
        go_on.wait()
        heard(event)

    @step
    def large(n: int) -> bytes:
        hf.current_step().emit({"part": [b"y" * 30_000]})
        return b"x" * 30_000

    @workflow
    async def many() -> bytes:
        for n in range(10):
            await large(n)
        return b"z" * 30_000

    with hf.Engine("memory://", listeners=[slow]) as engine:
        engine.run_sync(many())
        go_on.set()
        observing.flush(engine.checkpointer.core.observers, PATIENCE)
        held = heard.of(StepCompleted, StepOutput)
        assert 3 <= len(held) <= 5
        heard.clear()
        engine.run_sync(many())
    assert heard.of(StepCompleted), "there is room again"
    assert "slow is too slow" in caplog.text


def test_closing_does_not_wait_for_ever(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "CLOSING_SECONDS", 0.01)
    monkeypatch.setattr(observing.flush, "__defaults__", (0.01,))
    go_on = threading.Event()

    def stuck(_: Event) -> None:
        go_on.wait()

    with hf.Engine("memory://", listeners=[stuck]) as engine:
        engine.run_sync(child(1))
    assert caplog.text.count("did not hear of the last") == 1, "it is waited for once"
    go_on.set()


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), asyncio.CancelledError()])
def test_an_observer_that_exits_ends_no_run(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    class Exits(Observer):
        def on_event(self, event: Event) -> None:
            raise error

        def flush(self, seconds: float) -> None:
            raise error

    with hf.Engine("memory://", listeners=[Exits()]) as engine:
        assert engine.run_sync(child(1)) == 2
    assert f"failed: {type(error).__name__}" in caplog.text


def test_what_a_listener_is_shown_belongs_to_it() -> None:
    @workflow
    async def listing() -> list[int]:
        return [1]

    seen = Seen()
    with hf.Engine("memory://", listeners=[seen]) as engine:
        result = engine.run_sync(listing())
        result.append(2)
    (completed,) = seen.of(RunCompleted)
    assert completed.result == [1]


def test_a_checkpointer_tells_what_it_saves() -> None:
    seen = Seen()
    with hf.SyncCheckpointer("memory://", listeners=[seen]) as cp:
        cp.save("r", {"n": 1})
        cp.save("r", {"n": 2})
    first, second = seen
    assert isinstance(first, SaveCommitted)
    assert isinstance(second, SaveCommitted)
    assert (first.run_id, first.entries, second.entries) == ("r", 2, 1)  # the run is opened first
    assert first.bytes > 0
    assert first.seconds > 0


def test_a_failed_save_is_told(tmp_path: Path) -> None:
    seen = Seen()
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(f"sqlite:///{path}", deadline=0.05, listeners=[seen]) as cp:
        cp.save("r", {"n": 1})
        with locked(path), pytest.raises(hf.CheckpointSaveError):
            cp.save("r", {"n": 2})
    (failed,) = seen.of(SaveFailed)
    assert (failed.run_id, failed.entries, failed.error_type) == ("r", 1, "CheckpointSaveError")


def test_a_manager_tells_which_claims_were_checked(tmp_path: Path) -> None:
    seen = Seen()
    path = tmp_path / "a.txt"
    path.write_text("a")
    with hf.SyncCheckpointer("memory://", listeners=[seen]) as cp:
        manager = CheckpointManager(cp, base_path=tmp_path)
        begun = manager.begin_step("task", "iteration_end", {})
        claim = hf.Evidence("artifact_exists", "it is there", {"path": "a.txt"})
        manager.commit_step(begun, hf.EvidencePack([claim]))
        path.unlink()
        assert manager.get_last_verified_checkpoint("task") is None
    first, *later = seen.of(ClaimChecked)
    assert (first.run_id, first.evidence_type, first.status) == (
        "task",
        "artifact_exists",
        "verified",
    )
    assert {one.status for one in later} == {"failed"}


def test_a_resume_tells_which_claims_were_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"

    @step(outputs=str(path))
    def write() -> None:
        path.write_text("a")

    @workflow
    async def writing() -> None:
        await write()
        await ask("Go on?", returns=bool)

    seen = Seen()
    with hf.Engine("memory://", listeners=[seen]) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(writing(), run_id="r")
        path.unlink()
        engine.answer_sync("r", True)
        with pytest.raises(hf.RunPausedError):
            engine.resume_sync("r")
    assert path.exists()  # the step ran again, and what was asked after it is asked again
    assert "failed" in {one.status for one in seen.of(ClaimChecked)}


def test_an_engine_on_a_shared_checkpointer_stops_listening_when_it_is_closed() -> None:
    seen = Seen()
    with hf.SyncCheckpointer("memory://") as cp:
        with hf.Engine(cp, listeners=[seen]) as engine:
            engine.run_sync(child(1))
        before = len(seen)
        cp.save("r", {})
        assert cp.core.observers == ()
    assert len(seen) == before


def test_what_is_no_listener_is_refused() -> None:
    with pytest.raises(TypeError, match="a listener is a function"):
        hf.Engine("memory://", listeners=[3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="listeners is a list"):
        hf.Engine("memory://", listeners=print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"not its class: listeners=\[Metrics\(\)\]"):
        hf.Engine("memory://", listeners=[Metrics])  # type: ignore[list-item]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_fork_has_listeners_too() -> None:
    reading, writing = os.pipe()

    def listener(event: Event) -> None:
        if isinstance(event, RunCompleted) and os.getpid() != parent:
            os.write(writing, b"heard")

    parent = os.getpid()
    engine = hf.Engine("memory://", listeners=[listener])
    engine.run_sync(child(1))
    pid = os.fork()
    if pid == 0:
        try:
            engine.run_sync(child(1))
            engine.close_sync()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 10) == b"heard"
    for end in (reading, writing):
        os.close(end)
    engine.close_sync()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process is in the middle of a write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


_: Callable[[Event], None] = Seen()  # what users give is a listener, to type checkers, too
