"""The limits of flows over several workers, and workers that find a lot of what is not theirs."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.holding.presence import Presence
from holdfast.model import Entry, permit_journal
from holdfast.workflow import step, workflow
from tests.engine.worked import Counting
from tests.holders import as_another_process
from tests.waiting import ENOUGH


def test_a_limit_holds_also_while_a_worker_is_late_with_its_sign_of_life(
    kept_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting(0.05)
    flow = counting.flow
    monkeypatch.setattr(Presence, "lease_at_hand", lambda *_: None)

    async def main() -> None:
        async with hf.Engine(kept_url, flows=[flow]) as a, hf.Engine(kept_url, flows=[flow]) as b:
            as_another_process(b.checkpointer.core)
            for n in range(6):
                await a.submit(flow(), run_id=f"r{n}")
            both = (e.work(until_idle=True, per_flow={"flow": 1}) for e in (a, b))
            assert sum(await asyncio.gather(*both)) == 6

    asyncio.run(main())
    assert counting.most == 1


@step
async def note(n: int) -> int:
    return n


@workflow("job", version="1")
async def old_job(n: int) -> int:
    return await note(n)


@workflow("job", version="2")
async def new_job(n: int) -> int:
    return await note(n)


@workflow
async def other(n: int) -> int:
    return await note(n)


def test_many_runs_that_can_not_be_executed_here_keep_no_other_waiting(kept_url: str) -> None:
    async def main() -> None:
        told: list[hf.WorkerEvent] = []
        async with hf.Engine(kept_url) as engine:
            for n in range(250):
                await engine.submit(old_job(n), run_id=f"a{n}")
            last = await engine.submit(new_job(1), run_id="z")
        async with hf.Engine(kept_url) as engine:
            stop = asyncio.Event()
            worker = asyncio.create_task(
                engine.work(new_job, at_once=100, stop=stop, listener=told.append)
            )
            async with asyncio.timeout(ENOUGH):
                while await engine.status(last.id) != hf.Status.COMPLETED or len(told) < 252:
                    await asyncio.sleep(0.05)
            stop.set()
            await worker
        assert all(event.event == "refused" for event in told if event.run_id != "z")
        assert len({(event.run_id, event.event) for event in told}) == len(told) == 252

    asyncio.run(main())


def test_a_worker_looks_seldom_while_others_submit_what_is_not_for_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred runs in two seconds or more: it need not look for each of them."""
    looks = 0

    async def main() -> None:
        nonlocal looks
        stop = asyncio.Event()
        async with hf.Engine(url, flows=[other]) as engine:
            store = engine.checkpointer.core.journals.store
            real = store.due

            def counted(*args: Any, **more: Any) -> Any:
                nonlocal looks
                looks += 1
                return real(*args, **more)

            monkeypatch.setattr(store, "due", counted)
            worker = asyncio.create_task(engine.work(new_job, stop=stop))
            began = monotonic()
            for n in range(200):
                await engine.submit(other(n))
                await asyncio.sleep(0.01)
            seconds = monotonic() - began
            stop.set()
            await worker
        assert looks <= 10 + 2 * seconds

    asyncio.run(main())


def test_a_worker_outlives_what_it_can_not_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with hf.Engine(url, flows=[other]) as engine:
            await engine.submit(other(1), run_id="r")
            store = engine.checkpointer.core.journals.store
            real, polled = store.due, store.poll

            def damaged(*args: Any, **more: Any) -> Any:
                monkeypatch.setattr(store, "due", real)
                raise hf.CheckpointCorruptedError("r", 0, "an index that can't be read")

            def unpolled(*args: Any, **more: Any) -> Any:
                monkeypatch.setattr(store, "poll", polled)
                raise hf.CheckpointCorruptedError("r", 0, "a change that can't be read")

            monkeypatch.setattr(store, "due", damaged)
            monkeypatch.setattr(store, "poll", unpolled)
            assert await engine.work(until_idle=True) == 1

    asyncio.run(main())


def test_many_runs_of_a_flow_with_a_limit_keep_no_other_flow_waiting(url: str) -> None:
    async def main() -> None:
        over, stop = asyncio.Event(), asyncio.Event()

        @step
        async def wait_for_the_other() -> None:
            await over.wait()

        @workflow
        async def slow() -> None:
            await wait_for_the_other()

        async with hf.Engine(url) as engine:
            for n in range(250):
                await engine.submit(slow(), run_id=f"a{n}")
            last = await engine.submit(other(1), run_id="z")
            working = engine.work(slow, other, at_once=50, per_flow={"slow": 1}, stop=stop, drain=0)
            worker = asyncio.create_task(working)
            async with asyncio.timeout(ENOUGH):
                while await last.status() != hf.Status.COMPLETED:
                    await asyncio.sleep(0.05)
            over.set()
            stop.set()
            await worker

    asyncio.run(main())


def test_a_permit_is_given_back_once_the_store_answers_again(
    kept_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        blocks, over, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @step
        async def block() -> None:
            blocks.set()
            await over.wait()

        @workflow
        async def blocking() -> None:
            await block()

        flows: list[hf.Flow[Any]] = [other, blocking]
        limits = {"other": 1}
        async with hf.Engine(kept_url, flows=flows) as a, hf.Engine(kept_url, flows=flows) as b:
            as_another_process(b.checkpointer.core)
            store = a.checkpointer.core.journals.store
            real, written = store.erase, 0

            def erase(tombstone: Entry) -> bool:
                nonlocal written
                written += tombstone.run == permit_journal("other", 0)
                if written == 2 and (
                    tombstone.run == permit_journal("other", 0)
                ):  # the first one takes it
                    written += 1
                    raise hf.StoreUnavailableError("away for a moment")
                return real(tombstone)

            monkeypatch.setattr(store, "erase", erase)
            await a.submit(other(1), run_id="first")
            working = a.work(at_once=1, per_flow=limits, stop=stop, drain=0)
            worker = asyncio.create_task(working)
            while written < 2:
                await asyncio.sleep(0.01)
            await a.submit(blocking(), run_id="blocking")
            async with asyncio.timeout(ENOUGH):
                await blocks.wait()
                second = await b.submit(other(2), run_id="second")
                while not await b.work(per_flow=limits, until_idle=True, at_once=1):
                    await asyncio.sleep(0.05)
            assert await second.status() == hf.Status.COMPLETED
            over.set()
            stop.set()
            await worker

    asyncio.run(main())
