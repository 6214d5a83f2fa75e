from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.resume.activity import activity_of
from holdfast.events import RollbackStarted, StepRetrying, StepStarted
from holdfast.workflow import ask, sleep, step, workflow
from tests.workflow.support import Calls, Flow, collect, of, recorded, stop_at

calls = Calls()
keys: dict[str, list[str]] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    calls.take()
    keys.clear()


def work(name: str, value: Any) -> Any:
    info = hf.current_step()
    calls(name)
    keys.setdefault(f"{info.run_id} {name}", []).append(info.idempotency_key)
    return value


@workflow("sum")
def total() -> Flow:
    a = yield step("a").python(work, args=("a", 1))
    b = yield step("b").python(work, args=("b", a + 1))
    c = yield step("c").python(work, args=("c", b + 1)).retry(1)
    return [a, b, c]


async def seq_of(cp: hf.Checkpointer, run_id: str, name: str) -> int:
    found = await cp.load(run_id, step=name)
    assert found is not None
    return found.seq


def test_the_state_of_a_run_is_its_results_by_step(store: hf.Store) -> None:
    async def main() -> None:
        cp = hf.Checkpointer(store)
        await hf.Engine(cp).run(total(), run_id="r")
        found = await cp.load("r", step="b")
        assert found is not None
        assert found.state == {"a": 1, "b": 2}

    asyncio.run(main())


def test_a_fork_continues_with_edited_results(store: hf.Store) -> None:
    async def main() -> None:
        cp = hf.Checkpointer(store)
        engine = hf.Engine(cp)
        await engine.run(total(), run_id="r")
        calls.take()
        await cp.fork("r", seq=await seq_of(cp, "r", "b"), run_id="f", state={"a": 1, "b": 20})
        assert await engine.run(total(), run_id="f", resume=True) == [1, 20, 21]
        assert calls.take() == ["c"]
        await cp.fork("r", seq=await seq_of(cp, "r", "b"), run_id="g", state={"a": 10})
        assert await engine.run(total(), run_id="g", resume=True) == [10, 11, 12]
        assert calls.take() == ["b", "c"]
        assert (await engine.run(total(), run_id="r", resume=True)) == [1, 2, 3]
        assert keys["f c"] != keys["r c"]

    asyncio.run(main())


def test_the_first_attempt_after_a_fork_or_going_back_is_the_first(store: hf.Store) -> None:
    async def main() -> None:
        cp = hf.Checkpointer(store)
        engine = hf.Engine(cp)
        await engine.run(total(), run_id="r")
        await cp.fork("r", seq=await seq_of(cp, "r", "b"), run_id="f")
        events = await collect(engine.resume_stream("f", flow=total))
        assert [e.attempt for e in of(events, StepStarted)] == [1]
        await cp.rollback("r", seq=await seq_of(cp, "r", "b"))
        events = await collect(engine.resume_stream("r", flow=total))
        assert [e.attempt for e in of(events, StepStarted)] == [1]

    asyncio.run(main())


def test_after_going_back_the_steps_behind_are_done_anew(store: hf.Store) -> None:
    async def main() -> None:
        cp = hf.Checkpointer(store)
        engine = hf.Engine(cp)
        await engine.run(total(), run_id="r")
        calls.take()
        await cp.rollback("r", seq=await seq_of(cp, "r", "a"))
        assert await engine.run(total(), run_id="r", resume=True) == [1, 2, 3]
        assert calls.take() == ["b", "c"]
        before, after = keys["r b"]
        assert before != after, "what it set off is to be set off again"
        assert recorded(engine, "r") == ["a", "b", "c"]

    asyncio.run(main())


def test_an_idempotency_key_stays_over_attempts_and_crashes(store: hf.Store) -> None:
    seen: list[str] = []

    def flaky() -> None:
        info = hf.current_step()
        seen.append(info.idempotency_key)
        if info.attempt < 4:
            raise OSError("busy")

    @workflow
    def flow() -> Flow:
        yield step("a").python(lambda: seen.append(hf.current_step().idempotency_key))
        yield step("b").python(flaky).retry(5, backoff=0)

    async def main() -> None:
        engine = hf.Engine(store)
        await stop_at(engine.stream(flow(), run_id="r"), StepRetrying)
        await engine.run(flow(), run_id="r", resume=True)
        assert len(seen) >= 3
        assert len(set(seen[1:])) == 1
        assert seen[0] != seen[1]
        assert len(seen[0]) == 32

    asyncio.run(main())


