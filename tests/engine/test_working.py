"""Submitting runs and executing what others submitted, left or died with, in one process."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.working.worker import WorkerEvent
from holdfast.workflow import step, workflow
from tests.engine.worked import Counting, Hanging, Waiting
from tests.faults import FakeClock
from tests.holders import as_another_process, dying
from tests.waiting import ENOUGH

calls: list[tuple[str, int]] = []


@step
async def work(name: str, n: int) -> int:
    calls.append((name, n))
    return n


@workflow
async def job(n: int) -> int:
    return await work("one", n) + await work("two", n)


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def test_a_submitted_run_waits_for_a_worker(url: str) -> None:
    async def main() -> None:
        async with hf.Engine(url) as engine:
            handle = await engine.submit(job(1), run_id="r", owner="ann", labels={"team": "blue"})
            assert await handle.status() == hf.Status.SUBMITTED
            assert calls == []
            with pytest.raises(TimeoutError):
                await engine.outcome("r", timeout=0.01)
            assert await engine.work(job, until_idle=True) == 1
            assert await handle == 2

    asyncio.run(main())


def test_the_same_call_under_the_same_id_is_submitted_once(url: str) -> None:
    async def main() -> None:
        async with hf.Engine(url, flows=[job]) as engine:
            for _ in range(3):
                await engine.submit(job(1), run_id="r")
            with pytest.raises(hf.InputMismatchError):
                await engine.submit(job(2), run_id="r")
            await engine.work(until_idle=True)
            assert await (await engine.submit(job(1), run_id="r")) == 2

            @workflow
            async def other(n: int) -> int:
                return n

            with pytest.raises(hf.RunExistsError):
                await engine.submit(other(1), run_id="r")

    asyncio.run(main())
    assert len(calls) == 2


def test_many_submit_one_run_at_once(url: str) -> None:
    async def main() -> None:
        async with hf.Engine(url, flows=[job]) as engine:
            await asyncio.gather(*(engine.submit(job(1), run_id="r") for _ in range(10)))
            assert await engine.work(until_idle=True) == 1

    asyncio.run(main())


def test_a_run_can_be_submitted_for_later(url: str) -> None:
    clock = FakeClock()

    async def main() -> None:
        cp = hf.Checkpointer(url, clock=clock)
        async with hf.Engine(cp, flows=[job]) as engine:
            moment = datetime.fromtimestamp(clock.now() / 1e6, UTC) + timedelta(hours=3)
            await engine.submit(job(1), run_id="hour", delay=timedelta(hours=1))
            await engine.submit(job(2), run_id="hours", at=moment)
            assert await engine.work(until_idle=True) == 0
            clock.advance(3601)
            assert await engine.work(until_idle=True) == 1
            clock.advance(7200)
            assert await engine.work(until_idle=True) == 1

    asyncio.run(main())
    assert [n for _, n in calls] == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delay": -1}, "between now"),
        ({"delay": "1h"}, "timedelta or a number"),
        ({"at": "tomorrow"}, "a datetime"),
        ({"delay": 1, "at": datetime.now(UTC)}, "not both"),
        ({"labels": {"a=b": "c"}}, "name of a label"),
        ({"labels": {"": "c"}}, "name of a label"),
        ({"timeout": 3}, "worker's engine, Engine\\(store, timeout=...\\)"),
        ({"resume": True}, "submit has no option 'resume'"),
        ({"labels": {"a": 1}}, "label"),
        ({"labels": ["a"]}, "labels must be a mapping"),
        ({"labels": {str(n): "x" for n in range(21)}}, "20 labels"),
        ({"labels": {"a": "x" * 600}}, "label"),
        ({"runid": "r"}, "did you mean 'run_id'"),
    ],
)
def test_what_can_not_be_submitted_says_why_and_leaves_nothing(options: Any, words: str) -> None:
    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            with pytest.raises((TypeError, ValueError), match=words):
                await engine.submit(job(1), **options)
            assert engine.checkpointer.core.journals.store.runs() == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"at_once": 0}, "at_once must be"),
        ({"at_once": 2.5}, "at_once must be an int"),
        ({"drain": -1}, "drain must be"),
        ({"drain": "soon"}, "number of seconds"),
        ({"per_flow": {"job": 0}}, "limit of 'job' must be between"),
        ({"per_flow": {"job": "2"}}, "limit of 'job' must be an int"),
        ({"per_flow": ["job"]}, "a mapping such as"),
        ({"per_flow": {"jbo": 2}}, "jbo"),
    ],
)
def test_limits_that_can_not_be_are_refused_before_anything_starts(
    options: Any, words: str
) -> None:
    async def main() -> None:
        async with hf.Engine("memory://", flows=[job]) as engine:
            await engine.submit(job(1), run_id="r")
            with pytest.raises((TypeError, ValueError), match=words):
                await engine.work(**options)
            assert await engine.status("r") == hf.Status.SUBMITTED

    asyncio.run(main())


def test_a_worker_without_flows_says_so() -> None:
    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            with pytest.raises(TypeError, match="a worker needs flows"):
                await engine.work()

    asyncio.run(main())


def test_a_worker_leaves_runs_of_other_flows_alone(url: str) -> None:
    @workflow
    async def other(n: int) -> int:
        return n

    async def main() -> None:
        async with hf.Engine(url) as engine:
            await engine.submit(other(1), run_id="other")
            assert await engine.work(job, until_idle=True) == 0
            assert await engine.status("other") == hf.Status.SUBMITTED

    asyncio.run(main())


def test_a_run_whose_code_is_missing_here_stays_for_other_workers(
    kept_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow("job", version="2")
    async def newer(n: int) -> int:
        return n

    async def main() -> None:
        async with hf.Engine(kept_url) as engine:
            await engine.submit(newer(1), run_id="r")
        told: list[WorkerEvent] = []
        async with hf.Engine(kept_url, flows=[job]) as engine:
            assert await engine.work(until_idle=True, listener=told.append) == 0
            assert await engine.status("r") == hf.Status.SUBMITTED
        assert [(event.event, event.run_id) for event in told] == [("refused", "r")]
        async with hf.Engine(kept_url, flows=[newer]) as engine:
            assert await engine.work(until_idle=True) == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "run r is left alone for now" in caplog.text


def test_a_worker_resumes_the_runs_of_a_dead_process(kept_url: str) -> None:
    started = asyncio.Event()

    @step
    async def hangs() -> int:
        started.set()
        if len(calls) < 2:
            await asyncio.sleep(60)
        return 1

    @workflow
    async def flow() -> int:
        return await work("one", 1) + await hangs()

    async def main() -> None:
        async with hf.Engine(kept_url, flows=[flow]) as engine:
            with dying(engine.checkpointer.core):
                task = asyncio.create_task(engine.run(flow(), run_id="r"))
                await started.wait()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        calls.append(("died", 0))
        async with hf.Engine(kept_url, flows=[flow]) as engine:
            assert await engine.work(until_idle=True) == 1
            assert await engine.outcome("r") == 2

    asyncio.run(main())
    assert calls.count(("one", 1)) == 1


def test_a_worker_does_not_take_what_another_living_process_executes(kept_url: str) -> None:
    waiting = Waiting()

    async def main() -> None:
        async with hf.Engine(kept_url) as busy, hf.Engine(kept_url, flows=[waiting.flow]) as idle:
            as_another_process(idle.checkpointer.core)
            handle = await busy.start(waiting.flow(), run_id="r")
            assert await idle.work(until_idle=True) == 0
            waiting.go_on.set()
            assert await handle == 1

    asyncio.run(main())


def test_at_most_so_many_runs_are_executed_at_once(url: str) -> None:
    counting = Counting()

    async def main() -> None:
        async with hf.Engine(url, flows=[counting.flow]) as engine:
            for n in range(12):
                await engine.submit(counting.flow(), run_id=f"r{n}")
            assert await engine.work(until_idle=True, at_once=3) == 12

    asyncio.run(main())
    assert counting.most == 3


def test_two_workers_of_one_process_keep_the_limit_of_a_flow_together(kept_url: str) -> None:
    counting = Counting()

    async def main() -> None:
        async with (
            hf.Engine(kept_url, flows=[counting.flow]) as a,
            hf.Engine(kept_url, flows=[counting.flow]) as b,
        ):
            for n in range(10):
                await a.submit(counting.flow(), run_id=f"r{n}")
            both = (e.work(until_idle=True, per_flow={"flow": 2}) for e in (a, b))
            assert sum(await asyncio.gather(*both)) == 10

    asyncio.run(main())
    assert counting.most <= 2


def test_a_worker_that_is_stopped_finishes_what_it_does_and_begins_nothing(url: str) -> None:
    waiting = Waiting()

    async def main() -> None:
        stop = asyncio.Event()
        async with hf.Engine(url, flows=[waiting.flow]) as engine:
            await engine.submit(waiting.flow(), run_id="first")
            worker = asyncio.create_task(engine.work(stop=stop, at_once=1))
            await waiting.begun.wait()
            await engine.submit(waiting.flow(), run_id="second")
            stop.set()
            await asyncio.sleep(0.05)
            assert not worker.done()
            waiting.go_on.set()
            assert await worker == 1
            assert await engine.status("first") == hf.Status.COMPLETED
            assert await engine.status("second") == hf.Status.SUBMITTED

    asyncio.run(main())


def test_what_is_not_finished_in_time_is_left_to_other_workers(kept_url: str) -> None:
    hanging = Hanging()

    async def main() -> None:
        stop = asyncio.Event()
        told: list[str] = []
        async with hf.Engine(kept_url, flows=[hanging.flow]) as engine:
            await engine.submit(hanging.flow(), run_id="r")
            listen = lambda event: told.append(event.event)  # noqa: E731
            worker = asyncio.create_task(engine.work(stop=stop, drain=0.05, listener=listen))
            await hanging.begun.wait()
            stop.set()
            assert await worker == 0
        assert told == ["began", "left"]
        async with hf.Engine(kept_url, flows=[hanging.flow]) as engine:
            assert await engine.work(until_idle=True) == 1
            assert await engine.outcome("r") == 1

    asyncio.run(main())


def test_a_failed_run_is_told_and_not_tried_again(url: str) -> None:
    @step
    def fails() -> None:
        raise ValueError("no")

    @workflow
    async def flow() -> None:
        await fails()

    async def main() -> None:
        told: list[WorkerEvent] = []
        async with hf.Engine(url, flows=[flow]) as engine:
            handle = await engine.submit(flow(), run_id="r")
            assert await engine.work(until_idle=True, listener=told.append) == 1
            assert await engine.work(until_idle=True) == 0
            with pytest.raises(hf.StepFailedError):
                await handle
        assert [event.event for event in told] == ["began", "failed"]
        assert "no" in told[-1].detail

    asyncio.run(main())


def test_a_listener_that_fails_stops_no_worker(url: str, caplog: pytest.LogCaptureFixture) -> None:
    def listener(event: WorkerEvent) -> None:
        raise RuntimeError("deaf")

    async def main() -> None:
        async with hf.Engine(url, flows=[job]) as engine:
            await engine.submit(job(1), run_id="r")
            assert await engine.work(until_idle=True, listener=listener) == 1

    asyncio.run(main())
    assert "listener of a worker failed" in caplog.text


def test_submitted_runs_can_be_paused_cancelled_and_run_at_once(url: str) -> None:
    async def main() -> None:
        async with hf.Engine(url, flows=[job]) as engine:
            for name in ("pause", "cancel", "run"):
                await engine.submit(job(1), run_id=name, delay=3600)
            await engine.pause("pause")
            await engine.cancel("cancel")
            assert await engine.run(job(1), run_id="run", resume=True) == 2
            assert await engine.status("pause") == hf.Status.PAUSED
            assert await engine.status("cancel") == hf.Status.CANCELLED
            assert await engine.resume("pause") == 2

    asyncio.run(main())


def test_workers_are_listed_with_what_they_do(kept_url: str) -> None:
    waiting = Waiting()

    async def main() -> None:
        stop = asyncio.Event()
        async with hf.Engine(kept_url, flows=[waiting.flow]) as engine:
            assert await engine.workers() == []
            await engine.submit(waiting.flow(), run_id="r")
            worker = asyncio.create_task(engine.work(stop=stop, at_once=7))
            await waiting.begun.wait()
            (listed,) = await engine.workers()
            assert (listed.state, listed.flows, listed.at_once) == ("alive", ("flow",), 7)
            assert listed.runs == 1
            waiting.go_on.set()
            stop.set()
            await worker
        async with hf.Engine(kept_url) as engine:
            assert await engine.workers() == []

    asyncio.run(main())


def test_an_idle_worker_asks_the_store_at_most_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted over four seconds, in which it polls three times, beats once and may look once."""
    asked: list[str] = []

    async def main() -> None:
        stop = asyncio.Event()
        async with hf.Engine(tmp_path / "runs.db", flows=[job]) as engine:
            store = engine.checkpointer.core.journals.store
            for name in (
                "append",
                "read",
                "runs",
                "erase",
                "due",
                "holders",
                "listed",
                "last",
                "poll",
            ):
                real = getattr(store, name)

                def counted(*args: Any, _name: str = name, _real: Any = real, **more: Any) -> Any:
                    asked.append(_name)
                    return _real(*args, **more)

                monkeypatch.setattr(store, name, counted)
            worker = asyncio.create_task(engine.work(stop=stop))
            while asked.count("poll") < 2:  # now it only waits
                await asyncio.sleep(0.05)
            asked.clear()
            began = monotonic()
            await asyncio.sleep(4)
            counted_calls, seconds = list(asked), monotonic() - began
            stop.set()
            await worker
        assert len(counted_calls) <= 1 + seconds, counted_calls

    asyncio.run(main())


def test_a_worker_continues_what_its_own_process_left_also_in_a_store_of_its_own(url: str) -> None:
    hanging = Hanging()

    async def main() -> None:
        async with hf.Engine(url, flows=[hanging.flow]) as engine:
            task = asyncio.create_task(engine.run(hanging.flow(), run_id="r"))
            await hanging.begun.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            stop = asyncio.Event()
            worker = asyncio.create_task(engine.work(stop=stop))
            async with asyncio.timeout(ENOUGH):
                while await engine.status("r") != hf.Status.COMPLETED:
                    await asyncio.sleep(0.02)
            stop.set()
            await worker

    asyncio.run(main())
