"""Verified resumes of workflows: what steps claimed about the world is checked before it is trusted."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine import launch
from holdfast.engine.events import CheckpointRejected, RunStarted, StepRetrying
from holdfast.evidence import (
    CommandResult,
    Evidence,
    EvidencePack,
    EvidenceVerifier,
    Policy,
    process_evidence,
)
from holdfast.kernel import appending
from holdfast.kernel.core import Core
from holdfast.model import Kind, verdict_journal
from holdfast.workflow import (
    StepCompleted,
    StepStarted,
    Workflow,
    WorkflowEngine,
    ask,
    command,
    for_each,
    parallel,
    step,
    workflow,
)
from tests.engine.desk import Desk, entries, kinds, reasons, rejected, there
from tests.evidence.support import Answer, http_server, reply
from tests.faults import FakeClock
from tests.workflow.support import Flow, collect, collect_failure, of, steps, stop_at


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    place = tmp_path / "desk"
    place.mkdir()
    return Desk(place)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What a journal is kept in can't matter much here."""
    kind = getattr(request, "param", "sqlite")
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/runs.db"}[kind]


every_store = pytest.mark.parametrize("url", ["memory", "sqlite"], indirect=True)


@pytest.fixture
def memory() -> WorkflowEngine:
    """For what the kind of store can't matter to."""
    return WorkflowEngine("memory://")


def line(desk: Desk, names: str = "abc") -> Workflow[..., Any]:
    """One step after another, each of which writes a file."""

    @workflow("line")
    def flow() -> Flow:
        texts = []
        for name in names:
            made = step(name).python(desk.write, args=(name,), outputs=desk / name)
            texts.append((yield made))
        return " ".join(texts)

    return flow


def fine(request: BaseHTTPRequestHandler) -> None:
    reply(request, 200)


def silent(request: BaseHTTPRequestHandler) -> None:
    request.connection.shutdown(socket.SHUT_RDWR)


def local() -> EvidenceVerifier:
    """May ask this machine, and is not patient."""
    return EvidenceVerifier(policy=Policy(private_addresses=True), attempts=1)


WHOLE = "this is a this is b this is c"


def stopped(engine: WorkflowEngine, flow: Workflow[..., Any], desk: Desk, last: str) -> None:
    """Carry a run out until a step is finished, and leave it there as a process that dies does."""
    asyncio.run(_stopped(engine, flow, last))
    desk.take()


async def _stopped(engine: WorkflowEngine, flow: Workflow[..., Any], last: str) -> None:
    await stop_at(engine.execute(flow, workflow_id="r"), StepCompleted, last)


Resume = Callable[[WorkflowEngine, Workflow[..., Any]], Any]


def by_run(engine: WorkflowEngine, flow: Workflow[..., Any]) -> Any:
    return asyncio.run(engine.run(flow, workflow_id="r", resume=True))


def by_run_sync(engine: WorkflowEngine, flow: Workflow[..., Any]) -> Any:
    return engine.run_sync(flow, workflow_id="r", resume=True)


def by_stream(engine: WorkflowEngine, flow: Workflow[..., Any]) -> Any:
    asyncio.run(collect(engine.resume(flow, workflow_id="r")))
    return engine.get_result("r").output


COLOURS = [by_run, by_run_sync, by_stream]


# --- going back


@pytest.mark.parametrize("resume", COLOURS)
def test_a_run_whose_evidence_holds_repeats_nothing(
    engine: WorkflowEngine, desk: Desk, resume: Resume
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "b")
    assert resume(engine, flow) == WHOLE
    assert desk.take() == ["c"]


@every_store
@pytest.mark.parametrize("resume", COLOURS)
@pytest.mark.parametrize(("gone", "again"), [("a", "abc"), ("b", "bc"), ("c", "c")])
def test_a_lost_file_is_made_again_and_what_came_before_it_is_not(
    engine: WorkflowEngine, desk: Desk, resume: Resume, gone: str, again: str
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "c")
    (desk / gone).unlink()
    assert resume(engine, flow) == WHOLE
    assert desk.take() == list(again)
    assert desk.holds("a", "b", "c")


def test_each_checkpoint_passed_over_is_told_with_its_reason(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "c")
    (desk / "b").write_text("something else")
    events = asyncio.run(collect(engine.resume(flow, workflow_id="r")))
    assert [type(event) for event in events[:3]] == [
        RunStarted, CheckpointRejected, CheckpointRejected,
    ]  # fmt: skip
    assert of(events, RunStarted)[0].restored == 1
    assert rejected(events) == ["c", "b"]
    assert all("b is unchanged" in event.reason for event in of(events, CheckpointRejected))
    told = [(step, reason) for _, step, reason in reasons(store, "r")]
    assert told == [(event.step, event.reason) for event in of(events, CheckpointRejected)]


def test_the_rollback_is_written_with_the_claim_before_anything_is_run_again(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
) -> None:
    seen: list[list[str]] = []

    @workflow("looks")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a",), outputs=desk / "a")
        yield step("b").python(look, outputs=desk / "b")

    def look() -> None:
        seen.append(kinds(store, "r"))
        desk.write("b")

    stopped(engine, flow, desk, "b")
    (desk / "b").unlink()
    by_run(engine, flow)
    assert seen[-1] == [Kind.OPEN, Kind.RESULT, Kind.RESULT, Kind.ROLLBACK, Kind.CLAIM]
    assert entries(store, "r")[3].parent == 1


def test_a_file_that_is_rewritten_by_a_later_step_is_no_failure(
    engine: WorkflowEngine, desk: Desk
) -> None:
    @workflow("rewrites")
    def flow() -> Flow:
        for n in range(3):
            yield step(f"s{n}").python(
                desk.write, args=("log", "x" * (n + 1)), outputs=desk / "log"
            )
        yield step("last").python(desk.call, args=("last",))

    stopped(engine, flow, desk, "s2")
    by_run(engine, flow)
    assert desk.take() == ["last"]


def test_what_is_put_right_holds_again(memory: WorkflowEngine, desk: Desk) -> None:
    flow = line(desk)
    stopped(memory, flow, desk, "b")
    text = (desk / "a").read_text()
    (desk / "a").unlink()
    (desk / "a").write_text(text)
    assert by_run(memory, flow) == WHOLE
    assert desk.take() == ["c"]


