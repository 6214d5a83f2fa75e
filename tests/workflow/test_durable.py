"""Steps awaited by any task of a durable coroutine."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import pytest

import holdfast as hf
from holdfast.workflow import Step, ask, for_each, parallel, step, workflow
from tests.workflow.support import Calls, Flow, recorded, until

T = TypeVar("T")


class Gates:
    """Steps that end when they are told to."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.events: dict[str, asyncio.Event] = {}
        self.cancelled: list[str] = []

    def open(self, *names: str) -> None:
        for name in names:
            self._event(name).set()

    def _event(self, name: str) -> asyncio.Event:
        return self.events.setdefault(name, asyncio.Event())

    async def pass_through(self, name: str) -> str:
        self.calls(name)
        try:
            await self._event(name).wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        return name.upper()


def counted(calls: Calls) -> Callable[[str], Step[str]]:
    @step
    def work(name: str) -> str:
        calls(name)
        return name.upper()

    return work


def run(engine: hf.Engine, body: Callable[[], Awaitable[Any]], run_id: str = "r") -> Any:
    """Run a workflow that is nothing but this durable coroutine, or resume it."""
    return asyncio.run(_run(engine, body, run_id))


async def _run(engine: hf.Engine, body: Callable[[], Awaitable[Any]], run_id: str = "r") -> Any:
    return await engine.run(flow_of(body)(), run_id=run_id, resume=True)


def flow_of(body: Callable[[], Any]) -> Any:
    @workflow("flow")
    async def flow() -> Any:
        return await hf.durable(body(), name="body")

    return flow


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
            await _run(engine, body)
        assert seen == ["B", "C", "A"]
        assert sorted(gates.calls.take()) == ["a", "b", "c"]
        seen.clear()
        fails = False
        assert await _run(engine, body) == "BCA"
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
            await _run(engine, body)
        await until(lambda: gates.cancelled == ["slow"])
        fails = False
        assert await _run(engine, body) == "INSTEAD"
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


# --- failures and cancelled tasks


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
                first = group.create_task(_of(slow("slow")))
                second = group.create_task(_of(shaky()))
            return [first.result(), second.result()]

        with pytest.raises(ExceptionGroup) as raised:
            await _run(engine, body)
        assert raised.group_contains(hf.StepFailedError, match="broken")
        await until(lambda: gates.cancelled == ["slow"])
        fails = False
        gates.open("slow")
        assert await _run(engine, body) == ["SLOW", "whole"]

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
            racing = [asyncio.create_task(_of(model(name))) for name in ("a", "b", "c")]
            done, pending = await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            return next(task.result() for task in done)

        gates.open("b")
        assert await _run(engine, body) == "B"
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

        assert await _run(engine, body) == "done"
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

        assert await _run(engine, body) == "too late"
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

        assert await _run(engine, body) == "too late"
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


# --- code that does something else


def test_another_step_than_was_recorded_is_an_error_that_names_both(engine: hf.Engine) -> None:
    names = ["first", "second"]

    @step
    def last() -> None:
        raise OSError("not yet")

    async def body() -> None:
        await asyncio.gather(*(step(name).python(int) for name in names))
        await last()

    with pytest.raises(hf.StepFailedError):
        run(engine, body)
    names[1] = "third"
    with pytest.raises(hf.FlowChangedError, match=r"'body/second', the flow asks for 'body/third'"):
        run(engine, body)


def test_a_coroutine_that_ends_before_a_recorded_step_is_an_error(engine: hf.Engine) -> None:
    work = counted(Calls())
    names = ["first", "second"]

    @step
    def last() -> None:
        raise OSError("not yet")

    async def body() -> None:
        await asyncio.gather(*(work(name) for name in names))

    @workflow
    async def flow() -> None:
        await hf.durable(body(), name="body")
        await last()

    with pytest.raises(hf.StepFailedError):
        asyncio.run(engine.run(flow(), run_id="r"))
    names.pop()
    with pytest.raises(hf.FlowChangedError, match=r"'body/work#2', the flow asks for 'its end'"):
        asyncio.run(engine.run(flow(), run_id="r", resume=True))


