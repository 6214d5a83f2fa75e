"""Runs that are to stop while they only wait: they stop at once, in a worker and elsewhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine import child_runs, launch
from holdfast.engine.run import pausing
from holdfast.engine.run.execute import Steps
from holdfast.engine.run.resting import Resting
from holdfast.graph import END, Graph
from holdfast.operations.children import children
from holdfast.workflow import Retry, Workflow, sleep, step, workflow
from tests.waiting import PATIENCE


@workflow
async def napping() -> str:
    await sleep(days=1)
    return "woke"


@step(retry=Retry(2, backoff=3600, longest=3600, jitter=0))
def flaky() -> None:
    raise ValueError("not yet")


@workflow
async def retrying() -> None:
    await flaky()


@workflow
async def parent_of_a_nap() -> str:
    return await napping()


@step
def fail() -> None:
    raise ValueError("no")


async def _nap() -> None:
    await napping()


async def _fail() -> None:
    await fail()


async def _both() -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_nap())
        tasks.create_task(_fail())


@workflow
async def failing_beside_a_nap() -> None:
    await hf.durable(_both())


@pytest.mark.parametrize("flow", [napping, retrying, parent_of_a_nap])
def test_a_pause_does_not_wait_until_a_sleep_is_over(
    url: str, flow: Workflow[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = asyncio.Event()
    real = Resting._wait

    async def telling(self: Resting, *args: Any) -> bool:
        asyncio.get_running_loop().call_soon(waits.set)
        return await real(self, *args)

    monkeypatch.setattr(Resting, "_wait", telling)

    async def main() -> None:
        async with hf.Engine(url) as engine, asyncio.timeout(PATIENCE):
            run = await engine.start(flow(), run_id="r")
            await waits.wait()
            await engine.pause("r")
            with pytest.raises(hf.RunPausedError):
                await run
            assert await engine.status("r") == hf.Status.PAUSED

    asyncio.run(main())


@pytest.mark.parametrize("action", ["pause", "cancel"])
@pytest.mark.parametrize("flow", [napping, parent_of_a_nap])
def test_what_is_asked_of_a_run_while_a_worker_is_leaving_it_is_done(
    url: str, flow: Workflow[[], Any], action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pausing._record

    async def main() -> None:
        async with hf.Engine(url) as engine:

            async def late(run: Any, facts: dict[str, Any]) -> None:
                if facts.get("reason") == "timer":
                    await getattr(engine, action)("r")
                    await asyncio.sleep(0)
                await real(run, facts)

            monkeypatch.setattr(pausing, "_record", late)
            await engine.submit(flow(), run_id="r")
            await engine.work(flow, until_idle=True)
            ended = {"pause": hf.Status.PAUSED, "cancel": hf.Status.CANCELLED}[action]
            assert await engine.status("r") == ended

    asyncio.run(main())


@pytest.mark.parametrize("in_worker", [False, True])
def test_a_failure_does_not_wait_for_a_sleep_beside_it(url: str, in_worker: bool) -> None:
    def fail_later(state: dict[str, Any]) -> None:
        raise ValueError("no")

    graph = Graph(dict, name="half-failing")
    graph.add_node("begin", dict).add_sleep("rest", days=1).add_node("fail", fail_later)
    graph.add_node("join", dict, merge=lambda before, _: before)
    graph.add_edge("begin", "rest").add_edge("begin", "fail").set_entry("begin")
    graph.add_edge("rest", "join").add_edge("fail", "join").add_edge("join", END)
    app = graph.compile()

    async def main() -> None:
        async with hf.Engine(url) as engine, asyncio.timeout(PATIENCE):
            await engine.submit(app({}), run_id="r")
            if in_worker:
                await engine.work(app, until_idle=True)
            else:
                with pytest.raises(hf.StepFailedError):
                    await engine.resume("r", flow=app)
            assert await engine.status("r") == hf.Status.FAILED

    asyncio.run(main())


def test_a_child_run_that_is_cancelled_while_it_is_opened_does_not_begin(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = asyncio.Event()
    real_start, real_abandon = launch.start, Steps.abandon

    async def start_late(*args: Any) -> Any:
        ready = await real_start(*args)
        await given_up.wait()
        return ready

    def abandon(self: Steps, key: str) -> bool:
        given_up.set()
        return real_abandon(self, key)

    monkeypatch.setattr(child_runs, "start", start_late)
    monkeypatch.setattr(Steps, "abandon", abandon)

    async def main() -> None:
        async with hf.Engine(url) as engine, asyncio.timeout(PATIENCE):
            with pytest.raises(ExceptionGroup):
                await engine.run(failing_beside_a_nap(), run_id="r")
            (child,) = children(engine.checkpointer.core, "r")
            assert child.status == hf.Status.CANCELLED

    asyncio.run(main())