def test_what_a_step_reads_must_stay_as_it_was_when_the_step_began(
    engine: WorkflowEngine, desk: Desk
) -> None:
    (desk / "input").write_text("1")

    @workflow("reads")
    def flow() -> Flow:
        yield step("before").python(desk.write, args=("before",), outputs=desk / "before")
        made = step("copy").python(lambda: desk.write("copy", (desk / "input").read_text()))
        value = yield made.reads(desk / "input").outputs(desk / "copy")
        yield step("last").python(desk.call, args=("last",))
        return value

    stopped(engine, flow, desk, "last")
    (desk / "input").write_text("2")
    assert by_run(engine, flow) == "2"
    assert desk.take() == ["copy", "last"]
    assert (desk / "copy").read_text() == "2"


def test_a_file_that_is_read_and_written_is_claimed_as_it_was_written(
    memory: WorkflowEngine, desk: Desk
) -> None:
    (desk / "a").write_text("old")

    @workflow("updates")
    def flow() -> Flow:
        made = step("a").python(desk.write, args=("a",))
        yield made.reads(desk / "a").outputs(desk / "a")
        yield step("b").python(desk.call, args=("b",))

    stopped(memory, flow, desk, "a")
    by_run(memory, flow)
    assert desk.take() == ["b"]


def test_a_file_that_is_read_and_changed_is_claimed_as_the_step_found_it(
    memory: WorkflowEngine, desk: Desk
) -> None:
    """The step did not say that it writes it: what it was given is not there any more."""
    (desk / "input").write_text("1")

    @workflow("eats")
    def flow() -> Flow:
        made = step("a").python(desk.write, args=("input", "eaten"))
        yield made.reads(desk / "input")
        yield step("b").python(desk.call, args=("b",))

    stopped(memory, flow, desk, "a")
    by_run(memory, flow)
    assert desk.take() == ["input", "b"]


def test_where_nothing_was_claimed_nothing_is_passed_over(
    engine: WorkflowEngine, desk: Desk
) -> None:
    @workflow("plain")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",))
        yield step("b").python(desk.write, args=("b",), outputs=desk / "b")
        yield step("c").python(desk.call, args=("c",))

    stopped(engine, flow, desk, "c")
    (desk / "b").unlink()
    events = asyncio.run(collect(engine.resume(flow, workflow_id="r")))
    assert rejected(events) == ["c", "b"], "a is unverified, and accepted"
    assert desk.take() == ["b", "c"]


def test_it_goes_back_again_and_again_as_often_as_need_be(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "c")
    for gone, again in (("c", "c"), ("a", "abc"), ("b", "bc"), ("b", "bc")):
        (desk / gone).unlink()
        assert by_run(engine, flow) == WHOLE
        assert desk.take() == list(again)
    assert by_run(engine, flow) == WHOLE
    assert desk.take() == []


# --- what is not done by steps


def test_a_repair_keeps_what_was_decided_and_answered_before_the_step(
    engine: WorkflowEngine, desk: Desk
) -> None:
    decided: list[Any] = []

    @workflow("asks")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",))
        decided.append(hf.uuid())
        price = yield ask("Price?", returns=int)
        text = yield step("b").python(desk.write, args=("b", str(price)), outputs=desk / "b")
        return text, decided[-1]

    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    asyncio.run(engine.answer("r", 42, by="ann"))
    by_run(engine, flow)
    for _ in range(2):
        (desk / "b").unlink()
        assert by_run(engine, flow)[0] == "42"
    assert len(set(decided)) == 1
    assert desk.take() == ["a", "b", "b", "b"]


def test_a_repair_keeps_the_answer_to_what_was_asked_beside_the_step(
    engine: WorkflowEngine, desk: Desk
) -> None:
    @workflow("asks")
    def flow() -> Flow:
        made = step("b").python(desk.write, args=("b",), outputs=desk / "b")
        _, price = yield parallel(made, ask("Price?", name="price", returns=int))
        yield step("c").python(desk.call, args=("c",))
        return price

    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    asyncio.run(engine.answer("r", 42))
    (desk / "b").unlink()
    assert by_run(engine, flow) == 42
    assert desk.take() == ["b", "b", "c"]


def test_a_question_that_was_asked_after_the_step_is_asked_again(
    engine: WorkflowEngine, desk: Desk
) -> None:
    @workflow("asks")
    def flow() -> Flow:
        text = yield step("b").python(desk.write, args=("b",), outputs=desk / "b")
        return (yield ask(f"Is {text!r} fine?"))

    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    asyncio.run(engine.answer("r", "yes"))
    (desk / "b").unlink()
    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    asyncio.run(engine.answer("r", "no"))
    assert by_run(engine, flow) == "no"


def test_a_repair_keeps_the_failure_that_the_flow_went_on_with(
    engine: WorkflowEngine, desk: Desk
) -> None:
    desk.broken.add("x")

    @workflow("recovers")
    def flow() -> Flow:
        try:
            yield step("x").python(desk.call, args=("x",))
        except hf.StepFailedError:
            return (yield step("b").python(desk.write, args=("b",), outputs=desk / "b"))

    by_run(engine, flow)
    desk.broken.clear()
    (desk / "b").unlink()
    assert by_run(engine, flow) == "this is b"
    assert desk.take() == ["x", "b", "b"]


def test_a_step_that_failed_the_run_once_is_repaired_like_any_other(
    engine: WorkflowEngine, desk: Desk
) -> None:
    flow = line(desk)
    desk.broken.add("b")
    with pytest.raises(hf.StepFailedError):
        by_run(engine, flow)
    desk.broken.clear()
    by_run(engine, flow)
    desk.take()
    (desk / "b").unlink()
    assert by_run(engine, flow) == WHOLE
    assert desk.take() == ["b", "c"]


# --- completed, paused, cancelled, failed


@every_store
def test_a_completed_run_goes_on_only_if_something_is_not_so_any_more(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
) -> None:
    flow = line(desk)
    assert by_run(engine, flow) == WHOLE
    desk.take()
    before = kinds(store, "r")
    with pytest.raises(hf.RunFinishedError):
        asyncio.run(collect(engine.resume(flow, workflow_id="r")))
    assert by_run(engine, flow) == WHOLE, "the recorded result"
    assert kinds(store, "r") == before
    assert desk.take() == []
    (desk / "c").unlink()
    events = asyncio.run(collect(engine.resume(flow, workflow_id="r")))
    assert rejected(events) == ["c"]
    assert desk.take() == ["c"]
    assert engine.get_result("r").status == hf.Status.COMPLETED


