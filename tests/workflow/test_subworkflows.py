from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.events import RunCompleted, RunPaused, RunStarted, StepCompleted, StepStarted
from holdfast.workflow import ask, parallel, step, workflow
from tests.workflow.support import Calls, Flow, collect, of, stop_at, until

calls = Calls()


@pytest.fixture(autouse=True)
def fresh() -> None:
    calls.take()


@workflow("child")
def child(n: int) -> Flow:
    a = yield step("a").python(calls, args=(f"a{n}",))
    b = yield step("b").python(calls, args=(f"b{n}",))
    return a + b


@workflow("parent")
def parent() -> Flow:
    yield step("before").python(calls, args=("before",))
    result = yield step("sub").subworkflow(child, n=1)
    return (yield step("after").python(lambda: f"<{result}>"))


def test_a_subworkflow_is_a_run_of_its_own(store: hf.Store) -> None:
    engine = hf.Engine(store)

    async def main() -> None:
        events = await collect(engine.stream(parent(), run_id="p"))
        assert of(events, RunCompleted)[-1].result == "<a1b1>"
        assert [e.run_id for e in of(events, RunStarted)] == ["p", "p//sub"]

    asyncio.run(main())
    with hf.SyncCheckpointer(store) as cp:
        assert {(r.run_id, r.flow, r.status) for r in cp.runs()} == {
            ("p", "parent", "completed"), ("p//sub", "child", "completed"),
        }  # fmt: skip
    assert engine.get("p//sub", child).result() == "a1b1"


@pytest.mark.parametrize("event", [StepStarted, StepCompleted])
@pytest.mark.parametrize("where", ["a", "b"])
def test_a_crash_in_the_child_repeats_nothing(
    engine: hf.Engine, event: type[StepStarted], where: str
) -> None:
    async def main() -> None:
        await stop_at(engine.stream(parent(), run_id="p"), event, where)
        assert await engine.run(parent(), run_id="p", resume=True) == "<a1b1>"
        assert calls.order == ["before", "a1", "b1"]

    asyncio.run(main())


def test_a_child_that_ended_before_the_crash_is_looked_up(engine: hf.Engine) -> None:
    async def main() -> None:
        await stop_at(engine.stream(parent(), run_id="p"), RunCompleted)
        assert await engine.run(parent(), run_id="p", resume=True) == "<a1b1>"
        assert calls.order == ["before", "a1", "b1"]

    asyncio.run(main())


def test_a_parent_waits_with_its_child(engine: hf.Engine) -> None:
    @workflow
    def asks() -> Flow:
        return (yield ask("How many?", returns=int))

    @workflow
    def outer() -> Flow:
        return (yield parallel(step("x").subworkflow(asks), step("y").python(lambda: "y")))

    async def main() -> None:
        events = await collect(engine.stream(outer(), run_id="p"))
        assert [e.run_id for e in of(events, RunPaused)] == ["p//x", "p"]
        assert await engine.status("p") == "paused"
        with pytest.raises(hf.RunPausedError):
            await engine.run(outer(), run_id="p", resume=True)
        await engine.answer("p//x", 3)
        assert await engine.run(outer(), run_id="p", resume=True) == (3, "y")

    asyncio.run(main())


def test_a_child_that_fails_fails_its_step(engine: hf.Engine) -> None:
    broken = True

    def work() -> str:
        if broken:
            raise ValueError("no")
        return "yes"

    @workflow
    def inner() -> Flow:
        yield step("once").python(calls, args=("once",))
        return (yield step("work").python(work))

    @workflow
    def outer() -> Flow:
        return (yield step("sub").subworkflow(inner))

    async def main() -> None:
        nonlocal broken
        with pytest.raises(hf.StepFailedError) as caught:
            await engine.run(outer(), run_id="p")
        assert caught.value.step == "sub"
        assert await engine.status("p//sub") == "failed"
        broken = False
        assert await engine.run(outer(), run_id="p", resume=True) == "yes"
        assert calls.order == ["once"]

    asyncio.run(main())


