from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from holdfast.events import StepFailed, StepRetrying, StepSkipped, StepStarted
from holdfast.workflow import Retry, step, workflow
from tests.faults import SeededEntropy
from tests.holders import dying
from tests.workflow.support import Calls, Flow, collect, of, steps, stop_at


def fail(message: str = "no") -> None:
    raise ValueError(message)


def carry_out(engine: hf.Engine, flow: Any, run_id: str, blocking: bool) -> Any:
    if blocking:
        return engine.run_sync(flow(), run_id=run_id, resume=True)
    return asyncio.run(engine.run(flow(), run_id=run_id, resume=True))


def test_a_step_is_left_out_unless_its_condition_is_true(engine: hf.Engine) -> None:
    calls = Calls()

    @workflow
    def flow() -> Flow:
        return [
            (yield step("a").python(calls, args=("a",)).when(False)),
            (yield step("b").python(calls, args=("b",)).when(True)),
            (yield step("c").python(calls, args=("c",)).when(lambda: False)),
        ]

    async def main() -> None:
        events = await collect(engine.stream(flow(), run_id="r"))
        assert steps(events, StepSkipped) == ["a", "c"]
        assert await engine.outcome("r") == [None, "b", None]
        assert calls.order == ["b"]

    asyncio.run(main())


def test_a_condition_is_asked_once(engine: hf.Engine) -> None:
    calls = Calls()

    @workflow
    def flow() -> Flow:
        a = yield step("a").python(lambda: "a").when(lambda: bool(calls("asked", True)))
        b = yield step("b").python(lambda: "b").when(lambda: bool(calls("asked", False)))
        yield step("end").python(lambda: 0)
        return a, b

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "a")
        assert calls.take() == ["asked"]
        await stop_at(engine.resume_stream("r", flow=flow), StepStarted, "end")
        assert calls.take() == ["asked"]
        assert await engine.run(flow(), run_id="r", resume=True) == ("a", None)
        assert calls.take() == []

    asyncio.run(main())


def test_what_was_skipped_before_is_not_reported_again(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        yield step("a").python(lambda: 1).when(False)
        yield step("b").python(fail).skip_on_error()
        yield step("c").python(lambda: 1)

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "c")
        events = await collect(engine.resume_stream("r", flow=flow))
        assert not of(events, StepSkipped)

    asyncio.run(main())


def test_a_failed_attempt_is_followed_by_another(engine: hf.Engine) -> None:
    calls = Calls()

    def flaky() -> str:
        attempt = hf.current_step().attempt
        calls(str(attempt))
        if attempt < 3:
            raise OSError("busy")
        return "done"

    @workflow
    def flow() -> Flow:
        return (yield step("a").python(flaky).retry(3, backoff=0.002))

    async def main() -> None:
        events = await collect(engine.stream(flow(), run_id="r"))
        again = of(events, StepRetrying)
        assert [(e.attempt, e.error) for e in again] == [(1, "OSError: busy"), (2, "OSError: busy")]
        assert [e.attempt for e in of(events, StepStarted)] == [1, 2, 3]

    asyncio.run(main())
    assert calls.order == ["1", "2", "3"]


