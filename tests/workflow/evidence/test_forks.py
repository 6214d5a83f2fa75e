"""Evidence of forks and of migrated runs."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.events import CheckpointRejected, RunStarted
from holdfast.events import StepStarted
from holdfast.workflow import command, step, workflow
from tests.engine.desk import Desk, rejected
from tests.workflow.evidence.support import (
    WHOLE,
    by_run,
    every_store,
    line,
    nested,
    stopped,
)
from tests.workflow.support import Flow, collect, collect_failure, of, steps


@every_store
def test_a_fork_is_checked_for_the_claims_of_its_origin(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    flow = line(desk)
    by_run(engine, flow)
    desk.take()
    with hf.SyncCheckpointer(store) as cp:
        cp.fork("r", run_id="fork", seq=2)
        (desk / "a").unlink()
        assert asyncio.run(engine.run(flow(), run_id="fork", resume=True)) == WHOLE
    assert desk.take() == ["a", "b", "c"]


def test_a_step_of_a_fork_that_is_called_with_an_edited_value_is_done_again(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    @workflow("uses")
    def flow() -> Flow:
        text = yield step("a").python(desk.call, args=("a",))
        yield step("b").python(desk.write, args=("b", text), outputs=desk / "b")
        made = yield command([sys.executable, "-c", f"print({text!r})"], name="say")
        return (yield step("c").python(desk.call, args=(f"c {made.stdout.strip()}",)))

    assert by_run(engine, flow) == "c a"
    desk.take()
    with hf.SyncCheckpointer(store) as cp:
        loaded = cp.load("r")
        assert loaded is not None
        cp.fork("r", run_id="fork", state={**loaded.state, "a": "edited"})
        cp.fork("r", run_id="same", state=loaded.state)
        events = asyncio.run(collect(engine.resume_stream("fork", flow=flow)))
        assert rejected(events) == ["b"]
        assert engine.outcome_sync("fork") == "c edited"
        assert desk.take() == ["b", "c edited"]
        (desk / "b").write_text("a")
        asyncio.run(collect(engine.resume_stream("same", flow=flow)))
        assert desk.take() == []


def test_a_command_of_a_fork_with_other_arguments_runs_again(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    @workflow("uses")
    def flow() -> Flow:
        text = yield step("a").python(desk.call, args=("a",))
        made = yield command([sys.executable, "-c", f"print({text!r})"], name="say")
        return made.stdout.strip()

    assert by_run(engine, flow) == "a"
    with hf.SyncCheckpointer(store) as cp:
        loaded = cp.load("r")
        assert loaded is not None
        cp.fork("r", run_id="fork", state={**loaded.state, "a": "edited"})
        assert asyncio.run(engine.run(flow(), run_id="fork", resume=True)) == "edited"


def test_a_fork_is_checked_for_the_child_runs_of_its_origin(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    flow = nested(desk)
    result = by_run(engine, flow)
    desk.take()
    with hf.SyncCheckpointer(store) as cp:
        cp.fork("r", run_id="fork")
        (desk / "i2").unlink()
        assert asyncio.run(engine.run(flow(), run_id="fork", resume=True)) == result
    assert desk.take() == ["m1", "i1", "i2", "m2", "o2"]


def test_a_migrated_run_is_still_checked(memory: hf.Engine, desk: Desk) -> None:
    old = line(desk)
    stopped(memory, old, desk, "b")

    @workflow("line", migrate=hf.Migrations(2, {1: None}))
    def same() -> Flow:
        yield step("a").python(desk.write, args=("a",), outputs=desk / "a")
        yield step("b").python(desk.write, args=("b",), outputs=desk / "b")
        return "new"

    (desk / "b").unlink()
    assert by_run(memory, same) == "new"
    assert desk.take() == ["b"]


def test_steps_with_changed_arguments_are_reported_in_the_events(
    memory: hf.Engine, desk: Desk
) -> None:
    """Only a step that claims something is held to what it was called with."""
    given = ["one"]

    @workflow("wanders")
    def flow() -> Flow:
        yield step("plain").python(desk.call, args=(given[0],))
        yield step("claims").python(desk.write, args=("a", given[0]), outputs=desk / "a")
        return (yield step("after").python(desk.call, args=("after",)))

    stopped(memory, flow, desk, "claims")
    given[0] = "two"
    events = asyncio.run(collect(memory.resume_stream("r", flow=flow)))
    assert steps(events, StepStarted) == ["claims", "after"]
    assert [e.reason for e in of(events, CheckpointRejected)] == [
        "its step is called with other arguments now"
    ]
    assert desk.take() == ["a", "after"]
    assert memory.status_sync("r") == hf.Status.COMPLETED


def test_a_failure_is_also_reported_to_the_stream(memory: hf.Engine, desk: Desk) -> None:
    flow = line(desk)
    stopped(memory, flow, desk, "b")
    (desk / "b").unlink()
    desk.broken.add("b")
    events, _ = asyncio.run(
        collect_failure(memory.resume_stream("r", flow=flow), hf.StepFailedError)
    )
    assert rejected(events) == ["b"]
    desk.broken.clear()
    assert by_run(memory, flow) == WHOLE


class Ahead(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward."""

    by = 0.0

    def time(self) -> float:
        return super().time() + self.by


def test_a_run_that_goes_back_while_running_starts_once_and_keeps_its_timeout(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    spent = 0.0
    decided: list[Any] = []

    async def work() -> str:
        for _ in range(50):
            await asyncio.sleep(0)
        return "done"

    @workflow("uses")
    def flow() -> Flow:
        text = yield step("a").python(desk.call, args=("a",))
        decided.append(hf.uuid())
        loop = asyncio.get_running_loop()
        if isinstance(loop, Ahead):
            loop.by += spent
        yield step("b").python(desk.write, args=("b", text), outputs=desk / "b")
        return (yield step("c").python(work))

    by_run(engine, flow)
    with hf.SyncCheckpointer(store) as cp:
        loaded = cp.load("r", seq=3)
        assert loaded is not None
        for name in ("fork", "late"):
            cp.fork("r", seq=3, run_id=name, state={**loaded.state, "a": "edited"})
    events = asyncio.run(collect(engine.resume_stream("fork", flow=flow)))
    assert rejected(events) == ["b"]
    assert len(of(events, RunStarted)) == 1
    assert len(set(decided)) == 1, "what was decided before the step is not decided again"
    spent = 100.0
    (desk / "b").write_text("a")
    impatient = hf.Engine(store, timeout=150)
    with asyncio.Runner(loop_factory=Ahead) as runner, pytest.raises(hf.RunTimeoutError):
        runner.run(impatient.run(flow(), run_id="late", resume=True))
