from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents.workflow_results import result_of
from holdfast.events import (
    CheckpointSaved,
    Event,
    RunCompleted,
    RunFailed,
    RunStarted,
    StepCompleted,
    StepFailed,
    StepProgress,
    StepStarted,
)
from holdfast.workflow import parallel, step, workflow
from tests.workflow.support import (
    Calls,
    Flow,
    collect,
    collect_failure,
    of,
    other_tasks,
    stop_at,
    until,
)


@workflow("two")
def two(n: int = 1) -> Flow:
    a = yield step("first").python(lambda: n)
    return (yield step("second").python(lambda: a + 1))


def test_events_tell_the_run_in_order(engine: hf.Engine) -> None:
    events = asyncio.run(collect(engine.stream(two(), run_id="r")))
    assert [type(e) for e in events] == [
        RunStarted,
        StepStarted, StepCompleted, CheckpointSaved,
        StepStarted, StepCompleted, CheckpointSaved,
        RunCompleted,
    ]  # fmt: skip
    assert {e.run_id for e in events} == {"r"}
    assert [e.value for e in of(events, StepCompleted)] == [1, 2]
    assert of(events, RunCompleted)[0].result == 2
    assert of(events, RunStarted)[0] == RunStarted("r", "two")


def test_a_saved_checkpoint_is_there_when_its_event_comes(store: hf.Store) -> None:
    async def main() -> None:
        engine, reader = hf.Engine(store), hf.Checkpointer(store)
        async for event in engine.stream(two(), run_id="r"):
            if isinstance(event, CheckpointSaved):
                found = await reader.load("r", checkpoint_id=event.checkpoint_id)
                assert found is not None
                assert found.step == event.step
                assert event.step in found.state

    asyncio.run(main())


def test_an_id_is_made_and_carried_by_every_event(engine: hf.Engine) -> None:
    async def main() -> None:
        (first,) = {event.run_id for event in await collect(engine.stream(two()))}
        (second,) = {event.run_id for event in await collect(engine.stream(two()))}
        assert first != second
        assert await engine.status(first) == "completed"

    asyncio.run(main())


def test_a_failed_run_says_so_and_then_raises(engine: hf.Engine) -> None:
    def fails() -> None:
        raise ValueError("no luck")

    @workflow
    def flow() -> Flow:
        yield step("good").python(lambda: 1)
        yield step("bad").python(fails)

    async def main() -> None:
        stream = engine.stream(flow(), run_id="r")
        events, error = await collect_failure(stream, hf.StepFailedError)
        failed, ended = events[-2:]
        assert isinstance(failed, StepFailed)
        assert failed.step == "bad"
        assert isinstance(ended, RunFailed)
        assert ended.error is error
        assert ended.step == error.step == "bad"
        assert error.state == {"good": 1}
        assert error.is_a(ValueError)
        assert isinstance(error.__cause__, ValueError)
        assert "in fails" in error.trace
        assert str(Path(hf.__file__).parent) not in error.trace

    asyncio.run(main())
    result = result_of(engine.checkpointer.core, "r")
    assert (result.success, result.status) == (False, "failed")
    assert result.error == "ValueError: no luck"
    assert [s.success for s in result.steps] == [True, False]


def test_leaving_the_events_leaves_the_run_to_be_resumed(engine: hf.Engine) -> None:
    async def main() -> None:
        for event_kind in (RunStarted, StepStarted, StepCompleted, CheckpointSaved):
            run_id = event_kind.__name__
            await stop_at(engine.stream(two(), run_id=run_id), event_kind)
            gc.collect()
            assert not other_tasks()
            assert await engine.run(two(), run_id=run_id, resume=True) == 2

    asyncio.run(main())


def test_leaving_the_events_drops_the_steps_under_way(engine: hf.Engine) -> None:
    calls = Calls()

    async def forever(name: str) -> None:
        try:
            calls(name)
            hf.current_step().progress()
            await asyncio.sleep(3600)
        finally:
            calls(f"{name} stopped")

    @workflow
    def flow() -> Flow:
        yield parallel(
            step("a").python(forever, args=("a",)), step("b").python(forever, args=("b",))
        )

    async def main() -> None:
        stream = engine.stream(flow(), run_id="r")
        await stop_at(stream, StepProgress, "b")
        await stream.aclose()
        await until(lambda: not other_tasks())
        assert sorted(calls.order) == ["a", "a stopped", "b", "b stopped"]
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    asyncio.run(main())


def test_a_single_step_under_way_is_dropped_too(engine: hf.Engine) -> None:
    calls = Calls()

    async def reports() -> None:
        try:
            hf.current_step().progress(0.5)
            await asyncio.sleep(3600)
        finally:
            calls("stopped")

    @workflow
    async def flow() -> None:
        await step("a").python(reports)

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepProgress)
        gc.collect()
        await until(lambda: calls.order == ["stopped"])
        assert not other_tasks()

    asyncio.run(main())


def test_a_stream_is_a_context_that_closes_it(engine: hf.Engine) -> None:
    async def main() -> None:
        async with engine.stream(two(), run_id="r") as stream:
            await anext(stream)
        assert await engine.run(two(), run_id="r", resume=True) == 2

    asyncio.run(main())


def test_a_stream_never_begun_begins_no_run(engine: hf.Engine) -> None:
    engine.stream(two(), run_id="r")
    with pytest.raises(hf.CheckpointNotFoundError):
        engine.status_sync("r")


def test_many_runs_at_once_are_kept_apart(engine: hf.Engine) -> None:
    async def one(n: int) -> None:
        events = await collect(engine.stream(two(n=n), run_id=f"r{n}"))
        assert {e.run_id for e in events} == {f"r{n}"}
        assert of(events, RunCompleted)[0].result == n + 1

    async def main() -> None:
        await asyncio.gather(*(one(n) for n in range(30)))

    asyncio.run(main())


