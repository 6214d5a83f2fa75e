"""The threads in which sync steps run: shared, reused, and not lost to steps that hang."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

import holdfast as hf
from holdfast.workflow import parallel, step, workflow
from tests.waiting import ENOUGH, PATIENCE, exit_code, wait_until

THREADS = 32
MANY = 40  # steps


@step
def quick(n: int) -> int:
    return n


@workflow
async def small() -> int:
    return await quick(1)


class Hanging:
    """A workflow of many steps that all hang."""

    def __init__(self, timeout: float = ENOUGH) -> None:
        self.released = threading.Event()
        self.begun: list[int] = []
        self.ended: list[int] = []

        def hang(n: int) -> None:
            self.begun.append(n)
            assert self.released.wait(ENOUGH)
            self.ended.append(n)

        @workflow
        async def hanging() -> None:
            await parallel(
                *(step(f"hang-{n}").python(hang, (n,)).timeout(timeout) for n in range(MANY))
            )

        self.flow = hanging

    async def occupy(self, engine: hf.Engine) -> hf.RunHandle[None]:
        """Begin it; returns when all threads are occupied."""
        handle = await engine.start(self.flow(), run_id="hanging")
        await asyncio.to_thread(wait_until, lambda: len(self.begun) == THREADS)
        return handle


def test_steps_that_timed_out_keep_no_other_run_from_its_threads() -> None:
    hanging = Hanging(timeout=0.01)

    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            for n in range(3):
                with pytest.raises(hf.StepFailedError, match=r"0\.01"):
                    await engine.run(hanging.flow(), run_id=f"hanging-{n}")
            async with asyncio.timeout(PATIENCE):
                assert await engine.run(small()) == 1

    try:
        asyncio.run(main())
    finally:
        hanging.released.set()


def test_steps_of_a_cancelled_run_keep_no_other_run_from_its_threads() -> None:
    hanging = Hanging()

    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            handle = await hanging.occupy(engine)
            await engine.cancel("hanging")
            with pytest.raises(hf.RunCancelledError):
                await handle
            async with asyncio.timeout(PATIENCE):
                assert await engine.run(small()) == 1

    try:
        asyncio.run(main())
    finally:
        hanging.released.set()


def test_threads_beyond_the_usual_number_end_when_their_steps_do() -> None:
    hanging = Hanging(timeout=0.01)

    def spare() -> list[str]:
        names = (thread.name for thread in threading.enumerate())
        return [name for name in names if name.startswith("holdfast-step-spare")]

    for _ in range(2):
        with pytest.raises(hf.StepFailedError):
            hf.Engine("memory://").run_sync(hanging.flow())
    assert spare()
    hanging.released.set()
    wait_until(lambda: not spare())


def test_a_step_that_timed_out_before_a_thread_was_free_never_begins() -> None:
    hanging, begun = Hanging(), list[int]()

    @workflow
    async def late() -> None:
        await step("late").python(begun.append, (1,)).timeout(0.01)

    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            handle = await hanging.occupy(engine)
            with pytest.raises(hf.StepFailedError, match=r"0\.01"):
                await engine.run(late())
            hanging.released.set()
            await handle

    asyncio.run(main())
    assert sorted(hanging.ended) == list(range(MANY)), "the others had their turn"
    assert begun == []


def test_a_child_of_fork_has_threads_of_its_own() -> None:
    async def main() -> int:
        async with hf.Engine("memory://") as engine:
            return await engine.run(small())

    assert asyncio.run(main()) == 1
    child = os.fork()
    if not child:
        try:
            os._exit(asyncio.run(main()))
        finally:
            os._exit(9)
    assert exit_code(child) == 1
