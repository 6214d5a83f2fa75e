"""Durable coroutines with questions, child runs, combinators and each other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.workflow import ask, for_each, parallel, step, workflow
from tests.workflow.durables import Gates, counted, run, run_async
from tests.workflow.support import Calls, Flow, until

# --- people


def test_questions_of_several_tasks_are_answered_in_any_order(engine: hf.Engine) -> None:
    work = counted(Calls())
    seen: list[str] = []

    async def one(name: str) -> None:
        answer = await ask(f"{name}?", returns=str, name=name)
        seen.append(f"{name} {answer}")
        await work(name)

    async def body() -> str:
        await asyncio.gather(one("first"), one("second"), work("beside"))
        return await ask("last?", returns=str, name="last")

    with pytest.raises(hf.RunPausedError):
        run(engine, body)
    engine.answer_sync("r", "yes", question="body/second")
    with pytest.raises(hf.RunPausedError):
        run(engine, body)
    assert seen == ["second yes"]
    seen.clear()
    engine.answer_sync("r", "no", question="body/first")
    with pytest.raises(hf.RunPausedError):
        run(engine, body)
    assert seen == ["second yes", "first no"]
    seen.clear()
    engine.answer_sync("r", "end", question="body/last")
    assert run(engine, body) == "end"
    assert seen == ["second yes", "first no"]


# --- with everything else


def test_child_runs_and_combinators_work_in_tasks(engine: hf.Engine) -> None:
    work = counted(Calls())

    @workflow
    async def child(name: str) -> str:
        return await work(name)

    async def part(name: str) -> str:
        return await work(name) + await work(name)

    async def body() -> list[Any]:
        return list(
            await asyncio.gather(
                child("a"),
                parallel(work("b"), part("c")),
                for_each(["d", "e"], work),
                for_each(["f"], part),
                work("g").when(False),
            )
        )

    assert run(engine, body) == ["A", ("B", "CC"), ["D", "E"], ["FF"], None]


def test_durable_may_be_nested_and_be_a_part_of_parallel_and_for_each(engine: hf.Engine) -> None:
    calls = Calls()
    work = counted(calls)
    fails = True

    @step
    def last() -> None:
        if fails:
            raise OSError("not yet")

    async def inner(name: str) -> list[str]:
        return list(await asyncio.gather(work(name), work(f"{name}{name}")))

    async def outer(name: str) -> list[list[str]]:
        return list(await asyncio.gather(hf.durable(inner(name)), hf.durable(inner("x"))))

    async def item(name: str) -> list[str]:
        first = await work(name)
        return [first, *(await hf.durable(inner(name)))]

    @workflow
    async def flow() -> list[Any]:
        both = await parallel(hf.durable(outer("a")), hf.durable(inner("b")))
        items = await for_each(["c", "d"], item)
        others = await for_each(["e"], lambda name: hf.durable(inner(name)))
        await last()
        return [*both, items, others]

    expected = [
        [["A", "AA"], ["X", "XX"]],
        ["B", "BB"],
        [["C", "C", "CC"], ["D", "D", "DD"]],
        [["E", "EE"]],
    ]
    with pytest.raises(hf.StepFailedError, match="not yet"):
        asyncio.run(engine.run(flow(), run_id="r"))
    assert len(calls.take()) == 14
    fails = False
    assert asyncio.run(engine.run(flow(), run_id="r", resume=True)) == expected
    assert calls.take() == []


def test_a_durable_may_wake_another(engine: hf.Engine) -> None:
    work = counted(Calls())
    opened = asyncio.Event()

    async def waits() -> str:
        await opened.wait()
        return "woken"

    async def wakes() -> str:
        found = await work("a")
        opened.set()
        return found

    @workflow
    async def flow() -> list[str]:
        return list(await parallel(hf.durable(waits()), hf.durable(wakes())))

    assert asyncio.run(engine.run(flow())) == ["woken", "A"]


def test_a_cancelled_task_cancels_the_durable_that_it_waits_for(engine: hf.Engine) -> None:
    async def main() -> None:
        gates = Gates()
        slow = step(name="slow")(gates.pass_through)

        async def inner() -> None:
            await asyncio.gather(slow("a"), slow("b"))

        async def body() -> str:
            try:
                async with asyncio.timeout(0.01):
                    await hf.durable(inner())
            except TimeoutError:
                return "too late"
            return "in time"

        assert await run_async(engine, body) == "too late"
        await until(lambda: sorted(gates.cancelled) == ["a", "b"])

    asyncio.run(main())


def test_generators_and_plain_functions_may_wait_for_it(engine: hf.Engine) -> None:
    work = counted(Calls())

    async def body() -> list[str]:
        return list(await asyncio.gather(work("a"), work("b")))

    @workflow
    def generator() -> Flow:
        return (yield hf.durable(body()))

    @workflow
    def plain() -> list[str]:
        return hf.durable(body()).result()

    assert asyncio.run(engine.run(generator())) == ["A", "B"]
    assert engine.run_sync(plain()) == ["A", "B"]


def test_outside_a_workflow_it_is_just_its_coroutine() -> None:
    work = counted(Calls())

    async def body() -> list[str]:
        return list(await asyncio.gather(work("a"), work("b")))

    async def main() -> list[str]:
        return await hf.durable(body())

    assert asyncio.run(main()) == ["A", "B"]
    assert hf.durable(body()).result() == ["A", "B"]
