from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.events import RunCancelled, RunCompleted, RunPaused
from holdfast.workflow import for_each, parallel, step, workflow
from tests.holders import as_another_process
from tests.workflow.support import Calls, Flow, collect, of, recorded, until


def test_cancelling_interrupts_an_async_step(engine: hf.Engine) -> None:
    calls = Calls()

    async def forever() -> None:
        try:
            calls("begun")
            await asyncio.sleep(3600)
        finally:
            calls("interrupted")

    @workflow
    def flow() -> Flow:
        yield step("a").python(forever)

    async def main() -> None:
        for following in (False, True):
            run_id = f"r{following}"
            carried_out: Any = (
                collect(engine.stream(flow(), run_id=run_id))
                if following
                else engine.run(flow(), run_id=run_id)
            )
            task = asyncio.create_task(carried_out)
            await until(lambda: "begun" in calls.order)
            await engine.cancel(run_id)
            if following:
                assert isinstance((await task)[-1], RunCancelled)
            else:
                with pytest.raises(hf.RunCancelledError):
                    await task
                assert not task.cancelled()
            assert calls.take() == ["begun", "interrupted"]
            assert await engine.status(run_id) == "cancelled"

    asyncio.run(main())


def test_a_long_sync_step_can_look_whether_it_is_cancelled(engine: hf.Engine) -> None:
    begun = threading.Event()
    looked = threading.Event()

    def long() -> None:
        begun.set()
        while not hf.current_step().cancelled:
            threading.Event().wait(0.001)
        looked.set()

    @workflow
    def flow() -> Flow:
        yield step("a").python(long)

    async def main() -> None:
        task = asyncio.create_task(engine.run(flow(), run_id="r"))
        await until(begun.is_set)
        await engine.cancel("r")
        with pytest.raises(hf.RunCancelledError):
            await task
        assert looked.wait(30)

    asyncio.run(main())


def test_a_paused_run_stops_after_its_steps_and_resumes_later(engine: hf.Engine) -> None:
    calls = Calls()
    gate: asyncio.Event

    async def work(name: str) -> str:
        calls(name)
        await gate.wait()
        return name

    @workflow
    def flow() -> Flow:
        first = yield step("a").python(work, args=("a",))
        return first + (yield step("b").python(work, args=("b",)))

    async def main() -> None:
        nonlocal gate
        gate = asyncio.Event()
        task = asyncio.create_task(collect(engine.stream(flow(), run_id="r")))
        await until(lambda: calls.order == ["a"])
        await engine.pause("r")
        gate.set()
        assert (await task)[-1] == RunPaused("r")
        assert await engine.status("r") == "paused"
        assert await engine.run(flow(), run_id="r", resume=True) == "ab"
        assert calls.order == ["a", "b"]

    asyncio.run(main())


@pytest.mark.parametrize("action", ["pause", "cancel"])
def test_a_request_from_elsewhere_is_heard_and_no_finished_step_lost(
    kept_url: str, action: str
) -> None:
    calls = Calls()
    gate: asyncio.Event

    async def work(n: int) -> int:
        calls(str(n))
        await gate.wait()
        return n

    @workflow
    def flow() -> Flow:
        yield parallel(for_each(range(4), work), step("x").python(work, args=(9,)))
        yield step("last").python(work, args=(10,))

    async def main() -> None:
        nonlocal gate
        gate = asyncio.Event()
        async with hf.Engine(kept_url) as engine, hf.Engine(kept_url) as other:
            as_another_process(other.checkpointer.core)
            task = asyncio.create_task(collect(engine.stream(flow(), run_id="r")))
            await until(lambda: len(calls.order) == 5)
            await getattr(other, action)("r")
            gate.set()
            events = await task
            assert len(await asyncio.to_thread(recorded, other, "r")) == 5
            if action == "cancel":
                assert isinstance(events[-1], RunCancelled)
                assert await other.status("r") == "cancelled"
            else:
                assert of(events, RunPaused)
                await other.run(flow(), run_id="r", resume=True)
                assert sorted(calls.order, key=int) == ["0", "1", "2", "3", "9", "10"]

    asyncio.run(main())


