"""A resume goes back to the newest checkpoint that still verifies."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.engine.events import CheckpointRejected, RunStarted
from holdfast.model import Kind
from holdfast.workflow import step, workflow
from tests.engine.desk import Desk, entries, kinds, reasons, rejected
from tests.workflow.evidence.support import (
    WAYS,
    WHOLE,
    Resume,
    by_run,
    every_store,
    line,
    stopped,
)
from tests.workflow.support import Flow, collect, of


@pytest.mark.parametrize("resume", WAYS)
def test_a_run_whose_evidence_verifies_repeats_nothing(
    engine: hf.Engine, desk: Desk, resume: Resume
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "b")
    assert resume(engine, flow) == WHOLE
    assert desk.take() == ["c"]


@every_store
@pytest.mark.parametrize("resume", WAYS)
@pytest.mark.parametrize(("gone", "again"), [("a", "abc"), ("b", "bc"), ("c", "c")])
def test_a_lost_file_is_made_again_and_what_came_before_it_is_not(
    engine: hf.Engine, desk: Desk, resume: Resume, gone: str, again: str
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "c")
    (desk / gone).unlink()
    assert resume(engine, flow) == WHOLE
    assert desk.take() == list(again)
    assert desk.holds("a", "b", "c")


def test_each_skipped_checkpoint_is_reported_with_its_reason(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "c")
    (desk / "b").write_text("something else")
    events = asyncio.run(collect(engine.resume_stream("r", flow=flow)))
    assert [type(event) for event in events[:3]] == [
        RunStarted, CheckpointRejected, CheckpointRejected,
    ]  # fmt: skip
    assert of(events, RunStarted)[0].restored == 1
    assert rejected(events) == ["c", "b"]
    assert all("b is unchanged" in event.reason for event in of(events, CheckpointRejected))
    told = [(step, reason) for _, step, reason in reasons(store, "r")]
    assert told == [(event.step, event.reason) for event in of(events, CheckpointRejected)]


def test_the_rollback_is_written_with_the_claim_before_anything_is_run_again(
    engine: hf.Engine, store: hf.Store, desk: Desk
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
    engine: hf.Engine, desk: Desk
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


def test_a_file_that_is_restored_verifies_again(memory: hf.Engine, desk: Desk) -> None:
    flow = line(desk)
    stopped(memory, flow, desk, "b")
    text = (desk / "a").read_text()
    (desk / "a").unlink()
    (desk / "a").write_text(text)
    assert by_run(memory, flow) == WHOLE
    assert desk.take() == ["c"]


def test_what_a_step_reads_must_stay_as_it_was_when_the_step_began(
    engine: hf.Engine, desk: Desk
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
    memory: hf.Engine, desk: Desk
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
    memory: hf.Engine, desk: Desk
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


def test_checkpoints_without_claims_are_not_skipped(engine: hf.Engine, desk: Desk) -> None:
    @workflow("plain")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",))
        yield step("b").python(desk.write, args=("b",), outputs=desk / "b")
        yield step("c").python(desk.call, args=("c",))

    stopped(engine, flow, desk, "c")
    (desk / "b").unlink()
    events = asyncio.run(collect(engine.resume_stream("r", flow=flow)))
    assert rejected(events) == ["c", "b"], "a is unverified, and accepted"
    assert desk.take() == ["b", "c"]


def test_a_run_goes_back_as_often_as_its_files_are_lost(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "c")
    for gone, again in (("c", "c"), ("a", "abc"), ("b", "bc"), ("b", "bc")):
        (desk / gone).unlink()
        assert by_run(engine, flow) == WHOLE
        assert desk.take() == list(again)
    assert by_run(engine, flow) == WHOLE
    assert desk.take() == []
