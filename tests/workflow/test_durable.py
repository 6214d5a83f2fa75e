"""Steps awaited by any task of a durable coroutine."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime

import pytest

import holdfast as hf
from holdfast.workflow import step, workflow
from tests.workflow.durables import Gates, counted, run, run_async
from tests.workflow.support import Calls, recorded, until

# --- what it is for


def test_steps_are_awaited_by_any_task(engine: hf.Engine) -> None:
    calls = Calls()
    work = counted(calls)

    async def helper(name: str) -> str:
        return await work(name) + await work(f"{name}{name}")

    async def body() -> list[str]:
        made = asyncio.create_task(helper("a"))
        async with asyncio.TaskGroup() as group:
            grouped = group.create_task(helper("b"))
        gathered = await asyncio.gather(work("c"), helper("d"))
        return [await made, grouped.result(), *gathered]

    assert run(engine, body) == ["AAA", "BBB", "C", "DDD"]
    assert sorted(calls.take()) == ["a", "aa", "b", "bb", "c", "d", "dd"]
    assert all(key.startswith("body/work") for key in recorded(engine, "r"))


def test_steps_of_several_tasks_run_at_the_same_time(engine: hf.Engine) -> None:
    both = threading.Barrier(2, timeout=20)

    @step
    def meet(name: str) -> str:
        both.wait()
        return name

    async def body() -> list[str]:
        return list(await asyncio.gather(meet("a"), meet("b")))

    assert run(engine, body) == ["a", "b"]


def test_a_resume_hands_over_recorded_results_in_the_recorded_order(engine: hf.Engine) -> None:
    async def main() -> None:
        gates, seen = Gates(), list[str]()
        work = step(name="work")(gates.pass_through)
        fails = True

        @step
        def last(order: str) -> str:
            if fails:
                raise OSError("not yet")
            return order

        async def one(name: str) -> None:
            seen.append(await work(name))
            for following in [name for name in ("a", "b", "c") if name.upper() == seen[-1]][:1]:
                gates.open({"b": "c", "c": "a"}.get(following, "a"))

        async def body() -> str:
            await asyncio.gather(one("a"), one("b"), one("c"))
            return await last("".join(seen))

        gates.open("b")
        with pytest.raises(hf.StepFailedError, match="not yet"):
            await run_async(engine, body)
        assert seen == ["B", "C", "A"]
        assert sorted(gates.calls.take()) == ["a", "b", "c"]
        seen.clear()
        fails = False
        assert await run_async(engine, body) == "BCA"
        assert gates.calls.take() == []

    asyncio.run(main())


def test_a_third_party_library_may_make_tasks_and_queues_of_its_own(engine: hf.Engine) -> None:
    calls = Calls()
    work = counted(calls)

    async def crew(names: list[str], tool: Callable[[str], Awaitable[str]]) -> list[str]:
        """As a library would that knows nothing of holdfast."""
        todo: asyncio.Queue[str | None] = asyncio.Queue()
        done: list[str] = []
        slots = asyncio.Semaphore(2)

        async def worker() -> None:
            while (name := await todo.get()) is not None:
                async with slots:
                    done.append(await tool(name))

        workers = [asyncio.create_task(worker()) for _ in range(3)]
        for name in [*names, None, None, None]:
            await todo.put(name)
        await asyncio.wait(workers)
        return sorted(done)

    async def body() -> list[str]:
        return await crew(["a", "b", "c", "d"], lambda name: work(name).retry(2))

    assert run(engine, body) == ["A", "B", "C", "D"]


def test_it_has_the_result_of_its_coroutine_which_need_not_be_storable(engine: hf.Engine) -> None:
    thing = object()

    async def body() -> object:
        return thing

    @workflow
    async def flow() -> bool:
        return await hf.durable(body()) is thing

    assert asyncio.run(engine.run(flow())) is True


def test_decisions_in_tasks_are_recorded(engine: hf.Engine) -> None:
    fails = True
    seen: list[tuple[datetime, float]] = []

    @step
    def last() -> None:
        if fails:
            raise OSError("not yet")

    async def body() -> None:
        async def one() -> tuple[datetime, float]:
            return hf.now(), hf.random()

        seen.extend(await asyncio.gather(one(), one()))
        await last()

    with pytest.raises(hf.StepFailedError):
        run(engine, body)
    fails = False
    run(engine, body)
    assert seen[:2] == seen[2:]
    assert seen[0] != seen[1]


def test_a_steps_code_sees_the_context_variables_of_the_task_that_awaits_it(
    engine: hf.Engine,
) -> None:
    agent: contextvars.ContextVar[str] = contextvars.ContextVar("agent", default="nobody")

    @step
    def who() -> str:
        return agent.get()

    async def one(name: str) -> str:
        agent.set(name)
        return await who()

    async def body() -> list[str]:
        return list(await asyncio.gather(one("ann"), one("bob")))

    assert run(engine, body) == ["ann", "bob"]


# --- time


def test_a_timeout_cancels_the_step_and_a_resume_does_not_run_it_again(engine: hf.Engine) -> None:
    async def main() -> None:
        gates, calls = Gates(), Calls()
        work, slow = counted(calls), step(name="slow")(gates.pass_through)
        fails = True

        @step
        def last() -> None:
            if fails:
                raise OSError("not yet")

        async def body() -> str:
            try:
                async with asyncio.timeout(0.01):
                    return await slow("slow")
            except TimeoutError:
                found = await work("instead")
            await last()
            return found

        with pytest.raises(hf.StepFailedError, match="not yet"):
            await run_async(engine, body)
        await until(lambda: gates.cancelled == ["slow"])
        fails = False
        assert await run_async(engine, body) == "INSTEAD"
        assert gates.calls.take() == ["slow"]
        assert calls.take() == ["instead"]

    asyncio.run(main())


def test_a_timeout_that_is_not_reached_does_not_keep_the_run_waiting(engine: hf.Engine) -> None:
    work = counted(Calls())

    async def body() -> str:
        async with asyncio.timeout(3600):
            return await work("a")

    assert run(engine, body) == "A"


def test_timers_are_over_in_the_recorded_order(engine: hf.Engine) -> None:
    seen: list[str] = []
    work = counted(Calls())
    fails = True

    @step
    def last() -> float:
        if fails:
            raise OSError("not yet")
        return 1.0

    async def late(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append(name)
        seen.append(await work(name))

    async def body() -> float:
        await asyncio.gather(late("a", 0.02), late("b", 0.01))
        await last()
        return asyncio.get_running_loop().time()

    with pytest.raises(hf.StepFailedError):
        run(engine, body)
    assert sorted(seen) == ["A", "B", "a", "b"]
    before = list(seen)
    seen.clear()
    fails = False
    assert run(engine, body) == 0.02
    assert seen == before


def test_timers_that_are_alike_are_all_over(engine: hf.Engine) -> None:
    async def body() -> int:
        loop, over = asyncio.get_running_loop(), asyncio.Semaphore(0)
        for _ in range(3):
            loop.call_later(0.001, over.release)
        loop.call_later(3600, over.release).cancel()
        loop.call_later(3600, over.release)  # nobody waits for it
        for _ in range(3):
            await over.acquire()
        return 3

    assert run(engine, body) == 3


def test_a_timer_that_is_started_last_does_not_keep_the_run_waiting(engine: hf.Engine) -> None:
    async def body() -> str:
        asyncio.get_running_loop().call_later(3600, print)
        return "done"

    assert run(engine, body) == "done"


def test_hf_sleep_in_a_task_is_a_step(engine: hf.Engine) -> None:
    async def body() -> str:
        await asyncio.gather(hf.sleep(0.001), hf.sleep(0.002))
        return "slept"

    assert run(engine, body) == "slept"
