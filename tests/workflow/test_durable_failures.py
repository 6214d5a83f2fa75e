"""Steps that fail in tasks of a durable coroutine, and tasks that are cancelled."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.workflow import ask, step, workflow
from tests.workflow.durables import Gates, counted, of, run, run_async
from tests.workflow.support import Calls, until


def test_a_failure_in_a_task_group_cancels_the_others_and_is_tried_again(
    engine: hf.Engine,
) -> None:
    async def main() -> None:
        gates = Gates()
        slow = step(name="slow")(gates.pass_through)
        fails = True

        @step
        async def shaky() -> str:
            if fails:
                raise OSError("broken")
            return "whole"

        async def body() -> list[str]:
            async with asyncio.TaskGroup() as group:
                first = group.create_task(of(slow("slow")))
                second = group.create_task(of(shaky()))
            return [first.result(), second.result()]

        with pytest.raises(ExceptionGroup) as raised:
            await run_async(engine, body)
        assert raised.group_contains(hf.StepFailedError, match="broken")
        await until(lambda: gates.cancelled == ["slow"])
        fails = False
        gates.open("slow")
        assert await run_async(engine, body) == ["SLOW", "whole"]

    asyncio.run(main())


def test_failures_that_come_together_are_all_tried_again(engine: hf.Engine) -> None:
    fails = True

    @step(inline=True)
    def shaky(name: str) -> str:
        if fails:
            raise OSError(name)
        return name

    async def body() -> list[str]:
        return list(await asyncio.gather(shaky("a"), shaky("b"), shaky("c")))

    with pytest.raises(hf.StepFailedError):
        run(engine, body)
    fails = False
    assert run(engine, body) == ["a", "b", "c"]


def test_a_failure_that_a_task_handles_stays_handled(engine: hf.Engine) -> None:
    calls = Calls()
    work = counted(calls)
    fails = True

    @step
    def shaky(name: str) -> str:
        calls(f"shaky {name}")
        raise LookupError(name)

    @step
    def last() -> None:
        if fails:
            raise OSError("not yet")

    async def careful(name: str) -> str:
        try:
            return await shaky(name)
        except hf.StepFailedError as error:
            assert error.is_a(LookupError)
            return await work(name)

    async def body() -> list[str]:
        found = list(await asyncio.gather(careful("a"), careful("b")))
        await last()
        return found

    with pytest.raises(hf.StepFailedError, match="not yet"):
        run(engine, body)
    calls.take()
    fails = False
    assert run(engine, body) == ["A", "B"]
    assert calls.take() == []


def test_a_race_cancels_the_losers(engine: hf.Engine) -> None:
    async def main() -> None:
        gates = Gates()
        model = step(name="model")(gates.pass_through)

        async def body() -> str:
            racing = [asyncio.create_task(of(model(name))) for name in ("a", "b", "c")]
            done, pending = await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            return next(task.result() for task in done)

        gates.open("b")
        assert await run_async(engine, body) == "B"
        await until(lambda: sorted(gates.cancelled) == ["a", "c"])

    asyncio.run(main())


def test_tasks_in_a_set_keep_their_order(engine: hf.Engine) -> None:
    """A task group cancels a set of tasks; the order of other objects in a set is that of memory."""
    cancelled: list[int] = []

    async def one(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(number)

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(one(number))
            await asyncio.sleep(0)
            raise ValueError

    with pytest.raises(ExceptionGroup):
        run(engine, body)
    assert cancelled == list(range(20))


def test_tasks_left_when_the_coroutine_returns_are_cancelled_and_may_clean_up(
    engine: hf.Engine,
) -> None:
    async def main() -> None:
        gates, calls = Gates(), Calls()
        work, slow = counted(calls), step(name="slow")(gates.pass_through)

        async def background() -> None:
            try:
                await slow("slow")
            finally:
                await work("cleanup")

        async def body() -> str:
            task = asyncio.create_task(background())
            await work("first")
            assert not task.done()
            return "done"

        assert await run_async(engine, body) == "done"
        await until(lambda: gates.cancelled == ["slow"])
        assert calls.take() == ["first", "cleanup"]

    asyncio.run(main())


def test_a_cancelled_task_cancels_its_child_run(engine: hf.Engine) -> None:
    async def main() -> None:
        gates = Gates()
        slow = step(name="slow")(gates.pass_through)

        @workflow
        async def child() -> str:
            return await slow("slow")

        async def body() -> str:
            try:
                async with asyncio.timeout(0.05):
                    return await child()
            except TimeoutError:
                return "too late"

        assert await run_async(engine, body) == "too late"
        assert await engine.status("r//body/child") == hf.Status.CANCELLED

    asyncio.run(main())


def test_steps_are_undone_if_the_run_fails(engine: hf.Engine) -> None:
    undone: list[str] = []

    @step(with_rollback=undone.append)
    def book(what: str) -> str:
        return what

    @step
    def fail() -> None:
        raise OSError("full")

    async def body() -> None:
        await asyncio.gather(book("train"), book("ferry"))
        await fail()

    with pytest.raises(hf.StepFailedError, match="full"):
        run(engine, body)
    assert sorted(undone) == ["ferry", "train"]


def test_what_a_stopped_run_leaves_is_cleaned_up_without_steps(engine: hf.Engine) -> None:
    calls = Calls()
    work = counted(calls)

    async def worker() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            calls("cleanup")
            await work("never")

    async def body() -> str:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(worker())
            answer = await ask("Go on?", returns=str)
            task.cancel()
        return answer

    with pytest.raises(hf.RunPausedError):
        run(engine, body)
    assert calls.take() == ["cleanup"]
