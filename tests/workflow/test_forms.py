from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents.workflow_results import result_of
from holdfast.events import StepCompleted
from holdfast.workflow import step, workflow
from tests.workflow.support import Calls, Flow, collect, of, recorded


def double(n: int) -> int:
    return 2 * n


async def double_async(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


def where() -> str:
    return threading.current_thread().name


@step
def tripled(n: int) -> int:
    """Three times as much."""
    return 3 * n


@step(name="quadruple")
async def quadrupled(n: int) -> int:
    await asyncio.sleep(0)
    return 4 * n


@workflow(name="generator")
def generator(n: int) -> Flow:
    a = yield step("sync").python(double, args=(n,))
    b = yield step("async").python(double_async, kwargs={"n": a})
    c = yield tripled(b)
    return (yield quadrupled(c))


@workflow("coroutine")
async def coroutine(n: int) -> int:
    a = await step("sync").python(double, args=(n,))
    b = await step("async").python(double_async, kwargs={"n": a})
    c = await tripled(b)
    return await quadrupled(c)


@workflow("plain")
def plain(n: int) -> int:
    a = step("sync").python(double, args=(n,)).result()
    b = step("async").python(double_async, kwargs={"n": a}).result()
    c = tripled(b).result()
    return quadrupled(c).result()


every_form = pytest.mark.parametrize("flow", [generator, coroutine, plain], ids=lambda f: f.name)


@every_form
def test_every_form_does_the_same(flow: Any, engine: hf.Engine) -> None:
    assert asyncio.run(engine.run(flow(n=1), run_id="r")) == 48
    result = result_of(engine.checkpointer.core, "r")
    assert result.success
    assert result.output == 48
    assert [(s.name, s.output) for s in result.steps] == [
        ("sync", 2), ("async", 4), ("tripled", 12), ("quadruple", 48),
    ]  # fmt: skip


@every_form
def test_run_sync_needs_no_event_loop(flow: Any, engine: hf.Engine) -> None:
    assert engine.run_sync(flow(n=1), run_id="r") == 48
    assert engine.run_sync(flow(n=2), run_id="s") == 96
    assert engine.run_sync(flow(n=1), run_id="r", resume=True) == 48


def test_blocking_in_an_event_loop_is_refused_with_what_to_do(engine: hf.Engine) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"`await run\(\.\.\.\)` instead of run_sync"):
            engine.run_sync(generator(n=1))
        with pytest.raises(RuntimeError, match=r"`await start\(\.\.\.\)` instead of start_sync"):
            engine.start_sync(generator(n=1))
        with pytest.raises(RuntimeError, match=r"`async for \.\.\. in stream\(\.\.\.\)` instead"):
            engine.stream_sync(generator(n=1))
        with pytest.raises(RuntimeError, match="an event loop is running here: `await` it"):
            quadrupled(2).result()

    asyncio.run(main())


def test_a_step_gives_its_result_outside_of_workflows() -> None:
    assert tripled(2).result() == 6
    assert quadrupled(2).result() == 8
    assert tripled.__doc__ == "Three times as much."

    async def main() -> int:
        return await tripled(2) + await quadrupled(2)

    assert asyncio.run(main()) == 14


def test_a_step_function_called_by_another_step_is_a_plain_call(engine: hf.Engine) -> None:
    async def outer() -> int:
        return await tripled(1) + await quadrupled(1)

    @workflow
    def flow() -> Flow:
        return (yield step("outer").python(outer))

    assert asyncio.run(engine.run(flow(), run_id="r")) == 7
    assert recorded(engine, "r") == ["outer"]


def test_more_can_be_said_about_a_step_function(engine: hf.Engine) -> None:
    calls = Calls()

    @step(retry=1)
    def flaky() -> str:
        if calls.count("flaky") < 2:
            calls("flaky")
            raise OSError("not yet")
        return "done"

    @workflow
    def flow() -> Flow:
        return (yield flaky().retry(3, backoff=0))

    assert asyncio.run(engine.run(flow())) == "done"