# --- progress is seen while the step runs: each step here waits for it to be seen


def _reporting(flow_step: Any, engine: hf.Engine, seen: Any) -> list[StepProgress]:
    @workflow
    def flow() -> Flow:
        yield flow_step

    async def main() -> list[StepProgress]:
        found = []
        async with asyncio.timeout(30):
            async for event in engine.stream(flow()):
                if isinstance(event, StepProgress):
                    found.append(event)
                    seen.set()
        return found

    return asyncio.run(main())


def test_progress_of_a_thread_is_seen_at_once(engine: hf.Engine) -> None:
    seen = threading.Event()

    def work() -> None:
        hf.current_step().progress(0.25, "a quarter")
        assert seen.wait(30)

    (event,) = _reporting(step("work").python(work), engine, seen)
    assert (event.step, event.fraction, event.message) == ("work", 0.25, "a quarter")


def test_progress_of_an_async_step_is_seen_at_once(engine: hf.Engine) -> None:
    seen = asyncio.Event()

    async def work() -> None:
        hf.current_step().progress(message="begun")
        await seen.wait()

    (event,) = _reporting(step("work").python(work), engine, seen)
    assert (event.fraction, event.message) == (None, "begun")


def test_progress_of_a_task_within_a_step_is_seen_at_once(engine: hf.Engine) -> None:
    seen = asyncio.Event()

    async def part() -> None:
        await asyncio.sleep(0)
        hf.current_step().progress(0.5)
        await seen.wait()

    async def work() -> None:
        await asyncio.gather(part())

    assert len(_reporting(step("work").python(work), engine, seen)) == 1


def test_progress_of_a_thread_within_an_async_step_is_seen_at_once(engine: hf.Engine) -> None:
    seen = threading.Event()

    def part() -> None:
        hf.current_step().progress(0.5)
        assert seen.wait(30)

    async def work() -> None:
        await asyncio.to_thread(part)

    assert len(_reporting(step("work").python(work), engine, seen)) == 1


def test_progress_of_a_loop_in_a_thread_is_seen_at_once(engine: hf.Engine) -> None:
    seen = threading.Event()

    async def part() -> None:
        hf.current_step().progress(0.5)
        assert seen.wait(30)

    async def work() -> None:
        await asyncio.to_thread(asyncio.run, part())

    assert len(_reporting(step("work").python(work), engine, seen)) == 1


def test_progress_of_parallel_steps_is_seen_at_once(engine: hf.Engine) -> None:
    seen = threading.Event()

    def in_thread() -> None:
        hf.current_step().progress(0.5)
        assert seen.wait(30)

    async def on_loop() -> None:
        while not seen.is_set():
            await asyncio.sleep(0.001)

    both = parallel(step("a").python(in_thread), step("b").python(on_loop))
    assert [e.step for e in _reporting(both, engine, seen)] == ["a"]


def test_progress_beyond_its_bounds_is_refused(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        yield step("work").python(lambda: hf.current_step().progress(1.5))

    with pytest.raises(hf.StepFailedError, match="between 0 and 1"):
        asyncio.run(engine.run(flow()))


# --- a consumer that takes its time


def test_a_step_that_times_out_does_not_cancel_whoever_looks_at_the_events(
    engine: hf.Engine,
) -> None:
    async def slow() -> None:
        hf.current_step().progress(0.1)
        await asyncio.sleep(3600)

    @workflow
    def flow() -> Flow:
        yield step("slow").python(slow).timeout(0.01)

    async def main() -> None:
        async def look(event: Event) -> None:
            if isinstance(event, StepProgress):
                await asyncio.sleep(0.1)  # the step's time is over meanwhile

        _, error = await collect_failure(engine.stream(flow()), hf.StepFailedError, look)
        assert isinstance(error.__cause__, hf.StepTimeoutError)

    asyncio.run(main())


def test_a_timeout_within_a_step_does_not_cancel_whoever_looks_at_the_events(
    engine: hf.Engine,
) -> None:
    async def slow() -> str:
        hf.current_step().progress(0.1)
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(3600)
        except TimeoutError:
            return "gave up"
        return "never"

    @workflow
    def flow() -> Flow:
        return (yield step("slow").python(slow))

    async def main() -> None:
        async for event in engine.stream(flow()):
            if isinstance(event, StepProgress):
                await asyncio.sleep(0.1)
        assert isinstance(event, RunCompleted)
        assert event.result == "gave up"

    asyncio.run(main())


def test_a_run_that_times_out_does_not_cancel_whoever_looks_at_the_events(store: hf.Store) -> None:
    engine = hf.Engine(store, timeout=0.01)

    async def main() -> None:
        async def look(event: Event) -> None:
            if isinstance(event, StepStarted):
                await asyncio.sleep(0.1)

        events, error = await collect_failure(
            engine.stream(two(), run_id="r"), hf.RunTimeoutError, look
        )
        assert of(events, RunFailed)[-1].error is error

    asyncio.run(main())


def test_cancelling_a_run_does_not_cancel_whoever_looks_at_the_events(
    engine: hf.Engine,
) -> None:
    async def slow() -> None:
        hf.current_step().progress(0.1)
        await asyncio.sleep(3600)

    @workflow
    def flow() -> Flow:
        yield step("slow").python(slow)

    async def main() -> None:
        events = []
        async for event in engine.stream(flow(), run_id="r"):
            events.append(event)
            if isinstance(event, StepProgress):
                await asyncio.create_task(engine.cancel("r"))
                await asyncio.sleep(0.01)
        assert type(events[-1]).__name__ == "RunCancelled"

    asyncio.run(main())
