from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from holdfast.events import RunFailed, StepCompleted, StepStarted
from holdfast.workflow import Retry, branch, for_each, parallel, step, workflow
from tests.workflow.support import Calls, Flow, collect, collect_failure, of, steps, stop_at


def test_a_branch_is_taken_once_and_for_all(engine: hf.Engine) -> None:
    world = {"open": True}
    calls = Calls()

    @workflow
    def flow() -> Flow:
        yield step("first").python(calls, args=("first",))
        return (
            yield branch(
                (lambda: world["open"], step("go in").python(calls, args=("in",))),
                (True, step("go home").python(calls, args=("home",))),
            )
        )

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "go in")
        world["open"] = False
        assert await engine.run(flow(), run_id="r", resume=True) == "in"
        assert calls.order == ["first", "in"]

    asyncio.run(main())


def test_a_branch_without_a_true_condition_gives_none(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        nothing = yield branch((False, step("a").python(lambda: 1)))
        value = yield branch((True, "just a value"), name="plain")

        def nested() -> Flow:
            return (yield step("b").python(lambda: 2))

        return [nothing, value, (yield branch((lambda: True, nested), name="nested"))]

    assert asyncio.run(engine.run(flow())) == [None, "just a value", 2]


def test_parts_give_a_tuple_and_named_ones_a_dict(engine: hf.Engine) -> None:
    def nested(n: int) -> Flow:
        a = yield step("a").python(lambda: n)
        return (yield step("b").python(lambda: a + 1))

    @workflow
    def flow() -> Flow:
        listed = yield parallel(step("x").python(lambda: 1), nested(10), nested(20))
        named = yield parallel(x=step("same").python(lambda: 1), y=step("same").python(lambda: 2))
        empty = yield parallel()
        return listed, named, empty

    async def main() -> None:
        events = await collect(engine.stream(flow(), run_id="r"))
        assert sorted(steps(events, StepCompleted)) == [
            "nested#2/a", "nested#2/b", "nested/a", "nested/b", "x", "x#2", "y",
        ]  # fmt: skip

    asyncio.run(main())
    assert engine.outcome_sync("r") == ((1, 11, 21), {"x": 1, "y": 2}, ())
    with pytest.raises(TypeError, match="not both"):
        parallel(step("a"), b=step("b"))


def test_each_part_is_recorded_when_it_is_done(engine: hf.Engine) -> None:
    calls = Calls()
    gate: asyncio.Event

    async def quick() -> str:
        return str(calls("quick"))

    async def slow() -> str:
        calls("slow")
        await gate.wait()
        return "slow"

    @workflow
    def flow() -> Flow:
        return (yield parallel(step("slow").python(slow), step("quick").python(quick)))

    async def main() -> None:
        nonlocal gate
        gate = asyncio.Event()
        await stop_at(engine.stream(flow(), run_id="r"), StepCompleted, "quick")
        gate.set()
        assert await engine.run(flow(), run_id="r", resume=True) == ("slow", "quick")
        assert (calls.count("quick"), calls.count("slow")) == (1, 2)

    asyncio.run(main())


def test_when_one_part_fails_the_others_are_finished_first(engine: hf.Engine) -> None:
    calls = Calls()
    broken = True

    async def fails() -> str:
        if broken:
            raise ValueError("no")
        return "mended"

    async def takes_longer() -> str:
        await asyncio.sleep(0.01)
        return str(calls("longer"))

    @workflow
    def flow() -> Flow:
        return (yield parallel(step("bad").python(fails), step("good").python(takes_longer)))

    async def main() -> None:
        nonlocal broken
        with pytest.raises(hf.StepFailedError) as caught:
            await engine.run(flow(), run_id="r")
        assert caught.value.step == "bad"
        assert caught.value.state == {"good": "longer"}
        broken = False
        assert await engine.run(flow(), run_id="r", resume=True) == ("mended", "longer")
        assert calls.order == ["longer"]

    asyncio.run(main())


def test_all_parts_that_failed_are_tried_again_by_one_resume(engine: hf.Engine) -> None:
    broken = True

    @step
    async def work(n: int) -> int:
        await asyncio.sleep(0)
        if broken and n % 2:
            raise ValueError(f"no {n}")
        return n

    def nested(n: int) -> Flow:
        return (yield parallel(work(n)))

    @workflow
    def flow() -> Flow:
        return (yield parallel(for_each(range(6), work), nested(7), nested(8)))

    async def main() -> None:
        nonlocal broken
        with pytest.raises(hf.StepFailedError):
            await engine.run(flow(), run_id="r")
        broken = False
        result = await engine.run(flow(), run_id="r", resume=True)
        assert result == ([0, 1, 2, 3, 4, 5], (7,), (8,))

    asyncio.run(main())


def test_a_failure_that_the_flow_dealt_with_is_not_tried_again(engine: hf.Engine) -> None:
    calls = Calls()
    broken = True

    def fails(name: str) -> None:
        calls(name)
        if broken:
            raise ValueError(name)

    @workflow
    def flow() -> Flow:
        try:
            yield step("a").python(fails, args=("a",))
        except hf.StepFailedError as error:
            if error.is_a(ValueError):
                yield step("b").python(fails, args=("b",))
        return "done"

    async def main() -> None:
        nonlocal broken
        with pytest.raises(hf.StepFailedError, match="'b'"):
            await engine.run(flow(), run_id="r")
        broken = False
        assert await engine.run(flow(), run_id="r", resume=True) == "done"
        assert calls.order == ["a", "b", "b"]

    asyncio.run(main())


def test_so_many_items_at_once_and_no_more(engine: hf.Engine) -> None:
    running = most = 0

    @step
    async def work(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return n * n

    @workflow
    def flow() -> Flow:
        return (yield for_each(range(12), work, concurrency=3))

    assert asyncio.run(engine.run(flow())) == [n * n for n in range(12)]
    assert most == 3
    with pytest.raises(ValueError, match="at least 1"):
        for_each([], work, concurrency=0)


@pytest.mark.parametrize(
    "form", ["function", "builder", "step", "generator", "coroutine", "modified"]
)
def test_only_unfinished_items_are_done_after_a_resume(engine: hf.Engine, form: str) -> None:
    calls = Calls()

    def work(n: int) -> int:
        calls(str(n))
        return 10 * n

    made = step(work)

    def generator(n: int) -> Flow:
        return (yield made(n))

    async def coroutine(n: int) -> int:
        return await made(n)

    bodies: dict[str, Any] = {
        "function": work,
        "builder": lambda n: step("built").python(work, args=(n,)),
        "step": made,
        "generator": generator,
        "coroutine": coroutine,
        "modified": lambda n: step("built").python(work, args=(n,)).skip_on_error(),
    }

    @workflow
    def flow() -> Flow:
        return (yield for_each(range(5), bodies[form], concurrency=1))

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepCompleted, nth=3)
        assert await engine.run(flow(), run_id="r", resume=True) == [0, 10, 20, 30, 40]
        assert calls.order == ["0", "1", "2", "3", "4"]

    asyncio.run(main())


def test_what_a_body_says_about_its_step_holds(engine: hf.Engine) -> None:
    calls = Calls()

    def flaky(n: int) -> int:
        calls(str(n))
        if calls.count(str(n)) < 2:
            raise OSError("again")
        return n

    @workflow
    def flow() -> Flow:
        done = yield for_each(
            range(3),
            lambda n: (
                step("built").python(flaky, args=(n,)).retry(2, backoff=0)
                .with_rollback(lambda value: calls(f"undo {value!r}"))
            ),
            concurrency=1,
        )  # fmt: skip
        yield step("fail").python(int, args=("x",))
        return done

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "fail")
        with pytest.raises(hf.StepFailedError, match="'fail'"):
            await engine.run(flow(), run_id="r", resume=True)
        assert calls.order[-3:] == ["undo 2", "undo 1", "undo 0"]
        assert calls.order[:6] == ["0", "0", "1", "1", "2", "2"]

    asyncio.run(main())


