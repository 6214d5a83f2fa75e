"""Evidence with idempotency keys, checkpoint strategies and durability."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.workflow import ask, step, workflow
from tests.engine.desk import Desk
from tests.workflow.evidence.support import (
    WHOLE,
    by_run,
    every_store,
    line,
)
from tests.workflow.support import Flow


def test_a_repaired_step_keeps_its_idempotency_key(engine: hf.Engine, desk: Desk) -> None:
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


def test_a_repair_remembers_that_the_run_was_rolled_back(
    engine: hf.Engine, store: hf.Store, desk: Desk
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


@pytest.mark.parametrize("strategy", ["marked", "on_error", "on_success"])
def test_a_file_rewritten_by_a_step_that_is_not_saved_by_itself_is_no_failure(
    store: hf.Store, desk: Desk, strategy: str
) -> None:
    engine = hf.Engine(store, checkpoint_after=strategy)

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
    engine = hf.Engine(store, checkpoint_after=strategy)

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
def test_steps_that_are_saved_later_claim_all_the_same(
    url: str, store: hf.Store, desk: Desk, durability: Any
) -> None:
    flow = line(desk)

    async def main() -> None:
        async with hf.Checkpointer(store, durability=durability) as cp:
            engine = hf.Engine(cp)
            assert await engine.run(flow(), run_id="r") == WHOLE
            desk.take()
            (desk / "b").unlink()
            assert await engine.run(flow(), run_id="r", resume=True) == WHOLE
            assert desk.take() == ["b", "c"]

    asyncio.run(main())