def test_a_completed_run_that_asked_something_in_vain_is_finished_all_the_same(
    tmp_path: Path,
) -> None:
    """An older version asked, nobody answered, and the newer one does not care."""
    clock = FakeClock()

    @workflow("asks", version="1")
    def old() -> Flow:
        yield step("a").python(lambda: 1)
        return (yield ask("May I?", deadline=60, default="no"))

    @workflow("asks", version="2", migrate={"1": lambda results: results})
    def new() -> Flow:
        return (yield step("a").python(lambda: 1))

    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/runs.db", clock=clock) as cp:
        engine = WorkflowEngine(cp)
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(old, workflow_id="r")
        assert engine.run_sync(new, workflow_id="r", resume=True) == 1
        clock.advance(3600)
        assert engine.run_sync(new, workflow_id="r", resume=True) == 1


def test_a_completed_run_is_not_gone_on_with_for_other_inputs(
    memory: WorkflowEngine, desk: Desk
) -> None:
    @workflow("inputs")
    def flow(n: int) -> Flow:
        return (yield step("a").python(desk.write, args=("a", str(n)), outputs=desk / "a"))

    assert memory.run_sync(flow, workflow_id="r", n=1) == "1"
    (desk / "a").unlink()
    with pytest.raises(hf.InputMismatchError):
        memory.run_sync(flow, workflow_id="r", n=2, resume=True)
    assert memory.run_sync(flow, workflow_id="r", n=1, resume=True) == "1"


def test_a_run_that_waits_for_an_answer_is_not_looked_at_until_it_comes(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
) -> None:
    @workflow("asks")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a",), outputs=desk / "a")
        answer = yield ask("Go on?", returns=bool)
        yield step("b").python(desk.write, args=("b",), outputs=desk / "b")
        return answer

    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    before = kinds(store, "r")
    (desk / "a").unlink()
    desk.take()
    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    assert kinds(store, "r") == before
    assert desk.take() == []
    asyncio.run(engine.answer("r", True))
    with pytest.raises(hf.RunPausedError):  # the question belongs to what was done before it
        by_run(engine, flow)
    assert desk.take() == ["a"]
    asyncio.run(engine.answer("r", True))
    assert by_run(engine, flow) is True