def test_items_can_be_retried_and_timed(engine: hf.Engine) -> None:
    calls = Calls()
    over = threading.Event()

    def flaky(n: int) -> int:
        calls(str(n))
        if calls.count(str(n)) < 3:
            raise OSError("again")
        return n

    def slow(n: int) -> None:
        over.wait(60)

    @workflow
    def flow() -> Flow:
        done = yield for_each(range(3), flaky, retry=Retry(3, backoff=0))
        yield for_each([1], slow, timeout=0.01)
        return done

    with pytest.raises(hf.StepFailedError, match=r"slow\[0\].*took longer"):
        asyncio.run(engine.run(flow()))
    over.set()
    assert calls.count("2") == 3


def test_the_options_of_for_each_override_those_of_its_step(engine: hf.Engine) -> None:
    tried: list[int] = []

    @step(retry=Retry(2, backoff=0))
    def flaky(n: int) -> int:
        tried.append(n)
        if len(tried) < 4:
            raise OSError("busy")
        return n

    @workflow
    async def flow() -> list[int]:
        return await for_each([7], flaky, retry=Retry(4, backoff=0), timeout=60)

    assert engine.run_sync(flow()) == [7]
    assert tried == [7] * 4


def test_options_of_items_whose_function_returns_a_step_are_refused(engine: hf.Engine) -> None:
    @workflow
    async def flow() -> list[int]:
        return await for_each([1], lambda n: step("s").python(abs, args=(n,)), retry=3)

    with pytest.raises(TypeError, match=r"returned a step .* say .retry"):
        engine.run_sync(flow())


