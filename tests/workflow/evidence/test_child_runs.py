"""Claims in child runs are checked and repaired there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine import child_runs
from holdfast.engine.events import CheckpointRejected
from holdfast.evidence import (
    Evidence,
)
from holdfast.kernel import appending
from holdfast.kernel.core import Core
from holdfast.workflow import step, workflow
from tests.engine.desk import Desk, rejected
from tests.evidence.support import Answer, http_server
from tests.workflow.evidence.support import (
    by_run,
    every_store,
    fine,
    local,
    nested,
    silent,
    stopped,
)
from tests.workflow.support import Flow, collect, of


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
def test_claims_of_child_runs_are_checked_and_repaired_there(
    engine: hf.Engine, desk: Desk, gone: str, again: list[str]
) -> None:
    flow = nested(desk)
    result = by_run(engine, flow)
    desk.take()
    (desk / gone).unlink()
    events = asyncio.run(collect(engine.resume_stream("r", flow=flow)))
    assert engine.outcome_sync("r") == result
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
def test_outputs_of_a_subworkflow_step_are_made_again_by_the_child_run(
    engine: hf.Engine, desk: Desk
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


def test_a_child_run_starts_over_once_wherever_it_is_interrupted(
    memory: hf.Engine, desk: Desk
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
        async for _ in memory.resume_stream("r", flow=outer):
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


def test_a_child_run_with_other_inputs_after_a_repair_is_a_new_run(
    engine: hf.Engine, desk: Desk
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


def test_a_claim_is_compared_with_the_result_of_its_own_step_at_any_depth(
    engine: hf.Engine, desk: Desk
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


def test_claims_of_a_deleted_child_run_are_undecided(
    engine: hf.Engine, store: hf.Store, desk: Desk
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
    assert caught.value.checkpoint_id == "r@2"
    assert desk.take() == []
    engine.run_sync(outer(), run_id="r", resume=True, trust="stored")
    assert desk.take() == ["o"]


def test_only_recorded_events_of_a_child_run_that_starts_over_are_reported(
    engine: hf.Engine, store: hf.Store, desk: Desk, monkeypatch: pytest.MonkeyPatch
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

        monkeypatch.setattr(child_runs, "append_at", append_at)
        events = asyncio.run(collect(engine.resume_stream("r", flow=outer)))
    assert [event.run_id for event in of(events, CheckpointRejected)] == ["r"]
    assert desk.holds("f")


def test_an_undecided_check_in_a_child_run_stops_the_resume_of_both(
    store: hf.Store, desk: Desk
) -> None:
    up: dict[str, Answer] = {"/": fine}
    checked = hf.Engine(store, verifier=local())
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