def test_a_run_that_is_cancelled_is_undone_without_a_look_at_its_evidence(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
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


def test_a_failed_run_that_is_being_undone_is_not_repaired(
    memory: WorkflowEngine, desk: Desk
) -> None:
    @workflow("undoes")
    def flow() -> Flow:
        made = step("a").python(desk.write, args=("a",), outputs=desk / "a")
        yield made.with_rollback(lambda: desk.call("undo a"))
        yield step("b").python(desk.call, args=("b",)).with_rollback(lambda: desk.call("undo b"))
        yield step("c").python(int, args=("x",))

    desk.broken.add("undo b")

    async def dies() -> None:
        async for event in memory.execute(flow, workflow_id="r"):
            if isinstance(event, StepStarted) and event.step == "undo/b":
                return

    asyncio.run(dies())
    desk.take()
    desk.broken.clear()
    (desk / "a").unlink()
    with pytest.raises(hf.StepFailedError, match="'c'"):
        by_run(memory, flow)
    assert desk.take() == ["undo b", "undo a"]


def test_a_failed_run_is_repaired_before_it_is_tried_again(
    engine: WorkflowEngine, desk: Desk
) -> None:
    flow = line(desk)
    desk.broken.add("c")
    with pytest.raises(hf.StepFailedError, match="c is broken"):
        by_run(engine, flow)
    desk.broken.clear()
    desk.take()
    (desk / "b").unlink()
    assert by_run(engine, flow) == WHOLE
    assert desk.take() == ["b", "c"]


# --- what can't be told


@every_store
def test_what_cannot_be_told_stops_the_resume_as_often_as_it_is_tried(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
) -> None:
    """A server that is down says nothing about the work: none of it is thrown away."""
    up: dict[str, Answer] = {"/": fine}
    checked = WorkflowEngine(store, verifier=local())
    with http_server(up) as (port, _):
        claim = Evidence(
            "api_response", "the service is up", {"url": f"http://127.0.0.1:{port}/", "status": 200}
        )

        @workflow("asks the service")
        def flow() -> Flow:
            yield step("a").python(desk.write, args=("a",), outputs=desk / "a").evidence(claim)
            return (yield step("b").python(desk.call, args=("b",)))

        stopped(checked, flow, desk, "a")
        before = entries(store, "r")
        up["/"] = silent
        for _ in range(3):
            with pytest.raises(hf.VerificationError, match="the service is up"):
                by_run(checked, flow)
        assert entries(store, "r") == before
        assert desk.take() == []
        up["/"] = fine
        assert by_run(checked, flow) == "b"
        assert desk.take() == ["b"]


@pytest.mark.parametrize("trust", ["stored", "skip"])
def test_whoever_does_not_want_to_look_need_not(
    engine: WorkflowEngine, store: hf.Store, desk: Desk, trust: Any
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "b")
    (desk / "a").unlink()
    assert asyncio.run(engine.run(flow, workflow_id="r", resume=True, trust=trust)) == WHOLE
    assert desk.take() == ["c"]
    assert store.last(verdict_journal("r")) is None, "nothing was looked at"


def test_what_was_found_to_fail_counts_where_the_stored_verdicts_are_trusted(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "b")
    (desk / "b").unlink()
    with hf.SyncCheckpointer(store) as cp:
        from holdfast.evidence.trust.checking import Checker

        Checker(cp.core, EvidenceVerifier()).newest(
            cp.core.journals.branch("r"), lambda _: True, unclaimed=True
        )
        desk.write("b")
        desk.take()
        events = asyncio.run(collect(engine.resume(flow, workflow_id="r", trust="stored")))
    assert rejected(events) == ["b"]
    assert desk.take() == ["b", "c"]


def test_an_unknown_kind_of_trust_is_refused(memory: WorkflowEngine, desk: Desk) -> None:
    with pytest.raises(ValueError, match="'verify', 'stored' or 'skip'"):
        memory.resume(line(desk), workflow_id="r", trust="blind")  # type: ignore[arg-type]


# --- when the step is finished


def test_a_declared_output_that_is_not_there_fails_the_step(
    engine: WorkflowEngine, desk: Desk
) -> None:
    @workflow("forgets")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",), outputs=desk / "a")

    with pytest.raises(hf.StepFailedError, match=r"says that .*a is written by it"):
        by_run(engine, flow)


def test_a_file_to_be_read_that_is_not_there_fails_the_step_before_it_runs(
    memory: WorkflowEngine, desk: Desk
) -> None:
    @workflow("reads nothing")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",)).reads(desk / "input")

    with pytest.raises(hf.StepFailedError, match=r"says that .*input is read by it"):
        by_run(memory, flow)
    assert desk.take() == []


def test_a_claim_that_is_not_so_fails_the_step_and_is_retried(
    engine: WorkflowEngine, desk: Desk
) -> None:
    def work() -> int:
        desk.call("a")
        if len(desk.calls) == 3:
            (desk / "mark").touch()
        return len(desk.calls)

    @workflow("claims")
    def flow() -> Flow:
        made = step("a").python(work).retry(3, backoff=0.001).evidence(there(desk / "mark"))
        return (yield made)

    events = asyncio.run(collect(engine.execute(flow, workflow_id="r")))
    assert len(of(events, StepRetrying)) == 2
    assert "mark is there" in of(events, StepRetrying)[0].error
    assert engine.get_result("r").output == 3


def test_a_claim_that_is_never_so_fails_the_run_with_its_words(
    memory: WorkflowEngine, desk: Desk
) -> None:
    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",)).evidence(there(desk / "mark"))

    with pytest.raises(
        hf.StepFailedError, match=r"claims what is false: .*mark is there"
    ) as raised:
        by_run(memory, flow)
    assert raised.value.error_type == "holdfast.errors.ClaimFailedError"


def test_what_can_not_be_told_when_the_step_is_finished_fails_it_in_other_words(
    memory: WorkflowEngine, desk: Desk
) -> None:
    claim = Evidence("command_exit", "it went well", {"exit_code": 0})

    @workflow("claims")
    def flow() -> Flow:
        made = step("a").python(desk.call, args=("a",)).retry(2, backoff=0.001)
        yield made.evidence(claim, there(desk / "mark"))

    with pytest.raises(hf.StepFailedError) as raised:
        by_run(memory, flow)
    words = str(raised.value)
    assert re.search(r"what is false: .*mark.* and what can't be checked: .*it went well", words)
    assert desk.take() == ["a", "a"]


def test_a_partial_pack_is_not_satisfied_by_what_can_not_be_told(
    memory: WorkflowEngine, desk: Desk
) -> None:
    untold = [Evidence("command_exit", f"part {n} went well", {"exit_code": 0}) for n in range(2)]

    @workflow("claims")
    def flow(least: int) -> Flow:
        pack = EvidencePack([there(desk / "a"), *untold], False, True, least)
        return (yield step("a").python(desk.write, args=("a",)).evidence(pack))

    assert memory.run_sync(flow, least=1) == "this is a"
    with pytest.raises(hf.StepFailedError, match=r"claims what can't be checked: .*part 0"):
        memory.run_sync(flow, least=2)


def test_the_result_of_a_step_is_what_its_claim_is_compared_with_then_and_later(
    engine: WorkflowEngine, desk: Desk
) -> None:
    claim = Evidence("command_exit", "it went well", {"exit_code": 0})

    def work(code: int) -> dict[str, int]:
        desk.call("work")
        return {"exit_code": code}

    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(work, args=(0,)).evidence(claim)
        return (yield step("b").python(desk.call, args=("b",)))

    @workflow("claims falsely")
    def false() -> Flow:
        yield step("a").python(work, args=(1,)).evidence(claim)

    stopped(engine, flow, desk, "a")
    assert by_run(engine, flow) == "b"
    assert desk.take() == ["b"]
    with pytest.raises(hf.StepFailedError, match="it went well"):
        asyncio.run(engine.run(false, workflow_id="false"))


def test_partial_packs_need_as_many_as_they_say(engine: WorkflowEngine, desk: Desk) -> None:
    pack = EvidencePack([there(desk / name) for name in "xyz"], False, True, 2)

    def work() -> None:
        desk.call("a")
        for name in "xy":
            (desk / name).touch()

    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(work).evidence(pack)
        yield step("b").python(desk.call, args=("b",))

    stopped(engine, flow, desk, "a")
    (desk / "x").unlink()
    (desk / "z").touch()
    by_run(engine, flow)
    assert desk.take() == ["b"], "two of three are enough, whichever they are"
    (desk / "z").unlink()
    by_run(engine, flow)
    assert desk.take() == ["a", "b"]


def test_a_step_claims_from_within_what_it_finds_out_as_it_runs(
    engine: WorkflowEngine, desk: Desk
) -> None:
    def work() -> str:
        text = desk.write("a")
        hf.current_step().claim(there(desk / "a"))
        return text

    async def later() -> str:
        text = desk.write("b")
        hf.current_step().claim(EvidencePack([there(desk / "b")]))
        return text

    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(work)
        yield step("b").python(later)

    by_run(engine, flow)
    desk.take()
    (desk / "b").unlink()
    by_run(engine, flow)
    assert desk.take() == ["b"]
    (desk / "a").unlink()
    by_run(engine, flow)
    assert desk.take() == ["a", "b"]


def test_a_failed_attempt_leaves_no_claim_behind(memory: WorkflowEngine, desk: Desk) -> None:
    def work() -> None:
        desk.call("a")
        name = f"try-{hf.current_step().attempt}"
        (desk / name).touch()
        hf.current_step().claim(there(desk / name))
        if hf.current_step().attempt == 1:
            raise OSError("not yet")

    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(work).retry(2, backoff=0.001)

    by_run(memory, flow)
    desk.take()
    (desk / "try-1").unlink()
    by_run(memory, flow)
    assert desk.take() == []


def test_what_is_no_evidence_can_not_be_claimed(memory: WorkflowEngine) -> None:
    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(lambda: None).evidence("it went well, believe me")

    with pytest.raises(hf.StepFailedError, match="must be Evidence or an EvidencePack"):
        by_run(memory, flow)


def test_outputs_may_depend_on_the_result_and_be_directories(
    engine: WorkflowEngine, desk: Desk
) -> None:
    def work() -> list[str]:
        desk.call("a")
        for name in ("d/one", "d/e/two"):
            (desk / name).parent.mkdir(parents=True, exist_ok=True)
            (desk / name).write_text(name)
        return [str(desk / "d")]

    @step(outputs=lambda result: result)
    def made() -> list[str]:
        return work()

    @workflow("directories")
    def flow() -> Flow:
        yield made()

    by_run(engine, flow)
    desk.take()
    (desk / "d/new").touch()
    by_run(engine, flow)
    assert desk.take() == [], "what is added does not matter"
    (desk / "d/e/two").write_text("three")
    by_run(engine, flow)
    assert desk.take() == ["a"]


def test_rows_and_processes_can_be_claimed(
    engine: WorkflowEngine, desk: Desk, store: hf.Store
) -> None:
    database = desk / "shop.db"
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)")
    checked = WorkflowEngine(
        store,
        verifier=EvidenceVerifier(policy=Policy(connections={"shop": f"sqlite:///{database}"})),
    )
    row = Evidence(
        "db_row", "the order is paid",
        {"table": "orders", "where": {"id": 1}, "values": {"state": "paid"}}, {"connection": "shop"},
    )  # fmt: skip

    def pay() -> None:
        desk.call("pay")
        with closing(sqlite3.connect(database)) as db, db:
            db.execute("INSERT OR REPLACE INTO orders VALUES (1, 'paid')")

    @workflow("shop")
    def flow() -> Flow:
        yield (
            step("watch").python(desk.call, args=("watch",)).evidence(process_evidence(os.getpid()))
        )
        yield step("pay").python(pay).evidence(row)

    by_run(checked, flow)
    desk.take()
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("UPDATE orders SET state = 'refunded'")
    by_run(checked, flow)
    assert desk.take() == ["pay"]