def test_options_of_items_that_are_child_runs_are_refused(engine: hf.Engine) -> None:
    @workflow
    async def child(n: int) -> int:
        return n

    @workflow
    async def flow() -> list[int]:
        return await for_each([1], child, retry=3)

    with pytest.raises(TypeError, match="give retry, timeout, run_on and outputs to the"):
        engine.run_sync(flow())


def test_options_of_items_whose_body_has_steps_are_refused(engine: hf.Engine) -> None:
    async def body(n: int) -> None:
        await step("inner").python(abs, args=(n,))

    with pytest.raises(TypeError, match="to the steps that the function awaits"):
        for_each([1], body, timeout=1)


def test_results_are_not_given_to_other_items_after_a_resume(engine: hf.Engine) -> None:
    world = ["a", "b", "c"]

    @workflow
    def flow() -> Flow:
        return (yield for_each(list(world), str.upper, name="upper", concurrency=1))

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepCompleted, nth=2)
        for changed in (["b", "c"], ["a", "b", "c", "d"], ["c", "b", "a"]):
            world[:] = changed
            with pytest.raises(hf.FlowChangedError, match="'upper for 3 items"):
                await engine.run(flow(), run_id="r", resume=True)
        world[:] = ["a", "b", "c"]
        assert await engine.run(flow(), run_id="r", resume=True) == ["A", "B", "C"]

    asyncio.run(main())


def test_items_that_can_not_be_stored_are_counted(engine: hf.Engine) -> None:
    items = [lambda: 1, lambda: 2]

    def call(item: Callable[[], int]) -> int:
        return item()

    @workflow
    def flow() -> Flow:
        return (yield for_each(items, call))

    assert asyncio.run(engine.run(flow())) == [1, 2]


def test_no_items_is_an_empty_list(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        return (yield for_each([], str))

    assert asyncio.run(engine.run(flow())) == []


def test_a_failed_item_stops_those_not_begun(engine: hf.Engine) -> None:
    calls = Calls()

    @step
    async def work(n: int) -> None:
        calls(str(n))
        raise ValueError(n)

    @workflow
    def flow() -> Flow:
        yield for_each(range(50), work, concurrency=2)

    async def main() -> None:
        events, _ = await collect_failure(engine.stream(flow()), hf.StepFailedError)
        assert calls.order == ["0", "1"]
        assert of(events, RunFailed)[0].step == "work[0]"

    asyncio.run(main())


def test_a_part_may_ask_for_nothing(engine: hf.Engine) -> None:
    calls = Calls()
    fails, more = True, False

    def last() -> None:
        if fails:
            raise OSError("not yet")

    def maybe(name: str) -> Flow:
        if name or more:
            return (yield step("work").python(calls, (name or "more",)))
        return "nothing"

    @workflow
    async def flow() -> list[Any]:
        found: list[Any] = [await parallel(maybe(""), maybe("a"), for_each([], calls))]
        found += await parallel(maybe(""), maybe(""))
        await step("b").python(calls, ("b",))
        await step("last").python(last)
        return found

    with pytest.raises(hf.StepFailedError, match="not yet"):
        asyncio.run(engine.run(flow(), run_id="r"))
    assert calls.take() == ["a", "b"]
    more = True
    with pytest.raises(hf.FlowChangedError, match="recorded next is 'b', the flow asks for 'maybe"):
        asyncio.run(engine.run(flow(), run_id="r", resume=True))
    more = fails = False
    assert asyncio.run(engine.run(flow(), run_id="r", resume=True)) == [
        ("nothing", "a", []),
        "nothing",
        "nothing",
    ]
    assert calls.take() == []
