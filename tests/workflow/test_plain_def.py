"""Plain `def` workflows: their code runs in a thread of its own and blocks nobody."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.workflow import ask, for_each, parallel, step, workflow
from tests.waiting import wait_until


@step(inline=True)
def tick(n: int) -> int:
    return n


@step
def fail() -> int:
    raise ValueError("no")


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Any:
    yield
    gc.collect()
    wait_until(lambda: not [t for t in threading.enumerate() if t.name == "holdfast-flow"])


def test_it_waits_for_steps_and_gets_their_results(tmp_path: Path) -> None:
    @workflow
    def total(n: int) -> int:
        a, b = parallel(tick(1), tick(2)).result()
        return a + b + sum(for_each(range(n), tick).result()) + nested(n).result()

    @workflow
    def nested(n: int) -> int:
        try:
            return fail().result()
        except hf.StepFailedError:
            return tick(n).result()

    with hf.Engine(tmp_path / "runs.db") as engine:
        for _ in range(2):
            assert engine.run_sync(total(3), run_id="r", resume=True) == 9


def test_its_own_code_does_not_block_the_event_loop() -> None:
    ticks = 0

    @workflow
    def blocks() -> int:
        before = ticks
        deadline = time.monotonic() + 30
        while ticks < before + 5 and time.monotonic() < deadline:
            time.sleep(0.001)
        return tick(ticks - before).result()

    async def main() -> None:
        async def beat() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        beating = asyncio.create_task(beat())
        async with hf.Engine(False) as engine:
            assert await engine.run(blocks()) >= 5
        beating.cancel()

    asyncio.run(main())


def test_decisions_are_recorded_and_replayed(tmp_path: Path) -> None:
    seen = []

    @workflow
    def deciding() -> str:
        seen.append((hf.now(), hf.random(), hf.uuid()))
        return ask("Well?", returns=str).result()

    with hf.Engine(tmp_path / "runs.db") as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(deciding(), run_id="r")
        engine.answer_sync("r", "yes")
        assert engine.resume_sync("r") == "yes"
    assert seen[0] == seen[1]


def test_a_pause_and_a_cancel_end_its_thread_through_its_finally() -> None:
    ended = []

    @step
    async def endless() -> None:
        await asyncio.Event().wait()

    @workflow
    def asks() -> bool:
        try:
            return ask("ok?", returns=bool).result()
        finally:
            ended.append("asks")

    @workflow
    def waits() -> None:
        try:
            endless().result()
        finally:
            ended.append("waits")

    async def main() -> None:
        async with hf.Engine(False) as engine:
            with pytest.raises(hf.RunPausedError):
                await engine.run(asks(), run_id="a")
            await engine.answer("a", True)
            assert await engine.resume("a")
            run = await engine.start(waits(), run_id="w")
            async for event in run.events():
                if type(event).__name__ == "StepStarted":
                    await run.cancel()
            with pytest.raises(hf.RunCancelledError):
                await run

    asyncio.run(main())
    wait_until(lambda: sorted(ended) == ["asks", "asks", "waits"])


def test_its_own_error_fails_the_run_with_its_own_traceback() -> None:
    @workflow
    def broken() -> None:
        tick(1).result()
        raise KeyError("mine")

    @workflow
    def stops() -> None:
        tick(1).result()
        next(iter(()))

    with hf.Engine(False) as engine:
        with pytest.raises(KeyError, match="mine") as told:
            engine.run_sync(broken())
        assert told.traceback[-1].name == "broken"
        with pytest.raises(RuntimeError, match="StopIteration"):
            engine.run_sync(stops())


def test_result_in_an_async_workflow_is_refused_with_advice() -> None:
    @workflow
    async def mistaken() -> int:
        return tick(1).result()

    with hf.Engine(False) as engine, pytest.raises(RuntimeError, match="write `await`"):
        engine.run_sync(mistaken())


def test_many_at_once() -> None:
    @workflow
    def counts(n: int) -> int:
        return sum(tick(i).result() for i in range(n))

    async def main() -> list[int]:
        async with hf.Engine(False) as engine:
            return await asyncio.gather(*[engine.run(counts(5)) for _ in range(50)])

    assert asyncio.run(main()) == [10] * 50