def test_requests_raced_against_a_live_run_lose_no_step(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    calls = Calls()

    async def work(n: int) -> int:
        await asyncio.sleep(0)
        calls(str(n))
        return n

    @workflow
    def flow() -> Flow:
        return (yield for_each(range(60), work, concurrency=4))

    async def main() -> None:
        async with hf.Engine(url) as engine, hf.Engine(url) as other:
            over = False

            async def pester() -> None:
                while not over:
                    try:
                        await other.pause("r")
                    except (hf.CheckpointNotFoundError, hf.RunFinishedError):
                        await asyncio.sleep(0.001)

            pest = asyncio.create_task(pester())
            for _ in range(500):
                try:
                    result = await engine.run(flow(), run_id="r", resume=True)
                    break
                except hf.RunPausedError:
                    continue
            over = True
            await pest
            assert result == list(range(60))
            assert sorted(calls.order, key=int) == [str(n) for n in range(60)]

    asyncio.run(main())


def test_a_living_process_loses_its_run_only_to_whoever_takes_it_over(kept_url: str) -> None:
    calls = Calls()
    gate: asyncio.Event

    async def work(name: str) -> str:
        calls(name)
        if calls.count("a") < 2:
            await gate.wait()
        return name

    @workflow
    def flow() -> Flow:
        first = yield step("a").python(work, args=("a",))
        return first + (yield step("b").python(work, args=("b",)))

    async def main() -> None:
        nonlocal gate
        gate = asyncio.Event()
        async with hf.Engine(kept_url) as old, hf.Engine(kept_url) as new:
            as_another_process(new.checkpointer.core)
            task = asyncio.create_task(old.run(flow(), run_id="r"))
            await until(lambda: calls.order == ["a"])
            with pytest.raises(hf.RunActiveError):
                await new.resume("r", flow=flow)
            events = await collect(new.resume_stream("r", flow=flow, take_over=True))
            assert of(events, RunCompleted)[0].result == "ab"
            gate.set()
            with pytest.raises(hf.LeaseLostError, match="this process lost run"):
                await task
            assert calls.order == ["a", "a", "b"], "the old worker did nothing more"
            assert await asyncio.to_thread(recorded, new, "r") == ["a", "b"]

    asyncio.run(main())


def test_a_run_that_was_gone_back_is_lost_to_its_worker(kept_url: str) -> None:
    calls = Calls()
    gate: asyncio.Event

    async def work(name: str) -> str:
        calls(name)
        if name == "b":
            await gate.wait()
        return name

    @workflow
    def flow() -> Flow:
        yield step("a").python(work, args=("a",))
        yield step("b").python(work, args=("b",))

    async def main() -> None:
        nonlocal gate
        gate = asyncio.Event()
        async with hf.Engine(kept_url) as engine, hf.Checkpointer(kept_url) as cp:
            task = asyncio.create_task(engine.run(flow(), run_id="r"))
            await until(lambda: calls.order == ["a", "b"])
            first = await cp.load("r")
            assert first is not None
            await cp.rollback("r", seq=first.seq)
            gate.set()
            with pytest.raises(hf.LeaseLostError, match="rollback"):
                await task

    asyncio.run(main())


def test_requests_for_what_is_not_there_are_errors(engine: hf.Engine) -> None:
    async def main() -> None:
        for action in (engine.cancel, engine.pause, engine.status, engine.outcome, engine.resume):
            with pytest.raises(hf.CheckpointNotFoundError):
                await action("nobody")

    asyncio.run(main())


def test_a_cancelled_task_leaves_the_run_to_be_resumed(engine: hf.Engine) -> None:
    calls = Calls()
    gate: asyncio.Event

    async def work(name: str) -> None:
        calls(name)
        if name == "b":
            await gate.wait()

    @workflow
    def flow() -> Flow:
        yield step("a").python(work, args=("a",))
        yield step("b").python(work, args=("b",))

    async def main() -> None:
        nonlocal gate
        gate = asyncio.Event()
        task = asyncio.create_task(engine.run(flow(), run_id="r"))
        await until(lambda: calls.order == ["a", "b"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        await engine.run(flow(), run_id="r", resume=True)
        assert calls.order == ["a", "b", "b"]

    asyncio.run(main())
