"""The loop of the simulation: what is tested with it is only worth what it does."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.loop import CURRENT, Loop, Process, StuckError
from tests.simulation.schedule import Schedule, simulate


def test_time_passes_only_in_sleep() -> None:
    async def main() -> float:
        await asyncio.sleep(1000)
        return loop.time()

    loop = Loop(1)
    assert loop.run(main()) == 1000


def test_tasks_belong_to_the_process_that_made_them() -> None:
    async def child() -> Process:
        await asyncio.sleep(1)
        return CURRENT.get()

    async def parent() -> Process:
        return await asyncio.create_task(child())

    async def main() -> Process:
        return await loop.spawn(process, parent())

    loop = Loop(1)
    process = loop.add(Process("p"))
    assert loop.run(main()) is process


def test_a_paused_process_does_what_was_due_when_it_continues() -> None:
    async def work() -> None:
        await asyncio.sleep(1)
        seen.append(loop.time())

    async def main() -> None:
        task = loop.spawn(process, work())
        await asyncio.sleep(0.5)
        loop.pause(process)
        await asyncio.sleep(30)
        loop.unpause(process)
        await task

    loop, seen = Loop(1), list[float]()
    process = loop.add(Process("p"))
    loop.run(main())
    assert seen == [30.5]
    assert loop.awake(process) == 0.5


def test_nothing_of_a_killed_process_runs_not_even_finally() -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            seen.append("finally")

    async def main() -> None:
        loop.spawn(process, work())
        await asyncio.sleep(0.5)
        loop.kill(process)
        await asyncio.sleep(10)
        seen.append("end")

    loop, seen = Loop(1), list[str]()
    process = loop.add(Process("p"))
    loop.run(main())
    assert seen[0] == "end"


def test_seeds_choose_the_order_of_processes() -> None:
    def order(seed: int) -> str:
        async def work(name: str) -> None:
            for _ in range(3):
                seen.append(name)
                await asyncio.sleep(0)

        async def main() -> None:
            await asyncio.wait([loop.spawn(loop.add(Process(n)), work(n)) for n in "ab"])

        loop, seen = Loop(seed), list[str]()
        loop.run(main())
        return "".join(seen)

    assert order(1) == order(1)
    assert len({order(seed) for seed in range(20)}) > 5


def test_a_deadlock_is_a_failure() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(StuckError, match="deadlock"):
        Loop(1).run(main())


def test_a_livelock_is_a_failure() -> None:
    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(StuckError, match="no end"):
        Loop(1, most_steps=100).run(main())


def test_a_schedule_without_an_end_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def spin(self: Schedule) -> None:
        while True:
            await asyncio.sleep(0)

    monkeypatch.setattr(Schedule, "_finish", spin)
    assert "no end" in simulate(1).violations[-1]


def test_others_run_while_a_process_is_in_a_call() -> None:
    async def slow() -> None:
        loop.run_others(first, 5)
        seen.append("first")

    async def quick() -> None:
        seen.append("second")

    async def main() -> None:
        await asyncio.wait([loop.spawn(first, slow()), loop.spawn(second, quick())])

    loop, seen = Loop(3), list[str]()
    first, second = loop.add(Process("first")), loop.add(Process("second"))
    loop.run(main())
    assert sorted(seen) == ["first", "second"]
