"""What asyncio does to the current task concerns the workflow's own code only."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.workflow import Workflow, for_each, step, workflow


@step
async def forever() -> None:
    await asyncio.Event().wait()


@step
async def turn(name: str) -> str:
    for _ in range(20):
        await asyncio.sleep(0)
    return name


def outcome(flow: Workflow[[], Any]) -> Any:
    """The result or error of a flow, which leaves the task that runs it alone."""

    async def run() -> Any:
        async with hf.Engine("memory://") as engine:
            try:
                found = await engine.run(flow(), run_id="run")
            except Exception as error:  # noqa: BLE001 - whatever it fails with
                found = error
            assert isinstance(engine.checkpointer, hf.Checkpointer)
            info = await engine.checkpointer.run("run")
        assert info is not None
        assert info.status == ("failed" if isinstance(found, Exception) else "completed")
        return found

    return asyncio.run(run())


def test_a_task_group_of_steps_fails_the_run_with_what_to_do_instead() -> None:
    async def one(name: str) -> str:
        return await turn(name)

    @workflow
    async def flow() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(one("a"))
            group.create_task(one("b"))

    error = outcome(flow)
    assert isinstance(error, ExceptionGroup)
    assert all("hf.durable" in str(one) for one in error.exceptions)


def test_a_task_group_whose_task_fails_is_handled_by_the_workflow() -> None:
    async def bad() -> None:
        raise ValueError("bad")

    @workflow
    async def flow() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(bad())
                await asyncio.Event().wait()
        except* ValueError:
            pass
        return await turn("after")

    assert outcome(flow) == "after"


def test_a_timeout_interrupts_what_is_not_recorded() -> None:
    @workflow
    async def flow() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return await turn("late")
        return "in time"

    assert outcome(flow) == "late"


def test_a_timeout_around_a_step_fails_the_run_with_what_to_do_instead() -> None:
    @workflow
    async def flow() -> None:
        async with asyncio.timeout(0):
            await turn("a")

    error = outcome(flow)
    assert isinstance(error, RuntimeError)
    assert "give the step a .timeout(...)" in str(error)


def test_a_timeout_that_is_not_over_does_nothing() -> None:
    @workflow
    async def flow() -> list[str]:
        async with asyncio.timeout(60):
            return [await turn("a"), await turn("b")]

    assert outcome(flow) == ["a", "b"]


def test_each_item_has_timeouts_of_its_own() -> None:
    async def item(seconds: float) -> str:
        try:
            async with asyncio.timeout(seconds):
                await asyncio.sleep(0.05)
        except TimeoutError:
            return await turn("late")
        return await turn("in time")

    @workflow
    async def flow() -> list[str]:
        return await for_each([0.001, 60], item)

    assert outcome(flow) == ["late", "in time"]


def test_a_run_can_still_be_cancelled_by_whoever_runs_it() -> None:
    @workflow
    async def flow() -> None:
        async with asyncio.timeout(60):
            await forever()

    async def run() -> None:
        async with hf.Engine("memory://") as engine:
            running = asyncio.create_task(engine.run(flow(), run_id="run"))
            for _ in range(50):
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(run())


def test_a_failure_with_several_errors_names_each_once(tmp_path: Path) -> None:
    @workflow
    async def flow() -> None:
        raise ExceptionGroup("both", [ValueError("a"), KeyError("b"), ValueError("a")])

    heard: list[str] = []
    with hf.Engine(f"sqlite:///{tmp_path}/runs.db") as engine:
        engine.submit_sync(flow(), run_id="run")
        engine.work_sync(flow, until_idle=True, listener=lambda event: heard.append(event.detail))
    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/runs.db") as cp:
        recorded = cp.timeline("run")[-1].note
    assert heard[-1] == recorded
    assert recorded == "ExceptionGroup: both (3 sub-exceptions): ValueError: a; KeyError: 'b'"