def test_sync_steps_do_not_block_the_event_loop(engine: hf.Engine) -> None:
    ticked = threading.Event()

    def waits_for_the_loop() -> bool:
        return ticked.wait(30)

    @workflow
    def flow() -> Flow:
        return (yield step("wait").python(waits_for_the_loop))

    async def main() -> None:
        task = asyncio.create_task(engine.run(flow()))
        await asyncio.sleep(0.01)
        ticked.set()
        assert await task is True

    asyncio.run(main())


def test_where_a_sync_step_runs_can_be_said(engine: hf.Engine) -> None:
    with (
        ThreadPoolExecutor(1, thread_name_prefix="mine") as threads,
        ProcessPoolExecutor(1) as processes,
    ):

        @workflow
        def flow() -> Flow:
            return [
                (yield step("default").python(where)),
                (yield step("inline").python(where).inline()),
                (yield step("mine").python(where).run_on(threads)),
                (yield step("process").python(double, args=(21,)).run_on(processes)),
            ]

        default, inline, mine, process = asyncio.run(engine.run(flow()))
    assert default.startswith("holdfast-step")
    assert inline == threading.current_thread().name
    assert mine.startswith("mine")
    assert process == 42


def test_functions_and_methods_that_are_steps_run_in_other_processes(engine: hf.Engine) -> None:
    with ProcessPoolExecutor(1) as processes:

        @workflow
        async def flow() -> tuple[int, int]:
            function = await tripled(7).run_on(processes)
            return function, await Scale(5).up(7).run_on(processes)

        assert asyncio.run(engine.run(flow())) == (21, 35)


class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    @step
    def up(self, n: int) -> int:
        return self.factor * n


def test_a_step_in_another_process_knows_which_step_it_is(engine: hf.Engine) -> None:
    with ProcessPoolExecutor(1) as processes:

        @workflow
        def flow() -> Flow:
            return (yield step("far").python(step_name).run_on(processes))

        assert asyncio.run(engine.run(flow(), run_id="r")) == ("r", "far", 1)


def step_name() -> tuple[str, str, int]:
    info = hf.current_step()
    info.progress(0.5)  # goes nowhere from here, and is no error
    return info.run_id, info.step, info.attempt