def test_a_step_fails_after_its_last_attempt(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        yield step("a").python(fail).retry(3, backoff=0)

    with pytest.raises(hf.StepFailedError, match="after 3 attempts") as caught:
        asyncio.run(engine.run(flow()))
    assert caught.value.attempts == 3


def test_only_the_errors_named_are_tried_again(engine: hf.Engine) -> None:
    calls = Calls()

    @workflow
    def flow() -> Flow:
        yield step("a").python(lambda: fail(calls("a"))).retry(3, backoff=0, on=(OSError, KeyError))

    with pytest.raises(hf.StepFailedError):
        asyncio.run(engine.run(flow()))
    assert calls.order == ["a"]


def test_pauses_double_up_to_a_limit_and_are_shortened_by_chance() -> None:
    entropy = SeededEntropy(1)
    exact = Retry(9, backoff=1, longest=10, jitter=0)
    assert [exact.delay(n, entropy) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    some = Retry(9, backoff=1, longest=10, jitter=0.5)
    for attempt in range(1, 2000):
        full = exact.delay(attempt, entropy)
        assert full / 2 <= some.delay(attempt, entropy) <= full
    for wrong in ({"attempts": 0}, {"backoff": -1}, {"jitter": float("nan")}):
        with pytest.raises(ValueError, match="must be"):
            Retry(**wrong)


def test_attempts_are_counted_across_crashes(engine: hf.Engine) -> None:
    calls = Calls()

    def always_fails() -> None:
        calls(str(hf.current_step().attempt))
        raise OSError("busy")

    @workflow
    def flow() -> Flow:
        yield step("a").python(always_fails).retry(4, backoff=0)

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepRetrying)
        with pytest.raises(hf.StepFailedError, match="after 4 attempts"):
            await engine.run(flow(), run_id="r", resume=True)

    asyncio.run(main())
    assert calls.order[0] == "1"
    assert len(calls.order) == 4


def test_a_step_that_kills_its_process_again_and_again_is_given_up(
    engine: hf.Engine,
) -> None:
    @workflow
    def flow() -> Flow:
        yield step("before").python(lambda: 1)
        yield step("deadly").python(lambda: 1).retry(2, crashes=1)

    async def main() -> None:
        core = engine.checkpointer.core
        with dying(core):
            await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "deadly")
        with dying(core):
            second = await stop_at(engine.resume_stream("r", flow=flow), StepStarted, "deadly")
        assert second.attempt == 2
        with pytest.raises(hf.StepFailedError, match="its process died 2 times"):
            await engine.run(flow(), run_id="r", resume=True)
        # a run that failed begins to count anew, as after any other failure
        assert await engine.run(flow(), run_id="r", resume=True) is None

    asyncio.run(main())


@pytest.mark.parametrize("blocking", [False, True], ids=["run", "run_sync"])
def test_a_step_that_takes_too_long_fails_with_the_state(engine: hf.Engine, blocking: bool) -> None:
    release = threading.Event()

    async def slow_async() -> None:
        await asyncio.sleep(3600)

    def slow_thread() -> None:
        release.wait(30)

    for number, slow in enumerate((slow_async, slow_thread)):

        @workflow
        def flow(slow: Any = slow) -> Flow:
            yield step("before").python(lambda: 1)
            yield step("slow").python(slow).timeout(0.02)

        with pytest.raises(hf.StepFailedError, match=r"took longer than 0\.02 s") as caught:
            carry_out(engine, flow, f"r{number}", blocking)
        assert isinstance(caught.value.__cause__, hf.StepTimeoutError)
        assert caught.value.state == {"before": 1}
    release.set()


def test_a_steps_own_timeout_error_is_its_failure(engine: hf.Engine) -> None:
    def times_out() -> None:
        raise TimeoutError("the server did not answer")

    @workflow
    def flow() -> Flow:
        yield step("a").python(times_out).timeout(60)

    with pytest.raises(hf.StepFailedError, match="did not answer"):
        asyncio.run(engine.run(flow()))


def test_a_step_that_is_cancelled_from_within_fails(engine: hf.Engine) -> None:
    async def waits_for_a_cancelled_task() -> None:
        inner = asyncio.create_task(asyncio.sleep(3600))
        inner.cancel()
        await inner

    @workflow
    def flow() -> Flow:
        return (yield step("a").python(waits_for_a_cancelled_task).skip_on_error("passed over"))

    assert asyncio.run(engine.run(flow())) == "passed over"
    events = asyncio.run(collect(engine.stream(flow())))
    assert of(events, StepFailed)


@pytest.mark.parametrize("blocking", [False, True], ids=["run", "run_sync"])
def test_a_run_that_takes_too_long_can_be_resumed(store: hf.Store, blocking: bool) -> None:
    calls = Calls()
    release = threading.Event()

    async def quick() -> str:
        calls("quick")
        return "quick"

    def slow() -> str:
        calls("slow")
        release.wait(30)
        return "slow"

    @workflow
    def flow() -> Flow:
        first = yield step("quick").python(quick)
        return first, (yield step("slow").python(slow))

    hasty = hf.Engine(store, timeout=0.05)
    while "slow" not in calls.order:  # on a busy machine, its time may be over before
        with pytest.raises(hf.RunTimeoutError) as caught:
            carry_out(hasty, flow, "r", blocking)
    assert caught.value.state == {"quick": "quick"}
    before = calls.count("quick")
    release.set()
    patient = hf.Engine(store)
    assert asyncio.run(patient.run(flow(), run_id="r", resume=True)) == ("quick", "slow")
    assert calls.count("quick") == before


