"""Evidence of runs that are completed, paused, cancelled or failed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.events import StepStarted
from holdfast.evidence import Evidence
from holdfast.model import Kind
from holdfast.workflow import ask, step, workflow
from tests.engine.desk import Desk, kinds, rejected
from tests.evidence.support import Answer, http_server
from tests.faults import FakeClock
from tests.workflow.evidence.support import (
    WHOLE,
    by_run,
    every_store,
    fine,
    line,
    local,
    silent,
    stopped,
)
from tests.workflow.support import Flow, collect


@every_store
def test_a_completed_run_resumes_only_if_a_claim_does_not_verify_any_more(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    flow = line(desk)
    assert by_run(engine, flow) == WHOLE
    desk.take()
    before = kinds(store, "r")
    with pytest.raises(hf.RunFinishedError):
        asyncio.run(collect(engine.resume_stream("r", flow=flow)))
    assert by_run(engine, flow) == WHOLE, "the recorded result"
    assert kinds(store, "r") == before
    assert desk.take() == []
    (desk / "c").unlink()
    events = asyncio.run(collect(engine.resume_stream("r", flow=flow)))
    assert rejected(events) == ["c"]
    assert desk.take() == ["c"]
    assert engine.status_sync("r") == hf.Status.COMPLETED


def test_a_completed_run_with_an_unanswered_question_is_finished_all_the_same(
    tmp_path: Path,
) -> None:
    """An older version asked, nobody answered, and the newer one does not care."""
    clock = FakeClock()

    @workflow("asks", version="1")
    def old() -> Flow:
        yield step("a").python(lambda: 1)
        return (yield ask("May I?", deadline=60, default="no"))

    @workflow("asks", migrate=hf.Migrations(2, {1: lambda results: results}))
    def new() -> Flow:
        return (yield step("a").python(lambda: 1))

    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/runs.db", clock=clock) as cp:
        engine = hf.Engine(cp)
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(old(), run_id="r")
        assert engine.run_sync(new(), run_id="r", resume=True) == 1
        clock.advance(3600)
        assert engine.run_sync(new(), run_id="r", resume=True) == 1


def test_a_completed_run_is_not_resumed_with_other_inputs(memory: hf.Engine, desk: Desk) -> None:
    @workflow("inputs")
    def flow(n: int) -> Flow:
        return (yield step("a").python(desk.write, args=("a", str(n)), outputs=desk / "a"))

    assert memory.run_sync(flow(n=1), run_id="r") == "1"
    (desk / "a").unlink()
    with pytest.raises(hf.InputMismatchError):
        memory.run_sync(flow(n=2), run_id="r", resume=True)
    assert memory.run_sync(flow(n=1), run_id="r", resume=True) == "1"


def test_a_run_that_waits_for_an_answer_is_checked_when_it_is_resumed(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    """Nobody approves what is not there any more."""

    @workflow("asks")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a",), outputs=desk / "a")
        answer = yield ask("Go on?", returns=bool)
        yield step("b").python(desk.write, args=("b",), outputs=desk / "b")
        return answer

    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    before = kinds(store, "r")
    desk.take()
    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    assert kinds(store, "r") == before, "what it claimed is true: it waits on"
    (desk / "a").unlink()
    with pytest.raises(hf.RunPausedError):  # and asks again
        by_run(engine, flow)
    assert desk.take() == ["a"]
    asyncio.run(engine.answer("r", True))
    assert by_run(engine, flow) is True
    assert desk.take() == ["b"]


def test_a_run_that_waits_for_an_answer_waits_on_while_nothing_is_decided(
    store: hf.Store, desk: Desk
) -> None:
    """What can't be checked now is checked when the answer has come."""
    engine = hf.Engine(store, verifier=local())
    up: dict[str, Answer] = {"/": fine}
    with http_server(up) as (port, _):
        url = f"http://127.0.0.1:{port}/"
        claim = Evidence("api_response", "the service is up", {"url": url, "status": 200})

        @workflow("asks")
        def flow() -> Flow:
            yield step("a").python(desk.call, args=("a",)).evidence(claim)
            return (yield ask("Go on?", returns=bool))

        with pytest.raises(hf.RunPausedError):
            by_run(engine, flow)
        up["/"] = silent
        with pytest.raises(hf.RunPausedError):
            by_run(engine, flow)
        asyncio.run(engine.answer("r", True))
        with pytest.raises(hf.VerificationError):
            by_run(engine, flow)
    assert desk.take() == ["a"]


def test_a_cancelled_run_is_undone_without_checking_its_evidence(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    @workflow("undoes")
    def flow() -> Flow:
        made = step("a").python(desk.write, args=("a",), outputs=desk / "a")
        yield made.with_rollback(lambda: desk.call("undo a"))
        yield step("b").python(desk.call, args=("b",))

    stopped(engine, flow, desk, "a")
    (desk / "a").unlink()
    asyncio.run(engine.cancel("r"))
    with pytest.raises(hf.RunCancelledError):
        by_run(engine, flow)
    assert desk.take() == ["undo a"]
    assert Kind.ROLLBACK not in kinds(store, "r")
    with pytest.raises(hf.RunFinishedError):
        by_run(engine, flow)


def test_a_failed_run_that_is_being_undone_is_not_repaired(memory: hf.Engine, desk: Desk) -> None:
    @workflow("undoes")
    def flow() -> Flow:
        made = step("a").python(desk.write, args=("a",), outputs=desk / "a")
        yield made.with_rollback(lambda: desk.call("undo a"))
        yield step("b").python(desk.call, args=("b",)).with_rollback(lambda: desk.call("undo b"))
        yield step("c").python(int, args=("x",))

    desk.broken.add("undo b")

    async def dies() -> None:
        async for event in memory.stream(flow(), run_id="r"):
            if isinstance(event, StepStarted) and event.step == "undo/b":
                return

    asyncio.run(dies())
    desk.take()
    desk.broken.clear()
    (desk / "a").unlink()
    with pytest.raises(hf.StepFailedError, match="'c'"):
        by_run(memory, flow)
    assert desk.take() == ["undo b", "undo a"]


def test_a_failed_run_is_repaired_before_it_is_tried_again(engine: hf.Engine, desk: Desk) -> None:
    flow = line(desk)
    desk.broken.add("c")
    with pytest.raises(hf.StepFailedError, match="c is broken"):
        by_run(engine, flow)
    desk.broken.clear()
    desk.take()
    (desk / "b").unlink()
    assert by_run(engine, flow) == WHOLE
    assert desk.take() == ["b", "c"]
