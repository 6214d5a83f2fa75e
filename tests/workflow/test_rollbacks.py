from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.events import (
    RollbackCompleted,
    RollbackStarted,
    RunCancelled,
    RunFailed,
    StepCompleted,
    StepStarted,
)
from holdfast.workflow import parallel, step, workflow
from tests.workflow.support import (
    Calls,
    Flow,
    collect,
    collect_failure,
    of,
    recorded,
    stop_at,
    until,
)


class Trip:
    """Books things, and cancels them when the payment fails."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.can_undo = {"flight": True, "hotel": True, "car": True}

        @workflow("trip")
        def flow() -> Flow:
            for name in ("flight", "hotel", "car"):
                yield (
                    step(name)
                    .python(self.book, args=(name,))
                    .with_rollback(self.cancel if name != "hotel" else self.cancel_async)
                )
            yield step("pay").python(self.pay)

        self.flow = flow

    def book(self, name: str) -> str:
        self.calls(f"book {name}")
        return name

    def cancel(self, name: str) -> None:
        self.calls(f"cancel {name}")
        if not self.can_undo[name]:
            raise OSError(f"{name} is gone")

    async def cancel_async(self, name: str) -> None:
        self.cancel(name)

    def pay(self) -> None:
        raise ValueError("no money")


def test_a_failed_run_is_undone_in_reverse(engine: hf.Engine) -> None:
    trip = Trip()

    async def main() -> None:
        stream = engine.stream(trip.flow(), run_id="r")
        events, error = await collect_failure(stream, hf.StepFailedError)
        assert error.message == "no money"
        assert trip.calls.order[3:] == ["cancel car", "cancel hotel", "cancel flight"]
        (began,), (ended,) = of(events, RollbackStarted), of(events, RollbackCompleted)
        assert began.steps == ended.steps == ("car", "hotel", "flight")
        assert ended.success
        assert isinstance(events[-1], RunFailed)
        with pytest.raises(hf.RunFinishedError, match="rolled back"):
            await engine.run(trip.flow(), run_id="r", resume=True)
        with pytest.raises(hf.RunFinishedError):
            await engine.cancel("r")

    asyncio.run(main())


def test_what_can_not_be_undone_is_reported_and_the_rest_is_undone(engine: hf.Engine) -> None:
    trip = Trip()
    trip.can_undo["hotel"] = False

    async def main() -> None:
        stream = engine.stream(trip.flow(), run_id="r")
        events, error = await collect_failure(stream, hf.StepFailedError)
        assert error.message == "no money"
        (ended,) = of(events, RollbackCompleted)
        assert not ended.success
        assert [(key, "hotel is gone" in why) for key, why in ended.errors.items()] == [
            ("undo/hotel", True)
        ]
        assert "hotel is gone" in error.__notes__[0]
        assert trip.calls.order[-1] == "cancel flight"

    asyncio.run(main())


@pytest.mark.parametrize("cut", ["begun", "first undone", "second under way"])
def test_a_crash_in_the_middle_of_a_rollback_undoes_the_rest_and_nothing_twice(
    engine: hf.Engine, cut: str
) -> None:
    trip = Trip()

    async def main() -> None:
        stream = engine.stream(trip.flow(), run_id="r")
        if cut == "begun":
            await stop_at(stream, RollbackStarted)
        elif cut == "first undone":
            await stop_at(stream, StepStarted, "undo/hotel")
        else:
            await stop_at(stream, StepStarted, "undo/flight")
        await stream.aclose()
        with pytest.raises(hf.StepFailedError, match="no money") as caught:
            await engine.run(trip.flow(), run_id="r", resume=True)
        assert caught.value.step == "pay"
        assert trip.calls.order[3:] == ["cancel car", "cancel hotel", "cancel flight"]
        assert await engine.status("r") == "failed"
        with pytest.raises(hf.RunFinishedError):
            await engine.run(trip.flow(), run_id="r", resume=True)

    asyncio.run(main())


def test_after_a_crash_and_a_resume_all_is_undone_in_reverse(engine: hf.Engine) -> None:
    trip = Trip()

    async def main() -> None:
        await stop_at(engine.stream(trip.flow(), run_id="r"), StepStarted, "car")
        with pytest.raises(hf.StepFailedError, match="no money"):
            await engine.run(trip.flow(), run_id="r", resume=True)
        assert trip.calls.order[3:] == ["cancel car", "cancel hotel", "cancel flight"]

    asyncio.run(main())


def test_parallel_steps_are_undone_in_the_reverse_of_how_they_ended(engine: hf.Engine) -> None:
    calls = Calls()

    async def work(name: str, rounds: int) -> str:
        for _ in range(rounds):
            await asyncio.sleep(0.002)
        return name

    @workflow
    def flow() -> Flow:
        yield parallel(
            *(
                step(name).python(work, args=(name, rounds)).with_rollback(lambda n: calls(n))
                for name, rounds in (("a", 9), ("b", 1), ("c", 5))
            )
        )
        yield step("fail").python(int, args=("x",))

    with pytest.raises(hf.StepFailedError):
        asyncio.run(engine.run(flow(), run_id="r"))
    ended = [name for name in recorded(engine, "r") if name in {"a", "b", "c"}]
    assert calls.order == ended[::-1]
    assert len(ended) == 3


def test_an_undo_may_do_without_the_result(engine: hf.Engine) -> None:
    calls = Calls()

    @workflow
    def flow() -> Flow:
        yield step("a").python(lambda: 1).with_rollback(lambda: calls("undone"))
        raise ValueError("the flow itself fails")

    with pytest.raises(ValueError, match="the flow itself"):
        asyncio.run(engine.run(flow()))
    assert calls.order == ["undone"]


def test_a_cancelled_run_is_undone(engine: hf.Engine) -> None:
    calls = Calls()

    async def forever() -> None:
        calls("waiting")
        await asyncio.sleep(3600)

    @workflow
    def flow() -> Flow:
        yield step("a").python(lambda: 1).with_rollback(lambda: calls("undone"))
        yield step("b").python(forever)

    async def main() -> None:
        following = asyncio.create_task(collect(engine.stream(flow(), run_id="r")))
        await until(lambda: calls.order == ["waiting"])
        await engine.cancel("r")
        events = await following
        assert calls.order == ["waiting", "undone"]
        assert isinstance(events[-1], RunCancelled)
        assert of(events, RollbackCompleted)
        with pytest.raises(hf.RunFinishedError):
            await engine.run(flow(), run_id="r", resume=True)

    asyncio.run(main())


def test_cancelling_a_run_that_is_being_undone_does_not_stop_that(engine: hf.Engine) -> None:
    calls = Calls()
    undoing, go_on = asyncio.Event(), asyncio.Event()

    async def undo() -> None:
        undoing.set()
        await go_on.wait()
        calls("undone")

    @workflow
    def flow() -> Flow:
        yield step("a").python(lambda: 1).with_rollback(undo)
        yield step("b").python(int, args=("x",))

    async def main() -> None:
        task = asyncio.create_task(engine.run(flow(), run_id="r"))
        await undoing.wait()
        await engine.cancel("r")
        go_on.set()
        with pytest.raises(hf.StepFailedError):
            await task
        assert calls.order == ["undone"]

    asyncio.run(main())


def test_a_paused_run_with_something_to_undo_is_cancelled_by_whoever_resumes_it(
    store: hf.Store,
) -> None:
    calls = Calls()

    @workflow
    def flow() -> Flow:
        yield step("a").python(lambda: 1).with_rollback(lambda: calls("undone"))
        yield step("b").python(calls, args=("b",))

    async def main() -> None:
        engine = hf.Engine(store)
        await stop_at(engine.stream(flow(), run_id="r"), StepCompleted, "a")
        await hf.Engine(store).cancel("r", reason="changed my mind")
        with pytest.raises(hf.RunCancelledError):
            await engine.run(flow(), run_id="r", resume=True)
        assert calls.order == ["undone"]
        assert await engine.status("r") == "cancelled"

    asyncio.run(main())
