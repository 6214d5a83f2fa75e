"""What a worker must not continue: runs that failed, were paused, or were only copied."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoint import to_micros
from holdfast.engine import controls
from holdfast.engine.launcher import Launcher
from holdfast.engine.resume.activity import is_for_workers
from holdfast.graph import END, Graph
from holdfast.kernel.core import Core
from holdfast.workflow import Workflow, ask, sleep, step, workflow
from tests.faults import FakeClock

MONDAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
DAY = 86_400.0

calls: list[str] = []


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(to_micros(MONDAY))


@pytest.fixture
def engine(url: str, clock: FakeClock) -> hf.Engine:
    """An engine whose time stands still."""
    return hf.Engine(hf.Checkpointer(url, clock=clock))


@step
def work(name: str) -> str:
    calls.append(name)
    return name


@step
def fail() -> None:
    calls.append("fail")
    raise ValueError("no")


@workflow
async def failing() -> None:
    await fail()


@workflow
async def napping() -> str:
    await sleep(days=1)
    return await work("after")


@workflow
async def parent_of_a_nap() -> str:
    return await napping()


@workflow
async def asking() -> str:
    answer: str = await ask("colour?", deadline=2 * DAY, default="red")
    return await work(answer)


@workflow
async def parent_of_a_question() -> str:
    return await asking()


async def _nap() -> None:
    await napping()


async def _fail_meanwhile() -> None:
    await work("meanwhile")
    await fail()


async def _both() -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_nap())
        tasks.create_task(_fail_meanwhile())


@workflow
async def half_failing() -> None:
    await hf.durable(_both())


def test_a_run_that_failed_since_it_was_found_is_not_executed_again(
    engine: hf.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Launcher.resume

    async def main() -> None:
        async with engine:
            await engine.submit(failing(), run_id="r")

            async def slow(self: Launcher, *args: Any, **how: Any) -> Any:
                monkeypatch.setattr(Launcher, "resume", real)
                await engine.work(failing, until_idle=True)
                return await real(self, *args, **how)

            monkeypatch.setattr(Launcher, "resume", slow)
            await engine.work(failing, until_idle=True)
            assert await engine.status("r") == hf.Status.FAILED

    asyncio.run(main())
    assert calls == ["fail"]


def test_a_run_that_was_paused_since_it_was_found_stays_paused(
    engine: hf.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Launcher.resume

    async def main() -> None:
        async with engine:
            await engine.submit(failing(), run_id="r")

            async def slow(self: Launcher, *args: Any, **how: Any) -> Any:
                monkeypatch.setattr(Launcher, "resume", real)
                await engine.pause("r")
                return await real(self, *args, **how)

            monkeypatch.setattr(Launcher, "resume", slow)
            await engine.work(failing, until_idle=True)
            assert await engine.status("r") == hf.Status.PAUSED

    asyncio.run(main())
    assert calls == []


def test_a_failed_run_is_not_continued_for_a_child_run_that_slept(
    engine: hf.Engine, clock: FakeClock
) -> None:
    async def main() -> None:
        async with engine:
            await engine.submit(half_failing(), run_id="r")
            await engine.work(half_failing, until_idle=True)
            assert await engine.status("r") == hf.Status.FAILED
            clock.advance(DAY + 1)
            for _ in range(3):
                await engine.work(half_failing, until_idle=True)

    asyncio.run(main())
    assert calls == ["meanwhile", "fail"]


@pytest.mark.parametrize("flow", [napping, parent_of_a_nap, asking, parent_of_a_question])
def test_a_run_that_waits_can_be_paused(
    engine: hf.Engine, clock: FakeClock, flow: Workflow[[], str]
) -> None:
    async def main() -> None:
        async with engine:
            await engine.submit(flow(), run_id="r")
            await engine.work(flow, until_idle=True)
            await engine.pause("r")
            clock.advance(3 * DAY)
            await engine.work(flow, until_idle=True)
            assert await engine.status("r") == hf.Status.PAUSED
            assert calls == []
            await engine.resume("r")
            assert len(calls) == 1

    asyncio.run(main())


@pytest.mark.parametrize("flow", [asking, parent_of_a_question])
def test_an_answered_run_can_be_paused_before_a_worker_takes_it(
    engine: hf.Engine, clock: FakeClock, flow: Workflow[[], str]
) -> None:
    async def main() -> None:
        async with engine:
            await engine.submit(flow(), run_id="r")
            await engine.work(flow, until_idle=True)
            (question,) = [q async for q in engine.questions()]
            await engine.answer(question.run_id, "blue")
            await engine.pause("r")
            await engine.work(flow, until_idle=True)
            assert calls == []
            assert await engine.status("r") == hf.Status.PAUSED
            await engine.resume("r")
            assert calls == ["blue"]

    asyncio.run(main())


def test_a_pause_may_give_any_reason(engine: hf.Engine, clock: FakeClock) -> None:
    async def main() -> None:
        async with engine:
            await engine.submit(asking(), run_id="r")
            await engine.work(asking, until_idle=True)
            await engine.pause("r", reason="questions")
            await engine.answer("r", "blue")
            await engine.work(asking, until_idle=True)
            assert calls == []
            assert await engine.status("r") == hf.Status.PAUSED

    asyncio.run(main())


@step
async def pause_this() -> None:
    """Somebody asks for it while the step is executed, and the question comes after it."""
    info = hf.current_step()
    assert info is not None
    await engines[-1].pause(info.run_id)


engines: list[hf.Engine] = []


@workflow
async def asking_as_it_pauses() -> str:
    await pause_this()
    return await asking()


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "at its deadline"])
def test_a_run_that_asked_as_it_was_paused_continues_after_a_resume(
    engine: hf.Engine, clock: FakeClock, answered: bool
) -> None:
    engines.append(engine)

    async def main() -> None:
        async with engine:
            await engine.submit(asking_as_it_pauses(), run_id="r")
            await engine.work(asking_as_it_pauses, until_idle=True)
            with pytest.raises(hf.RunPausedError):
                await engine.resume("r")
            if answered:
                (question,) = [q async for q in engine.questions()]
                await engine.answer(question.run_id, "blue")
            else:
                clock.advance(3 * DAY)
            await engine.work(asking_as_it_pauses, until_idle=True)
            assert calls == ["blue" if answered else "red"]
            assert await engine.status("r") == hf.Status.COMPLETED

    asyncio.run(main())


@workflow
async def two_steps() -> str:
    await work("one")
    return await work("two")


def test_a_fork_of_a_submitted_run_waits_to_be_resumed(engine: hf.Engine) -> None:
    async def main() -> None:
        async with engine:
            await engine.submit(two_steps(), run_id="r")
            await engine.work(two_steps, until_idle=True)
            assert isinstance(engine.checkpointer, hf.Checkpointer)
            await engine.checkpointer.fork("r", run_id="copy")
            assert await engine.work(two_steps, until_idle=True) == 0

    asyncio.run(main())
    assert calls == ["one", "two"]


flaky_fails = [True]


@step
def flaky() -> str:
    calls.append("flaky")
    if flaky_fails:
        raise ValueError(flaky_fails.pop())
    return "well"


@workflow
async def unsteady() -> str:
    return await flaky()


async def _stopped(engine: hf.Engine, how: str) -> tuple[str, Workflow[[], str]]:
    """A run that no worker continues by itself."""
    if how == "failed":
        flaky_fails[:] = [True]
        await engine.submit(unsteady(), run_id="r")
        await engine.work(unsteady, until_idle=True)
        return "r", unsteady
    await engine.submit(two_steps(), run_id="r")
    if how == "paused":
        await engine.pause("r", by="ann")
        return "r", two_steps
    await engine.work(two_steps, until_idle=True)
    assert isinstance(engine.checkpointer, hf.Checkpointer)
    if how == "forked":
        await engine.checkpointer.fork("r", seq=2, run_id="copy", by="ann")
        return "copy", two_steps
    await engine.checkpointer.rollback("r", seq=2, by="ann")
    return "r", two_steps


@pytest.mark.parametrize("how", ["failed", "paused", "forked", "rolled back"])
def test_a_worker_continues_what_somebody_asks_it_to(engine: hf.Engine, how: str) -> None:
    async def main() -> None:
        async with engine:
            run, flow = await _stopped(engine, how)
            before = await engine.status(run)
            assert await engine.work(flow, until_idle=True) == 0
            assert await engine.submit_resume(run, by="ann")
            assert not await engine.submit_resume(run), "once is enough"
            assert await engine.status(run) == before
            waiting = asyncio.create_task(engine.outcome(run))
            assert await engine.work(flow, until_idle=True) == 1
            assert await waiting in ("two", "well")
            with pytest.raises(hf.RunFinishedError):
                await engine.submit_resume(run)
            assert isinstance(engine.checkpointer, hf.Checkpointer)
            told = [moment.note for moment in await engine.checkpointer.timeline(run)]
            assert "resume, by ann" in told

    asyncio.run(main())


def test_an_outcome_is_waited_for_though_a_worker_takes_the_run_as_somebody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, look = tmp_path / "runs.db", is_for_workers

    def look_late(core: Core, run_id: str) -> bool:
        with hf.Engine(path) as worker:
            worker.work_sync(two_steps, until_idle=True)
        return look(core, run_id)

    async def main() -> None:
        async with hf.Engine(path) as engine:
            run, _ = await _stopped(engine, "forked")
            await engine.submit_resume(run)
            monkeypatch.setattr(controls, "is_for_workers", look_late)
            assert await engine.outcome(run) == "two"

    asyncio.run(main())


def test_a_run_that_fails_again_is_not_continued_again(engine: hf.Engine) -> None:
    async def main() -> None:
        async with engine:
            await engine.submit(failing(), run_id="r")
            await engine.work(failing, until_idle=True)
            await engine.submit_resume("r")
            await engine.work(failing, until_idle=True)
            await engine.work(failing, until_idle=True)

    asyncio.run(main())
    assert calls == ["fail", "fail"]


@pytest.mark.parametrize("how", ["failed", "paused", "forked", "rolled back"])
def test_what_was_asked_to_resume_can_be_paused_before_a_worker_takes_it(
    engine: hf.Engine, how: str
) -> None:
    async def main() -> None:
        async with engine:
            run, flow = await _stopped(engine, how)
            before, done = await engine.status(run), list(calls)
            await engine.submit_resume(run)
            await engine.pause(run)
            assert await engine.work(flow, until_idle=True) == 0
            assert (await engine.status(run), calls) == (before, done)
            assert await engine.submit_resume(run), "and asked again"
            assert await engine.work(flow, until_idle=True) == 1

    asyncio.run(main())


def test_what_waits_for_an_answer_or_sleeps_is_not_for_a_worker(engine: hf.Engine) -> None:
    async def main() -> None:
        async with engine:
            for flow in (asking, parent_of_a_question, napping):
                await engine.submit(flow(), run_id=flow.name)
                await engine.work(flow, until_idle=True)
            with pytest.raises(hf.RunPausedError, match="waits for an answer"):
                await engine.submit_resume("asking")
            with pytest.raises(hf.RunPausedError, match="sleeps until"):
                await engine.submit_resume("napping")
            with pytest.raises(hf.RunPausedError, match="sleeps until"):
                await engine.submit_resume("parent_of_a_question")
            (child,) = [q.run_id async for q in engine.questions() if "//" in q.run_id]
            with pytest.raises(hf.RunActiveError, match="part of 'parent_of_a_question'"):
                await engine.submit_resume(child)
            await engine.answer("asking", "blue")
            assert not await engine.submit_resume("asking"), "a worker continues it anyway"
            assert isinstance(engine.checkpointer, hf.Checkpointer)
            await engine.checkpointer.save("by-hand", {"a": 1})
            with pytest.raises(hf.FlowChangedError, match="not started by a flow"):
                await engine.submit_resume("by-hand")

    asyncio.run(main())


def test_a_graph_sleeps_each_time_it_comes_around(engine: hf.Engine, clock: FakeClock) -> None:
    def count(state: dict[str, int]) -> dict[str, int]:
        calls.append(f"{(clock.now() - to_micros(MONDAY)) // 1_000_000}")
        return {"n": state["n"] + 1}

    graph = Graph(dict, name="rounds")
    graph.add_node("count", count).add_sleep("rest", hours=1).add_edge("count", "rest")
    graph.add_conditional_edge("rest", lambda state: "count" if state["n"] < 3 else END)
    app = graph.set_entry("count").compile()

    async def main() -> None:
        async with engine:
            await engine.submit(app({"n": 0}), run_id="r")
            for _ in range(4):
                await engine.work(app, until_idle=True)
                clock.advance(3600)
            assert await engine.status("r") == hf.Status.COMPLETED

    asyncio.run(main())
    assert calls == ["0", "3600", "7200"]


@pytest.mark.parametrize("how", ["answered", "paused"])
def test_a_run_is_continued_whose_child_run_was_answered_or_paused(
    engine: hf.Engine, how: str
) -> None:
    @step
    async def pauses() -> None:
        if how == "paused":
            await engine.pause("r//child")

    @workflow
    async def child() -> int:
        await pauses()
        return 1 if how == "paused" else await ask("How many?", returns=int)

    @workflow
    async def parent() -> int:
        return await child()

    async def main() -> None:
        async with engine:
            await engine.submit(parent(), run_id="r")
            await engine.work(parent, until_idle=True)
            assert await engine.status("r") == hf.Status.PAUSED
            if how == "answered":
                await engine.answer("r//child", 1)
            assert await engine.submit_resume("r") == (how == "paused")
            await engine.work(parent, until_idle=True)
            assert await engine.outcome("r") == 1

    asyncio.run(main())