def test_a_failure_can_be_answered_by_a_function_or_a_step(engine: hf.Engine) -> None:
    def explain(error: hf.StepFailedError) -> str:
        return f"{error.step}: {error.message}"

    @workflow
    def flow() -> Flow:
        return [
            (yield step("a").python(fail).on_error(explain)),
            (yield step("b").python(fail).on_error(step("plan b").python(lambda: "b"))),
            (yield step("c").python(fail).skip_on_error(default="c")),
            (yield step("d").python(fail).skip_on_error()),
        ]

    async def main() -> None:
        events = await collect(engine.stream(flow(), run_id="r"))
        assert await engine.outcome("r") == ["a: no", "b", "c", None]
        assert steps(events, StepFailed) == ["a", "b", "c", "d"]
        assert steps(events, StepSkipped) == ["c", "d"]

    asyncio.run(main())


def test_a_failure_that_was_answered_is_not_tried_again(engine: hf.Engine) -> None:
    calls = Calls()

    @workflow
    def flow() -> Flow:
        yield step("a").python(lambda: fail(calls("a"))).on_error(lambda _: calls("handled"))
        yield step("b").python(calls, args=("b",))

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "b")
        await engine.run(flow(), run_id="r", resume=True)
        assert calls.order == ["a", "handled", "b"]

    asyncio.run(main())


def test_a_result_that_fails_its_checks_is_fixed(engine: hf.Engine) -> None:
    def enough(value: int) -> str | None:
        return None if value >= 3 else f"{value} is too little"

    async def even(value: int) -> bool:
        return value % 2 == 0

    @workflow
    def flow() -> Flow:
        return (
            yield step("make")
            .python(lambda: 1)
            .validate([enough, even], retry=5, on_failure=lambda value, problems: value + 1)
        )

    assert asyncio.run(engine.run(flow())) == 4


def test_a_step_whose_result_stays_wrong_fails_and_is_done_again_by_a_resume(
    engine: hf.Engine,
) -> None:
    calls = Calls()
    good = False

    def make() -> bool:
        calls("make")
        return good

    @workflow
    def flow() -> Flow:
        return (yield step("make").python(make).validate({"is good": bool}, retry=1))

    async def main() -> None:
        nonlocal good
        with pytest.raises(hf.StepFailedError, match="is good said no"):
            await engine.run(flow(), run_id="r")
        assert calls.take() == ["make", "make"]
        good = True
        assert await engine.run(flow(), run_id="r", resume=True) is True
        assert calls.take() == ["make"]

    asyncio.run(main())


def test_the_world_can_be_checked_and_mended(engine: hf.Engine) -> None:
    world: list[str] = []

    @workflow
    def flow() -> Flow:
        yield (
            step("tests")
            .validate(lambda: "tests" in world, retry=2, on_failure=lambda problems: world.append("tests"))
        )  # fmt: skip

    asyncio.run(engine.run(flow()))
    assert world == ["tests"]


def test_current_step_outside_of_one_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="outside a step"):
        hf.current_step()


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: step("a").timeout(0), ValueError, "timeout"),
    (lambda: step("a").retry(0), ValueError, "attempts"),
    (lambda: step("a").python("fn"), TypeError, "needs a function"),  # type: ignore[call-overload]
    (lambda: step(3), TypeError, "a name or a function"),  # type: ignore[call-overload]
]


@pytest.mark.parametrize(("make", "kind", "message"), WRONG)
def test_modifiers_refuse_what_makes_no_sense(
    engine: hf.Engine, make: Callable[[], Any], kind: type[Exception], message: str
) -> None:
    @workflow
    def flow() -> Flow:
        yield make()

    with pytest.raises(kind, match=message):
        engine.run_sync(flow())
