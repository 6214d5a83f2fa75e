"""Runs that are continued in the browser, where the UI knows their flows."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.engine.people.going_back import refuse_if_executed
from holdfast.graph import END, Graph
from holdfast.web import executing
from tests.waiting import ENOUGH, in_time, wait_until
from tests.web import small_flows as flows
from tests.web.conftest import Serving


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture(autouse=True)
def _nobody_waits() -> Iterator[None]:
    flows.gate.clear()
    flows.begun.clear()
    yield
    flows.gate.set()


@pytest.fixture
def client(serving: Serving) -> TestClient:
    return serving(allow_writes=True, flows=flows.ALL)


def post(client: TestClient, path: str, **fields: Any) -> None:
    answer = client.post(path, data={"by": "ann", **fields}, follow_redirects=False)
    assert answer.status_code == 303, answer.text


def client_list(client: TestClient) -> str:
    text = client.get("/runs").text
    assert " dead" not in text
    return text


def status(cp: hf.SyncCheckpointer, run: str) -> str:
    found = cp.run(run)
    assert found is not None
    return found.status


def test_an_answered_run_continues_here(
    client: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    flows.execute(store, lambda: flows.digest(["a"]), "digest-1")
    assert "The server of this page executes it" in client.get("/inbox").text
    post(client, "/runs/digest-1/answer", question="ask", answer="true")
    wait_until(lambda: status(cp, "digest-1") == "completed")


def test_an_answer_that_comes_while_a_run_is_about_to_pause_continues_it(
    client: TestClient,
    cp: hf.SyncCheckpointer,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pause is durable before the task that executed the run has ended."""
    flows.execute(store, lambda: flows.digest(["a"]), "digest-1")
    executor = client.app.state.site.executor  # type: ignore[attr-defined]
    resume, paused, answered = executor._engine.resume, threading.Event(), threading.Event()

    async def resume_and_linger(run_id: str) -> Any:
        try:
            return await resume(run_id)
        finally:
            paused.set()
            await asyncio.to_thread(answered.wait, ENOUGH)

    monkeypatch.setattr(executor._engine, "resume", resume_and_linger)
    executor.resume("digest-1")
    assert paused.wait(ENOUGH)
    post(client, "/runs/digest-1/answer", question="ask", answer="true")
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), executor._loop).result(ENOUGH)
    answered.set()
    wait_until(lambda: status(cp, "digest-1") == "completed")


def test_a_failed_run_is_retried_here(
    client: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    flows.broken[:] = [True]
    flows.execute(store, flows.site, "site-1")
    flows.broken.clear()
    post(client, "/runs/site-1/do/retry")
    wait_until(lambda: status(cp, "site-1") == "completed")


def test_only_what_was_asked_for_here_is_executed(
    client: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    with hf.Engine(store) as engine:
        engine.submit_sync(flows.two(), run_id="others")
    flows.execute(store, flows.two, "two-1")
    post(client, "/runs/two-1/do/fork", new_id="copy", **{"continue": "1"})
    wait_until(lambda: status(cp, "copy") == "completed")
    assert status(cp, "others") == "submitted"


def begin_slow(client: TestClient, store: Path) -> None:
    """Have the UI execute a step that blocks until it is let go."""
    with hf.Engine(store) as engine:
        engine.submit_sync(flows.slow(), run_id="slow-1")
    post(client, "/runs/slow-1/do/pause")
    post(client, "/runs/slow-1/do/resume")
    assert flows.begun.wait(60)


def test_a_step_that_blocks_keeps_no_page_waiting(
    client: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    begin_slow(client, store)
    with in_time():
        assert client.get("/inbox").status_code == 200
    assert status(cp, "slow-1") == "running"
    flows.gate.set()
    wait_until(lambda: status(cp, "slow-1") == "completed")


def test_what_can_not_be_continued_here_says_so_on_its_page(
    client: TestClient,
    cp: hf.SyncCheckpointer,
    store: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from holdfast.workflow import step, workflow

    @step
    def other() -> None:
        raise ValueError

    @workflow("two")
    async def renamed(much: int) -> None:
        await other()

    flows.execute(store, lambda: renamed(1), "two-1")
    with caplog.at_level(logging.WARNING, "holdfast"):
        post(client, "/runs/two-1/do/retry")
        wait_until(lambda: "could not be continued here" in client.get("/runs/two-1").text)
    assert "run two-1 stopped" in caplog.text
    assert status(cp, "two-1") == "failed"


def test_a_fork_whose_state_does_not_fit_says_so_and_calls_no_process_dead(
    serving: Serving, cp: hf.SyncCheckpointer, store: Path
) -> None:
    made = Graph(flows.Address, name="moves").add_node("pack", _move).add_node("move", _move)
    graph = made.add_edge("pack", "move").add_edge("move", END).set_entry("pack").compile()
    with hf.Engine(store) as engine:
        engine.run_sync(graph(flows.Address("Oslo", 1)), run_id="moves-1")
    client = serving(allow_writes=True, flows=[graph])
    post(
        client,
        "/runs/moves-1/do/fork",
        new_id="copy",
        at="pack",
        state='{"city": ["Bergen"], "zip": 1}',
        **{"continue": "1"},
    )
    wait_until(lambda: "released the run" in client.get("/runs/copy").text)
    text = client.get("/runs/copy").text
    assert "Orphaned: it could not be continued here" in text
    assert "expected str, found list" in text
    assert " dead" not in text
    assert 'class="crash"' not in text


def _move(state: flows.Address) -> dict[str, Any]:
    return {"zip": 2}


def test_a_ui_that_stops_leaves_its_runs_to_workers(
    serving: Serving, cp: hf.SyncCheckpointer, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executing, "DRAIN", 0.01)
    client = serving(allow_writes=True, flows=[flows.waiting])
    with hf.Engine(store) as engine:
        engine.submit_sync(flows.waiting(), run_id="waiting-1")
    post(client, "/runs/waiting-1/do/pause")
    post(client, "/runs/waiting-1/do/resume")
    assert flows.begun.wait(60)
    client.__exit__(None, None, None)
    assert status(cp, "waiting-1") == "running"
    left = serving().get("/runs/waiting-1").text
    assert "released the run at" in left
    assert "nobody executes it" in left
    assert " dead" not in left
    assert 'class="crash"' not in left
    assert "nobody executes it" in client_list(serving())
    flows.gate.set()
    with hf.Engine(store) as engine:
        assert engine.work_sync(flows.waiting, until_idle=True) == 1
    assert status(cp, "waiting-1") == "completed"
    client.__enter__()


def test_without_leave_to_write_nothing_is_executed(serving: Serving, store: Path) -> None:
    client = serving(flows=flows.ALL)
    assert client.app.state.site.executor is None  # type: ignore[attr-defined]


def test_a_run_is_not_rolled_back_while_a_process_executes_it(
    client: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    begin_slow(client, store)
    head = cp.core.journals.head("slow-1")
    assert head is not None
    with pytest.raises(hf.RunActiveError, match="pause it first"):
        refuse_if_executed(cp.core, head)