def test_sync_steps_of_run_sync_are_called_right_here(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        return (yield step("where").python(where))

    assert engine.run_sync(flow()) == threading.current_thread().name


def test_partials_and_objects_are_functions_too(engine: hf.Engine) -> None:
    class Doubler:
        async def __call__(self, n: int) -> int:
            return await double_async(n)

    @workflow
    def flow() -> Flow:
        a = yield step("partial").python(partial(double_async, 1))
        return (yield step("object").python(Doubler(), args=(a,)))

    assert asyncio.run(engine.run(flow())) == 4


def test_steps_of_one_name_are_kept_apart(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        total = 0
        for n in range(4):
            total += yield step("add").python(double, args=(n,))
        return total

    async def main() -> None:
        events = await collect(engine.stream(flow()))
        done = of(events, StepCompleted)
        assert [e.step for e in done] == ["add", "add#2", "add#3", "add#4"]
        assert {e.name for e in done} == {"add"}

    asyncio.run(main())


@every_form
def test_a_workflow_called_in_another_is_a_child_run(flow: Any, engine: hf.Engine) -> None:
    @workflow
    async def outer() -> Any:
        return await flow(1) + await tripled(1)

    @workflow
    def outer_generator() -> Flow:
        return (yield flow(1)) + (yield tripled(1))

    @workflow
    def outer_plain() -> Any:
        return flow(1).result() + tripled(1).result()

    for call in (outer(), outer_generator(), outer_plain()):
        name = call.flow.name
        assert asyncio.run(engine.run(call, run_id=name)) == 51
        assert recorded(engine, name) == [flow.name, "tripled"]
        assert engine.get(f"{name}//{flow.name}", flow).result() == 48


def test_steps_of_a_plain_function_belong_to_the_workflow_that_calls_it(engine: hf.Engine) -> None:
    def part(n: int) -> Flow:
        return (yield tripled((yield tripled(n))))

    async def part_async(n: int) -> int:
        return await tripled(await tripled(n))

    @workflow
    def outer() -> Flow:
        return (yield from part(1)) + (yield quadrupled(1))

    @workflow
    async def outer_async() -> int:
        return await part_async(1) + await quadrupled(1)

    assert asyncio.run(engine.run(outer(), run_id="a")) == 13
    assert asyncio.run(engine.run(outer_async(), run_id="b")) == 13
    assert recorded(engine, "a") == recorded(engine, "b") == ["tripled", "tripled#2", "quadruple"]


def test_an_async_workflow_may_await_the_loop_itself(engine: hf.Engine) -> None:
    @workflow
    async def flow() -> Any:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        return await step("one").python(double, args=(1,))

    assert asyncio.run(engine.run(flow())) == 2
    assert engine.run_sync(flow()) == 2


def test_a_step_in_a_task_of_its_own_is_refused_with_what_to_do(engine: hf.Engine) -> None:
    @workflow
    async def flow() -> Any:
        return await asyncio.gather(quadrupled(1), quadrupled(2))

    with pytest.raises(RuntimeError, match="parallel"):
        asyncio.run(engine.run(flow()))


def test_what_is_no_call_of_a_workflow_is_refused(engine: hf.Engine) -> None:
    wrong: Any
    for wrong in (double(n=1), double, "generator", None):
        with pytest.raises(TypeError, match="takes the call of a flow"):
            engine.run_sync(wrong)
        with pytest.raises(TypeError, match="takes the call of a flow"):
            engine.stream(wrong)
    wrong = generator
    with pytest.raises(TypeError, match=r"call it with its inputs, engine\.run\(generator\("):
        engine.run_sync(wrong)


def test_inputs_that_do_not_fit_are_refused_before_anything_is_begun(store: hf.Store) -> None:
    engine = hf.Engine(store)
    with pytest.raises(TypeError, match="it takes"):
        engine.stream(generator(m=1), run_id="r")  # type: ignore[call-arg]
    with hf.SyncCheckpointer(store) as cp:
        assert not cp.runs()


def test_inputs_may_have_the_names_of_options(engine: hf.Engine) -> None:
    @step
    def join(self: int, call: int, run_id: str, resume: str, trust: str) -> str:
        return f"{self} {call} {run_id} {resume} {trust}"

    @workflow
    async def flow(self: int, call: int, run_id: str, resume: str, trust: str) -> str:
        return await join(self=self, call=call, run_id=run_id, resume=resume, trust=trust)

    @workflow
    async def outer(self: int, call: int, run_id: str, resume: str, trust: str) -> str:
        return await flow(self=self, call=call, run_id=run_id, resume=resume, trust=trust)

    for each in (flow, outer):
        call = each(self=1, call=2, run_id="mine", resume="no", trust="me")
        run_id = f"the {each.name}"
        assert engine.run_sync(call, run_id=run_id, trust="skip") == "1 2 mine no me"
        assert engine.run_sync(call, run_id=run_id, resume=True) == "1 2 mine no me"
        assert engine.status_sync(run_id) == "completed"


def nested() -> Flow:
    yield tripled(1)


@pytest.mark.parametrize("make", [lambda: 7, lambda: tripled, lambda: generator, nested])
def test_yielding_what_is_no_step_says_what_to_yield(
    engine: hf.Engine, make: Callable[[], Any]
) -> None:
    @workflow
    def flow() -> Flow:
        yield make()

    with pytest.raises(TypeError, match=r"yield step\(\.\.\.\)"):
        asyncio.run(engine.run(flow()))


def test_yielding_nothing_lets_others_run(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        yield
        return "done"

    assert asyncio.run(engine.run(flow())) == "done"


def test_a_step_with_nothing_to_do_says_so(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        yield step("empty")

    with pytest.raises(TypeError, match=r"add \.python"):
        asyncio.run(engine.run(flow()))


def test_a_step_that_returns_a_step_is_told_to_yield_it(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        yield step("builder").python(lambda: step("built").python(double, args=(1,)))

    with pytest.raises(hf.StepFailedError, match="return its result"):
        asyncio.run(engine.run(flow()))