def test_with_a_transaction_evidence_is_checked_by_the_resume_only(
    desk: Desk, tmp_path: Path
) -> None:
    """What the transaction is to write is not there yet when the step is finished."""
    path = tmp_path / "runs.db"
    checked = WorkflowEngine(
        f"sqlite:///{path}",
        verifier=EvidenceVerifier(policy=Policy(connections={"default": f"sqlite:///{path}"})),
    )
    hf.open_store(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE sums (n INTEGER)")
    row = Evidence("db_row", "the sum is there", {"table": "sums", "where": {"n": 7}})

    @workflow("commits")
    def flow() -> Flow:
        made = step("sum").python(lambda: desk.call("sum") and 7, commit=_insert)
        yield made.evidence(row)
        yield step("b").python(desk.call, args=("b",))

    def _insert(cursor: Any, n: int) -> None:
        cursor.execute("INSERT INTO sums VALUES (?)", (n,))

    stopped(checked, flow, desk, "sum")
    by_run(checked, flow)
    assert desk.take() == ["b"]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM sums")
    by_run(checked, flow)
    assert desk.take() == ["sum", "b"]
    asyncio.run(checked.close())


# --- commands


def test_a_command_is_a_step_whose_exit_code_is_evidence(
    engine: WorkflowEngine, desk: Desk
) -> None:
    program = f"print('made'); open({str(desk / 'report')!r}, 'a').write('x')"

    @workflow("builds")
    def flow() -> Flow:
        result = yield command(
            [sys.executable, "-c", program], name="make", outputs=desk / "report"
        )
        return (yield step("b").python(lambda: result.stdout.strip()))

    async def main() -> CommandResult:
        event = await stop_at(engine.execute(flow, workflow_id="r"), StepCompleted, "make")
        assert isinstance(event.value, CommandResult)
        return event.value

    assert asyncio.run(main()).exit_code == 0
    assert by_run(engine, flow) == "made"
    assert (desk / "report").read_text() == "x", "it was not run again"
    (desk / "report").unlink()
    assert by_run(engine, flow) == "made"
    assert (desk / "report").read_text() == "x"


def test_a_command_that_ends_otherwise_fails_its_step(memory: WorkflowEngine) -> None:
    @workflow("builds")
    def flow(code: int, fine: list[int] | None = None) -> Flow:
        program = f"import sys; print('oh no', file=sys.stderr); sys.exit({code})"
        result = yield command([sys.executable, "-c", program], exit_codes=fine or [0])
        return result.exit_code

    with pytest.raises(hf.StepFailedError, match="oh no"):
        memory.run_sync(flow, code=3)
    assert memory.run_sync(flow, workflow_id="r", code=3, fine=[0, 3]) == 3
    assert memory.run_sync(flow, workflow_id="r", resume=True) == 3, "3 is what was expected"


def test_a_command_says_whether_all_that_it_wrote_is_kept(memory: WorkflowEngine) -> None:
    @workflow("says")
    def flow() -> Flow:
        says = [sys.executable, "-c", "print('first'); print('last')"]
        whole = yield command(says)
        end = yield command(says, tail=8)
        return [(found.stdout, found.truncated) for found in (whole, end)]

    assert by_run(memory, flow) == [("first\nlast\n", False), ("last\n", True)]


def test_a_command_that_failed_is_tried_again(memory: WorkflowEngine, desk: Desk) -> None:
    program = f"import os, sys; p = {str(desk / 'x')!r}; sys.exit(os.mkdir(p) or 1 if not os.path.exists(p) else 0)"

    @workflow("builds")
    def flow() -> Flow:
        result = yield command([sys.executable, "-c", program]).retry(2, backoff=0.001)
        return result.exit_code

    assert by_run(memory, flow) == 0


def test_a_command_that_is_no_list_of_words_is_refused() -> None:
    wrong: Any
    for wrong in ("make report", [], b"make"):
        with pytest.raises(TypeError, match="list of words"):
            command(wrong)


# --- several at once


def both(desk: Desk) -> Workflow[..., Any]:
    def part(name: str) -> Any:
        return step(name).python(desk.write, args=(name,), outputs=desk / name)

    @workflow("both")
    def flow() -> Flow:
        yield part("first")
        pair = yield parallel(part("left"), part("right"))
        return [*pair, (yield part("last"))]

    return flow


@every_store
@pytest.mark.parametrize("gone", ["left", "right"])
def test_what_parallel_parts_wrote_is_checked_part_by_part(
    engine: WorkflowEngine, desk: Desk, gone: str
) -> None:
    flow = both(desk)
    result = by_run(engine, flow)
    desk.take()
    (desk / gone).unlink()
    assert by_run(engine, flow) == result
    again = desk.take()
    assert {gone, "last"} <= set(again) <= {"left", "right", "last"}
    assert desk.holds("first", "left", "right", "last")


def test_the_items_of_a_for_each_are_checked_one_by_one(engine: WorkflowEngine, desk: Desk) -> None:
    @workflow("each")
    def flow() -> Flow:
        body = lambda n: desk.write(f"item-{n}")  # noqa: E731
        return (
            yield for_each(range(4), body, name="work", concurrency=1,
                           outputs=lambda text: desk / text.removeprefix("this is "))
        )  # fmt: skip

    result = by_run(engine, flow)
    desk.take()
    (desk / "item-2").unlink()
    assert by_run(engine, flow) == result
    assert desk.take() == ["item-2", "item-3"]


def test_a_for_each_does_not_lose_the_outputs_of_a_step_that_it_is_given(
    engine: WorkflowEngine, desk: Desk
) -> None:
    @step
    def work(n: int) -> str:
        return desk.write(f"item-{n}")

    @workflow("each")
    def flow() -> Flow:
        where = lambda text: desk / text.removeprefix("this is ")  # noqa: E731
        return (yield for_each(range(2), work, concurrency=1, outputs=where))

    result = by_run(engine, flow)
    desk.take()
    (desk / "item-1").unlink()
    assert by_run(engine, flow) == result
    assert desk.take() == ["item-1"]


def test_outputs_of_a_for_each_whose_body_only_makes_steps_are_refused(
    memory: WorkflowEngine, desk: Desk
) -> None:
    @workflow("returns steps")
    def returns() -> Flow:
        yield for_each([1], lambda n: step("s").python(desk.call, args=("s",)), outputs=desk / "x")

    def body(n: int) -> Flow:
        yield step("s").python(desk.call, args=("s",))

    with pytest.raises(TypeError, match=r"\.outputs\("):
        for_each([1], body, outputs=desk / "x")
    with pytest.raises(hf.StepFailedError, match=r"\.outputs\("):
        by_run(memory, returns)
    assert desk.take() == []


# --- what is said about a step


def test_a_result_that_was_put_right_is_claimed_as_it_is_then(
    engine: WorkflowEngine, desk: Desk
) -> None:
    def better(text: str, problems: list[str]) -> str:
        return desk.write("a", "better")

    @workflow("checked")
    def flow() -> Flow:
        made = step("a").python(desk.write, args=("a", "bad"), outputs=desk / "a")
        yield made.validate(lambda text: text == "better", retry=1, on_failure=better)
        yield step("b").python(desk.call, args=("b",))

    stopped(engine, flow, desk, "b")
    by_run(engine, flow)
    assert desk.take() == []
    (desk / "a").unlink()
    by_run(engine, flow)
    assert desk.take() == ["a", "a", "b"]


def test_a_step_that_changes_its_arguments_is_not_taken_for_another(
    engine: WorkflowEngine, desk: Desk
) -> None:
    def work(found: list[str]) -> list[str]:
        found.append(desk.write("a"))
        return found

    def said(found: list[str]) -> list[str]:
        found.append(desk.write("b"))
        hf.current_step().claim(there(desk / "b"))
        return found

    @workflow("changes")
    def flow() -> Flow:
        yield step("a").python(work, args=([],), outputs=desk / "a")
        yield step("b").python(said, args=([],))
        return (yield step("c").python(desk.call, args=("c",)))

    stopped(engine, flow, desk, "b")
    assert by_run(engine, flow) == "c"
    assert desk.take() == ["c"]


def test_a_step_that_is_skipped_on_error_claims_nothing(memory: WorkflowEngine, desk: Desk) -> None:
    @workflow("skips")
    def flow() -> Flow:
        made = step("a").python(desk.call, args=("a",), outputs=desk / "a")
        yield made.skip_on_error("nothing")
        return (yield step("b").python(desk.call, args=("b",)))

    assert by_run(memory, flow) == "b"
    assert by_run(memory, flow) == "b"
    assert desk.take() == ["a", "b"]


# --- runs within runs


def nested(desk: Desk) -> Workflow[..., Any]:
    def part(name: str) -> Any:
        return step(name).python(desk.write, args=(name,), outputs=desk / name)

    @workflow("inner")
    def inner() -> Flow:
        yield part("i1")
        return (yield part("i2"))

    @workflow("middle")
    def middle() -> Flow:
        yield part("m1")
        text = yield step("deep").subworkflow(inner)
        return text + (yield part("m2"))

    @workflow("outer")
    def outer() -> Flow:
        yield part("o1")
        text = yield step("sub").subworkflow(middle)
        return text + (yield part("o2"))

    return outer


@pytest.mark.parametrize(
    ("gone", "again"),
    [
        ("o2", ["o2"]),
        ("m2", ["m2", "o2"]),
        ("i2", ["i2", "m2", "o2"]),
        ("i1", ["i1", "i2", "m2", "o2"]),
        ("m1", ["m1", "i1", "i2", "m2", "o2"]),
    ],
)
def test_what_was_claimed_in_runs_within_is_checked_and_repaired_there(
    engine: WorkflowEngine, desk: Desk, gone: str, again: list[str]
) -> None:
    flow = nested(desk)
    result = by_run(engine, flow)
    desk.take()
    (desk / gone).unlink()
    events = asyncio.run(collect(engine.resume(flow, workflow_id="r")))
    assert engine.get_result("r").output == result
    done = desk.take()
    if gone == "m1":  # the deep run is whole: it is looked up, not run again
        assert done == ["m1", "m2", "o2"]
        return
    assert done == again
    assert {event.run_id for event in of(events, CheckpointRejected)} <= {
        "r", "r//sub", "r//sub//deep",
    }  # fmt: skip
    assert rejected(events)[0] == "o2"


@every_store
def test_outputs_of_a_subworkflow_step_are_made_again_by_the_run_within(
    engine: WorkflowEngine, desk: Desk
) -> None:
    """The run within claims nothing itself: its step does, and it must not be believed blindly."""

    @workflow("inner")
    def inner() -> Flow:
        yield step("one").python(desk.call, args=("one",))
        return (yield step("two").python(desk.write, args=("f",)))

    @workflow("outer")
    def outer() -> Flow:
        yield step("zero").python(desk.write, args=("zero",), outputs=desk / "zero")
        yield step("sub").subworkflow(inner).outputs(desk / "f")

    for harm in (lambda: (desk / "f").unlink(), lambda: (desk / "f").write_text("forged")):
        by_run(engine, outer)
        desk.take()
        harm()
        by_run(engine, outer)
        assert desk.take() == ["one", "f"]
        assert desk.holds("f")
    (desk / "zero").unlink()
    by_run(engine, outer)
    assert desk.take() == ["zero"], "what the run within made is as it was"


def test_a_run_within_that_begins_anew_does_so_once_wherever_it_is_interrupted(
    memory: WorkflowEngine, desk: Desk
) -> None:
    @workflow("inner")
    def inner() -> Flow:
        yield step("one").python(desk.call, args=("one",))
        return (yield step("two").python(desk.write, args=("f",)))

    @workflow("outer")
    def outer() -> Flow:
        yield step("sub").subworkflow(inner).outputs(desk / "f")

    async def follow(count: int) -> int:
        """Go on up to so many events; returns how many are left."""
        async for _ in memory.resume(outer, workflow_id="r"):
            count -= 1
            if not count:
                break
        return count

    by_run(memory, outer)
    for count in range(1, 100):
        desk.take()
        (desk / "f").unlink()
        left = asyncio.run(follow(count))
        by_run(memory, outer)
        assert desk.holds("f")
        done = desk.take()
        assert done == ["one", "f"], f"interrupted after {count} events"
        if left:
            return
    raise AssertionError("there is no end to it")


def test_a_run_within_that_is_called_with_something_else_after_a_repair_is_another(
    engine: WorkflowEngine, desk: Desk
) -> None:
    (desk / "input").write_text("1")

    @workflow("inner")
    def inner(n: str) -> Flow:
        return (yield step("i").python(desk.call, args=(f"inner {n}",)))

    @workflow("outer")
    def outer() -> Flow:
        read = step("read").python((desk / "input").read_text).reads(desk / "input")
        n = yield read
        return (yield step("sub").subworkflow(inner, n=n))

    assert by_run(engine, outer) == "inner 1"
    (desk / "input").write_text("2")
    assert by_run(engine, outer) == "inner 2"
    assert desk.take() == ["inner 1", "inner 2"]
    (desk / "input").write_text("1")
    assert by_run(engine, outer) == "inner 1"


def test_a_claim_is_compared_with_the_result_of_its_own_step_however_deep_that_is(
    engine: WorkflowEngine, desk: Desk
) -> None:
    """What the steps above it came to is something else."""
    claim = Evidence("command_exit", "it was built", {"exit_code": 0}, {"command": ["make"]})

    @workflow("inner")
    def inner() -> Flow:
        yield step("build").python(lambda: {"exit_code": 0}).evidence(claim)
        return "built"

    @workflow("middle")
    def middle() -> Flow:
        yield step("deep").subworkflow(inner)
        return {"exit_code": 1}

    @workflow("outer")
    def outer() -> Flow:
        yield step("sub").subworkflow(middle)
        yield step("o").python(desk.call, args=("o",))

    by_run(engine, outer)
    assert desk.take() == ["o"]
    by_run(engine, outer)
    assert desk.take() == []


def test_what_was_claimed_in_a_run_within_that_was_deleted_can_not_be_told(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
) -> None:
    @workflow("inner")
    def inner() -> Flow:
        yield step("i").python(desk.write, args=("i",), outputs=desk / "i")

    @workflow("outer")
    def outer() -> Flow:
        yield step("sub").subworkflow(inner)
        yield step("o").python(desk.call, args=("o",))

    stopped(engine, outer, desk, "sub")
    with hf.SyncCheckpointer(store) as cp:
        cp.clear("r//sub")
    (desk / "i").unlink()
    with pytest.raises(hf.VerificationError, match=r"r//sub.*trust=") as caught:
        by_run(engine, outer)
    assert caught.value.checkpoint_id == "r@1"
    assert desk.take() == []
    engine.run_sync(outer, workflow_id="r", resume=True, trust="stored")
    assert desk.take() == ["o"]


def test_only_what_was_written_of_a_run_within_that_begins_anew_is_told(
    engine: WorkflowEngine, store: hf.Store, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another moves the run within just before that can be written."""

    @workflow("inner")
    def inner() -> Flow:
        yield step("one").python(desk.call, args=("one",))
        return (yield step("two").python(desk.write, args=("f",)))

    @workflow("outer")
    def outer() -> Flow:
        yield step("sub").subworkflow(inner).outputs(desk / "f")

    by_run(engine, outer)
    (desk / "f").unlink()
    real = appending.append_at
    with hf.SyncCheckpointer(store) as cp:
        cp.rollback("r//sub", seq=1)

        def append_at(core: Core, run: str, *rest: Any) -> Any:
            if run == "r//sub":
                cp.rollback(run, seq=1)
            return (yield from real(core, run, *rest))

        monkeypatch.setattr(launch, "append_at", append_at)
        events = asyncio.run(collect(engine.resume(outer, workflow_id="r")))
    assert [event.run_id for event in of(events, CheckpointRejected)] == ["r"]
    assert desk.holds("f")


def test_a_run_within_that_cannot_be_told_stops_the_resume_of_both(
    store: hf.Store, desk: Desk
) -> None:
    up: dict[str, Answer] = {"/": fine}
    checked = WorkflowEngine(store, verifier=local())
    with http_server(up) as (port, _):
        claim = Evidence(
            "api_response", "it is up", {"url": f"http://127.0.0.1:{port}/", "status": 200}
        )

        @workflow("inner")
        def inner() -> Flow:
            yield step("i").python(desk.call, args=("i",)).evidence(claim)
            yield step("j").python(desk.call, args=("j",))

        @workflow("outer")
        def outer() -> Flow:
            yield step("sub").subworkflow(inner)
            yield step("o").python(desk.call, args=("o",))

        stopped(checked, outer, desk, "i")
        up["/"] = silent
        for _ in range(2):
            with pytest.raises(hf.VerificationError):
                by_run(checked, outer)
        up["/"] = fine
        by_run(checked, outer)
        assert desk.take() == ["j", "o"]


# --- idempotency keys


def test_a_repaired_step_keeps_its_idempotency_key(engine: WorkflowEngine, desk: Desk) -> None:
    keys: list[str] = []

    def work() -> None:
        keys.append(hf.current_step().idempotency_key)
        desk.write("a")

    @workflow("keys")
    def flow() -> Flow:
        yield step("a").python(work, outputs=desk / "a")

    for _ in range(3):
        by_run(engine, flow)
        (desk / "a").unlink()
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_repair_does_not_forget_that_the_run_was_gone_back_in(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
) -> None:
    """A step that was done anew on purpose has a new key; repairing it must not bring the old one back."""
    keys: list[str] = []

    def work(name: str) -> None:
        keys.append(hf.current_step().idempotency_key)
        desk.write(name)

    @workflow("keys")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a",), outputs=desk / "a")
        yield step("b").python(work, args=("b",), outputs=desk / "b")

    by_run(engine, flow)
    with hf.SyncCheckpointer(store) as cp:
        cp.rollback("r", seq=1)
        by_run(engine, flow)
        assert keys[0] != keys[1]
        (desk / "a").unlink()
        by_run(engine, flow)
    assert keys[2] == keys[1]


# --- strategies, durability


@pytest.mark.parametrize("strategy", ["marked", "on_error", "on_success"])
def test_a_file_rewritten_by_a_step_that_is_not_saved_by_itself_is_no_failure(
    store: hf.Store, desk: Desk, strategy: str
) -> None:
    engine = WorkflowEngine(store, checkpoint_after=strategy)

    @workflow("rewrites")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("log", "1"), outputs=desk / "log").checkpoint()
        yield step("b").python(desk.write, args=("log", "2"), outputs=desk / "log")

    by_run(engine, flow)
    desk.take()
    by_run(engine, flow)
    assert desk.take() == []
    (desk / "log").unlink()
    by_run(engine, flow)
    assert desk.take() == ["log", "log"]


@pytest.mark.parametrize("strategy", ["marked", "on_error"])
def test_claims_of_steps_that_are_not_saved_by_themselves_come_with_the_pause(
    store: hf.Store, desk: Desk, strategy: str
) -> None:
    engine = WorkflowEngine(store, checkpoint_after=strategy)

    @workflow("asks")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a",), outputs=desk / "a")
        yield ask("Go on?")
        return (yield step("b").python(desk.write, args=("b",), outputs=desk / "b"))

    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    asyncio.run(engine.answer("r", "yes"))
    desk.take()
    (desk / "a").unlink()
    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    assert desk.take() == ["a"]


@every_store
@pytest.mark.parametrize("durability", ["exit", "async"])
def test_what_is_saved_later_is_claimed_all_the_same(
    url: str, store: hf.Store, desk: Desk, durability: Any
) -> None:
    flow = line(desk)

    async def main() -> None:
        async with hf.Checkpointer(store, durability=durability) as cp:
            engine = WorkflowEngine(cp)
            assert await engine.run(flow, workflow_id="r") == WHOLE
            desk.take()
            (desk / "b").unlink()
            assert await engine.run(flow, workflow_id="r", resume=True) == WHOLE
            assert desk.take() == ["b", "c"]

    asyncio.run(main())


# --- forks, migrations


@every_store
def test_a_fork_answers_for_what_its_origin_claimed(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
) -> None:
    flow = line(desk)
    by_run(engine, flow)
    desk.take()
    with hf.SyncCheckpointer(store) as cp:
        cp.fork("r", run_id="fork", seq=2)
        (desk / "a").unlink()
        assert asyncio.run(engine.run(flow, workflow_id="fork", resume=True)) == WHOLE
    assert desk.take() == ["a", "b", "c"]


def test_a_step_of_a_fork_that_is_called_with_an_edited_value_is_done_again(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
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
        events = asyncio.run(collect(engine.resume(flow, workflow_id="fork")))
        assert rejected(events) == ["b"]
        assert engine.get_result("fork").output == "c edited"
        assert desk.take() == ["b", "c edited"]
        (desk / "b").write_text("a")
        asyncio.run(collect(engine.resume(flow, workflow_id="same")))
        assert desk.take() == []


def test_a_command_of_a_fork_with_other_words_is_run_again(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
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
        assert asyncio.run(engine.run(flow, workflow_id="fork", resume=True)) == "edited"


def test_a_fork_answers_for_the_runs_within_its_origin(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
) -> None:
    flow = nested(desk)
    result = by_run(engine, flow)
    desk.take()
    with hf.SyncCheckpointer(store) as cp:
        cp.fork("r", run_id="fork")
        (desk / "i2").unlink()
        assert asyncio.run(engine.run(flow, workflow_id="fork", resume=True)) == result
    assert desk.take() == ["m1", "i1", "i2", "m2", "o2"]


def test_a_migrated_run_is_still_checked(memory: WorkflowEngine, desk: Desk) -> None:
    old = line(desk)
    stopped(memory, old, desk, "b")

    @workflow(
        "line", version="2", migrate={"1": lambda results: {"A": results.get("a"), **results}}
    )
    def new() -> Flow:
        a = yield step("A").python(desk.write, args=("a",), outputs=desk / "a")
        return a

    @workflow("line", version="2", migrate={"1": None})
    def same() -> Flow:
        yield step("a").python(desk.write, args=("a",), outputs=desk / "a")
        yield step("b").python(desk.write, args=("b",), outputs=desk / "b")
        return "new"

    (desk / "b").unlink()
    assert by_run(memory, same) == "new"
    assert desk.take() == ["b"]


def test_steps_that_were_not_called_as_they_are_now_are_found_in_the_events(
    memory: WorkflowEngine, desk: Desk
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
    events = asyncio.run(collect(memory.resume(flow, workflow_id="r")))
    assert steps(events, StepStarted) == ["claims", "after"]
    assert [e.reason for e in of(events, CheckpointRejected)] == [
        "its step is called with other arguments now"
    ]
    assert desk.take() == ["a", "after"]
    assert memory.get_result("r").status == hf.Status.COMPLETED


def test_a_failure_is_told_to_the_stream_as_well(memory: WorkflowEngine, desk: Desk) -> None:
    flow = line(desk)
    stopped(memory, flow, desk, "b")
    (desk / "b").unlink()
    desk.broken.add("b")
    events, _ = asyncio.run(
        collect_failure(memory.resume(flow, workflow_id="r"), hf.StepFailedError)
    )
    assert rejected(events) == ["b"]
    desk.broken.clear()
    assert by_run(memory, flow) == WHOLE


class Ahead(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward."""

    by = 0.0

    def time(self) -> float:
        return super().time() + self.by


def test_a_run_that_goes_back_on_its_way_is_started_once_and_keeps_its_timeout(
    engine: WorkflowEngine, store: hf.Store, desk: Desk
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
    events = asyncio.run(collect(engine.resume(flow, workflow_id="fork")))
    assert rejected(events) == ["b"]
    assert len(of(events, RunStarted)) == 1
    assert len(set(decided)) == 1, "what was decided before the step is not decided again"
    spent = 100.0
    (desk / "b").write_text("a")
    impatient = WorkflowEngine(store, timeout=150)
    with asyncio.Runner(loop_factory=Ahead) as runner, pytest.raises(hf.RunTimeoutError):
        runner.run(impatient.run(flow, workflow_id="late", resume=True))