def test_cancelling_the_parent_cancels_its_child(engine: hf.Engine) -> None:
    async def forever() -> None:
        calls("forever")
        await asyncio.sleep(3600)

    @workflow
    def inner() -> Flow:
        yield step("a").python(lambda: 1).with_rollback(lambda: calls("undone"))
        yield step("forever").python(forever)

    @workflow
    def outer() -> Flow:
        yield step("sub").subworkflow(inner)

    async def main() -> None:
        task = asyncio.create_task(engine.run(outer(), run_id="p"))
        await until(lambda: "forever" in calls.order)
        await engine.cancel("p")
        with pytest.raises(hf.RunCancelledError):
            await task
        assert await engine.status("p") == "cancelled"
        assert calls.order == ["forever", "undone"]
        assert await engine.status("p//sub") == "cancelled"

    asyncio.run(main())


def test_cancelling_a_parent_that_crashed_cancels_its_child(engine: hf.Engine) -> None:
    @workflow
    def inner() -> Flow:
        yield step("a").python(lambda: 1).with_rollback(lambda: calls("undone"))
        yield step("b").python(calls, args=("b",))

    @workflow
    def outer() -> Flow:
        yield step("sub").subworkflow(inner)
        yield step("never").subworkflow(inner)

    async def main() -> None:
        await stop_at(engine.stream(outer(), run_id="p"), StepCompleted, "a")
        await engine.cancel("p")
        with pytest.raises(hf.RunCancelledError):
            await engine.run(outer(), run_id="p", resume=True)
        assert calls.order == ["undone"]
        assert await engine.status("p//sub") == "cancelled"
        assert await engine.status("p") == "cancelled"

    asyncio.run(main())


def test_pausing_the_parent_pauses_its_child(engine: hf.Engine) -> None:
    gate: asyncio.Event

    async def waits() -> None:
        calls("waits")
        await gate.wait()

    @workflow
    def inner() -> Flow:
        yield step("waits").python(waits)
        yield step("next").python(calls, args=("next",))

    @workflow
    def outer() -> Flow:
        yield step("sub").subworkflow(inner)

    async def main() -> None:
        nonlocal gate
        gate = asyncio.Event()
        task = asyncio.create_task(engine.run(outer(), run_id="p"))
        await until(lambda: calls.order == ["waits"])
        await engine.pause("p")
        gate.set()
        with pytest.raises(hf.RunPausedError):
            await task
        assert calls.order == ["waits"]
        await engine.run(outer(), run_id="p", resume=True)
        assert calls.order == ["waits", "next"]

    asyncio.run(main())


def test_a_run_that_takes_too_long_stops_its_child(store: hf.Store) -> None:
    begun: list[int] = []

    async def forever() -> None:
        begun.append(1)
        await asyncio.Event().wait()

    @workflow
    def inner() -> Flow:
        yield step("a").python(calls, args=("a",))
        yield step("forever").python(forever)

    @workflow
    def outer() -> Flow:
        yield step("sub").subworkflow(inner)

    async def main() -> None:
        engine = hf.Engine(store, timeout=0.05)
        while not begun:  # on a busy machine, its time may be over before
            with pytest.raises(hf.RunTimeoutError, match="'p'"):
                await engine.run(outer(), run_id="p", resume=True)
        before = list(calls.order)
        with pytest.raises(hf.RunTimeoutError, match="'p'"):
            await collect(engine.resume_stream("p", flow=outer))
        assert calls.order == before

    asyncio.run(main())


def test_inputs_of_a_subworkflow_are_checked(engine: hf.Engine) -> None:
    @workflow
    def outer() -> Flow:
        yield step("sub").subworkflow(child, m=1)

    with pytest.raises(TypeError, match="it takes"):
        asyncio.run(engine.run(outer()))