def test_tasks_in_another_order_do_not_get_each_others_results(engine: hf.Engine) -> None:
    work = counted(Calls())
    names = ["first", "second"]

    @step
    def last() -> None:
        raise OSError("not yet")

    async def body() -> None:
        await asyncio.gather(*(work(name) for name in names))
        await last()

    with pytest.raises(hf.StepFailedError):
        run(engine, body)
    names.reverse()  # as a set of str may be, in another process
    with pytest.raises(hf.FlowChangedError, match="with the arguments of body/work#2"):
        run(engine, body)


def test_a_durable_put_before_recorded_steps_is_an_error(engine: hf.Engine) -> None:
    calls = Calls()
    work = counted(calls)
    more = False

    @step
    def last() -> None:
        raise OSError("not yet")

    async def body() -> None:
        await work("inserted")

    @workflow
    async def flow() -> None:
        if more:
            await hf.durable(body(), name="body")
        await work("a")
        await last()

    with pytest.raises(hf.StepFailedError):
        asyncio.run(engine.run(flow(), run_id="r"))
    calls.take()
    more = True
    with pytest.raises(hf.FlowChangedError, match="'work', the flow asks for 'body'"):
        asyncio.run(engine.run(flow(), run_id="r", resume=True))
    assert calls.take() == []


# --- misuse


def test_what_depends_on_the_outside_world_is_refused(engine: hf.Engine) -> None:
    async def threads() -> None:
        await asyncio.to_thread(print)

    async def sockets() -> None:
        await asyncio.open_connection("localhost", 1)

    async def processes() -> None:
        await asyncio.create_subprocess_exec("true")

    for body in (threads, sockets, processes):
        with pytest.raises(RuntimeError, match="is done in a step"):
            run(engine, body, body.__name__)


def test_what_never_comes_is_an_error(engine: hf.Engine) -> None:
    async def body() -> None:
        await asyncio.gather(asyncio.Event().wait(), asyncio.Event().wait())

    with pytest.raises(RuntimeError, match="'body' waits for something that never comes"):
        run(engine, body)


def test_a_loop_that_waits_for_nothing_is_an_error(
    engine: hf.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.workflow.task_loop._MOST_CALLBACKS", 1000)
    work = counted(Calls())

    async def body() -> None:
        task = asyncio.create_task(_of(work("a")))
        while not task.done():
            await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="'body' goes round in circles"):
        run(engine, body)


def test_a_future_in_a_part_of_parallel_is_refused(engine: hf.Engine) -> None:
    async def part() -> None:
        await asyncio.sleep(0.001)

    async def body() -> None:
        await parallel(part())

    with pytest.raises(RuntimeError, match="would not be recorded there"):
        run(engine, body)


def test_a_step_that_a_task_forgets_to_await_fails_the_run(engine: hf.Engine) -> None:
    work = counted(Calls())

    async def forgetful() -> None:
        work("a")

    async def body() -> None:
        await asyncio.gather(forgetful(), work("b"))

    with pytest.raises(hf.StepNotAwaitedError, match="'work'"):
        run(engine, body)


def test_result_blocks_and_is_refused(engine: hf.Engine) -> None:
    work = counted(Calls())

    async def body() -> None:
        work("a").result()

    with pytest.raises(RuntimeError, match="would block"):
        run(engine, body)


def test_anything_but_a_coroutine_is_refused() -> None:
    work = counted(Calls())

    async def body() -> None: ...

    for wrong in (body, work("a"), 3):
        with pytest.raises(TypeError, match="durable needs a coroutine"):
            hf.durable(wrong)  # type: ignore[arg-type]


def test_without_durable_the_error_says_so(engine: hf.Engine) -> None:
    work = counted(Calls())

    @workflow
    async def flow() -> None:
        await asyncio.gather(work("a"))

    with pytest.raises(RuntimeError, match=r"hf\.durable"):
        asyncio.run(engine.run(flow()))


async def _of(effect: Awaitable[T]) -> T:
    return await effect