def test_a_failed_run_can_be_gone_back_and_forked(store: hf.Store) -> None:
    broken = True

    def maybe() -> str:
        if broken:
            raise ValueError("no")
        return "yes"

    @workflow
    def flow() -> Flow:
        a = yield step("a").python(work, args=("a", 1))
        return a, (yield step("b").python(maybe))

    async def main() -> None:
        nonlocal broken
        cp = hf.Checkpointer(store)
        engine = hf.Engine(cp)
        with pytest.raises(hf.StepFailedError):
            await engine.run(flow(), run_id="r")
        await cp.fork("r", run_id="f")
        broken = False
        assert await engine.run(flow(), run_id="f", resume=True) == (1, "yes")
        assert await engine.run(flow(), run_id="r", resume=True) == (1, "yes")
        assert calls.order == ["a"]

    asyncio.run(main())


class Orders:
    """Steps that can be undone; `ship` fails or asks, as it is told."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.undone: list[str] = []
        self.ship: Any = lambda: None

    def _act(self, name: str) -> str:
        self.done.append(name)
        return name

    def flow(self, **options: Any) -> Any:
        def undoable(name: str) -> Any:
            act = step(name).python(self._act, args=(name,)).inline()
            return act.with_rollback(self.undone.append)

        @workflow("order", **options)
        def order() -> Flow:
            yield undoable("pay")
            yield undoable("pack")
            yield self.ship()

        return order


def _no_ship() -> Any:
    def fail() -> None:
        raise ValueError("no ship")

    return step("ship").python(fail)


def test_a_fork_that_fails_undoes_only_what_it_did_itself(store: hf.Store) -> None:
    orders = Orders()
    orders.ship = lambda: step("ship").python(lambda: None)
    order = orders.flow()

    async def main() -> None:
        cp = hf.Checkpointer(store)
        engine = hf.Engine(cp)
        await engine.run(order(), run_id="r")
        await cp.fork("r", seq=await seq_of(cp, "r", "pay"), run_id="f")
        await cp.fork("f", run_id="g")  # a fork of the fork
        orders.ship = _no_ship
        for fork in ("f", "g"):
            orders.done.clear()
            with pytest.raises(hf.StepFailedError):
                await engine.run(order(), run_id=fork, resume=True)
            assert orders.done == ["pack"]
            assert orders.undone == ["pack"], "the payment is the original's"
            orders.undone.clear()

    asyncio.run(main())


def test_a_fork_with_edited_results_does_not_undo_them(store: hf.Store) -> None:
    orders = Orders()
    orders.ship = lambda: step("ship").python(lambda: None)
    order = orders.flow()

    async def main() -> None:
        cp = hf.Checkpointer(store)
        engine = hf.Engine(cp)
        await engine.run(order(), run_id="r")
        await cp.fork("r", run_id="f", state={"pay": "by card", "pack": "in a box"})
        orders.ship = _no_ship
        with pytest.raises(hf.StepFailedError):
            await engine.run(order(), run_id="f", resume=True)
        assert orders.undone == []

    asyncio.run(main())


def test_a_fork_that_has_done_nothing_yet_is_cancelled_at_once(store: hf.Store) -> None:
    orders = Orders()
    orders.ship = lambda: ask("Ship it?")
    order = orders.flow()

    async def main() -> None:
        cp = hf.Checkpointer(store)
        engine = hf.Engine(cp)
        with pytest.raises(hf.RunPausedError):
            await engine.run(order(), run_id="r")
        await cp.fork("r", run_id="f")
        await engine.cancel("f")
        assert await engine.status("f") == "cancelled"
        assert orders.undone == []
        await engine.cancel("r")
        with pytest.raises(hf.RunCancelledError):
            await engine.resume("r", flow=order)
        assert orders.undone == ["pack", "pay"]

    asyncio.run(main())


def test_a_fork_whose_results_are_migrated_does_not_undo_them(store: hf.Store) -> None:
    orders = Orders()
    orders.ship = lambda: step("ship").python(lambda: None)
    order = orders.flow()

    async def main() -> None:
        cp = hf.Checkpointer(store)
        await hf.Engine(cp).run(order(), run_id="r")
        await cp.fork("r", seq=await seq_of(cp, "r", "pay"), run_id="f")
        orders.ship = _no_ship
        changed = orders.flow(migrate=hf.Migrations(2, {1: lambda results: results}))
        with pytest.raises(hf.StepFailedError):
            await hf.Engine(cp).run(changed(), run_id="f", resume=True)
        assert orders.undone == ["pack"]

    asyncio.run(main())


def test_a_crash_while_a_fork_is_undone_undoes_no_more_after_a_resume(store: hf.Store) -> None:
    orders = Orders()
    orders.ship = lambda: step("ship").python(lambda: None)
    order = orders.flow()

    async def main() -> None:
        cp = hf.Checkpointer(store)
        engine = hf.Engine(cp)
        await engine.run(order(), run_id="r")
        await cp.fork("r", seq=await seq_of(cp, "r", "pay"), run_id="f")
        orders.ship = _no_ship
        await stop_at(engine.resume_stream("f", flow=order), RollbackStarted)
        with pytest.raises(hf.StepFailedError):
            await engine.resume("f", flow=order)
        assert orders.undone == ["pack"]

    asyncio.run(main())


def test_going_back_in_a_run_leaves_what_it_did_before_to_be_undone(store: hf.Store) -> None:
    orders = Orders()
    orders.ship = lambda: step("ship").python(lambda: None)
    order = orders.flow()

    async def main() -> None:
        cp = hf.Checkpointer(store)
        engine = hf.Engine(cp)
        await engine.run(order(), run_id="r")
        orders.ship = _no_ship
        with pytest.raises(hf.StepFailedError):
            await engine.resume("r", flow=order, from_step="pack")
        assert orders.done == ["pay", "pack", "pack"]
        assert orders.undone == ["pack", "pay"]

    asyncio.run(main())


def test_a_fork_executes_child_runs_of_its_own(store: hf.Store) -> None:
    calls.take()

    @workflow
    def part() -> Flow:
        return (yield step("work").python(calls, args=("work",)))

    @workflow
    def whole() -> Flow:
        yield step("first").python(calls, args=("first",))
        yield step("sub").subworkflow(part)

    async def main() -> None:
        cp = hf.Checkpointer(store)
        engine = hf.Engine(cp)
        await engine.run(whole(), run_id="r")
        await cp.fork("r", seq=await seq_of(cp, "r", "first"), run_id="f")
        await cp.fork("r", run_id="g")
        await engine.run(whole(), run_id="f", resume=True)
        await engine.run(whole(), run_id="g", resume=True)
        assert calls.take() == ["first", "work", "work"]
        for fork in ("f", "g"):
            await cp.clear(fork)
        left = [run.run_id async for run in cp.iter_runs()]
        assert sorted(left) == ["r", "r//sub"]

    asyncio.run(main())


def test_what_is_being_undone_is_not_continued_from(store: hf.Store) -> None:
    orders = Orders()
    orders.ship = _no_ship
    order = orders.flow()

    async def main() -> None:
        cp = hf.Checkpointer(store)
        engine = hf.Engine(cp)
        await stop_at(engine.stream(order(), run_id="r"), RollbackStarted)
        for seq in (await seq_of(cp, "r", "pay"), await seq_of(cp, "r", "pack")):
            with pytest.raises(hf.RunFinishedError, match="its steps were undone"):
                await cp.fork("r", seq=seq)
            with pytest.raises(hf.RunFinishedError, match="its steps were undone"):
                await cp.rollback("r", seq=seq)
        with pytest.raises(hf.RunFinishedError, match="its steps were undone"):
            await engine.resume("r", flow=order, from_step="pack")
        with pytest.raises(hf.StepFailedError):
            await engine.resume("r", flow=order)
        assert orders.undone == ["pack", "pay"]

    asyncio.run(main())


@pytest.mark.parametrize("again", [False, True])
def test_going_back_keeps_a_failure_that_the_flow_handled(engine: hf.Engine, again: bool) -> None:
    """What was decided after it would otherwise be asked for too late."""
    down = True

    def shaky(name: str) -> None:
        calls(name)
        if name == "optional" or down:
            raise OSError(name)

    @workflow
    def flow() -> Flow:
        yield step("first").python(calls, ("first",))
        try:
            yield step("optional").python(shaky, ("optional",))
        except hf.StepFailedError:
            hf.now()
        if again:
            yield step("twice").python(shaky, ("twice",))
        yield step("last").python(calls, ("last",))

    async def main() -> None:
        nonlocal down
        if again:
            with pytest.raises(hf.StepFailedError, match="twice"):
                await engine.run(flow(), run_id="r")
        down = False
        await engine.run(flow(), run_id="r", resume=True)
        calls.take()
        await engine.resume("r", flow=flow, from_step="twice" if again else "last")

    asyncio.run(main())
    assert calls.take() == (["twice", "last"] if again else ["last"])


def test_a_fork_behind_a_retry_and_a_sleep_waits_for_nobody(store: hf.Store) -> None:
    """When its steps were due is the past of another run."""

    @workflow("late")
    def late() -> Flow:
        yield step("a").python(once_more).retry(2, backoff=0.001)
        yield sleep(0.001)
        return (yield step("b").python(work, args=("b", 2)))

    def once_more() -> int:
        calls("a")
        if calls.count("a") == 1:
            raise ConnectionError
        return 1

    async def main() -> None:
        cp = hf.Checkpointer(store)
        await hf.Engine(cp).run(late(), run_id="r")
        for name in ("a", "b"):
            seq = await seq_of(cp, "r", name)
            fork = await cp.fork("r", seq=seq, run_id=f"behind {name}")
            info = await cp.run(fork.run_id)
            assert info is not None
            assert info.due_at is None
            assert activity_of(cp.core, info).due is None

    asyncio.run(main())
