"""Durable coroutines that do something else than before, or what they may not."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.workflow import parallel, step, workflow
from tests.workflow.durables import counted, of, run
from tests.workflow.support import Calls

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
        task = asyncio.create_task(of(work("a")))
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
