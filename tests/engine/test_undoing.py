"""What is undone, in which order, and that nothing gets in between."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents.workflow_results import result_of
from holdfast.events import RollbackStarted
from holdfast.workflow import Workflow, ask, for_each, parallel, step, workflow


def _undoable(name: str, undone: list[str]) -> Any:
    return step(name).python(lambda: name).inline().with_rollback(undone.append)


def test_steps_that_finish_together_are_undone_backwards() -> None:
    undone: list[str] = []

    def fail() -> None:
        raise ValueError

    @workflow
    def flow() -> Generator[Any, Any, None]:
        yield parallel(*(_undoable(name, undone) for name in "abc"))
        yield step("fail").python(fail)

    engine = hf.Engine(False)
    with pytest.raises(hf.StepFailedError):
        engine.run_sync(flow(), run_id="r")
    steps = result_of(engine.checkpointer.core, "r").steps
    finished = [result.name for result in steps if result.success]
    assert undone == finished[::-1]


def test_items_begun_before_one_failed_are_undone_after_a_crash(kept_url: str) -> None:
    """The first fails last: a replay hears of it before it comes to the others."""
    undone: list[str] = []
    done: list[int] = []

    async def fail() -> None:
        async with asyncio.timeout(60):
            while 3 not in done:
                await asyncio.sleep(0)
        raise ValueError

    def item(n: int) -> Generator[Any, Any, None]:
        if n == 0:
            yield step("fail").python(fail)
        yield _undoable(f"make{n}", undone)
        done.append(n)

    @workflow
    def flow() -> Generator[Any, Any, None]:
        yield for_each(range(4), item, concurrency=2)

    async def crash() -> None:
        async with hf.Engine(kept_url) as engine:
            async for event in engine.stream(flow(), run_id="run"):
                if isinstance(event, RollbackStarted):
                    break  # and never comes back

    async def resume() -> None:
        async with hf.Engine(kept_url) as engine:
            await engine.run(flow(), run_id="run", resume=True)

    asyncio.run(crash())
    with pytest.raises(hf.StepFailedError):
        asyncio.run(resume())
    assert undone == ["make3", "make2", "make1"]


def _waiting_flow(form: str, undone: list[str], last: Any) -> Workflow[[], Any]:
    """Two steps that can be undone, and one more; the code between them takes its time."""

    @workflow("waiting")
    def plain() -> None:
        for name in "ab":
            _undoable(name, undone).result()
        last().result()

    @workflow("waiting")
    async def awaiting() -> None:
        for name in "ab":
            await asyncio.to_thread(str)
            await _undoable(name, undone)
        await last()

    return plain if form == "plain" else awaiting


@pytest.mark.parametrize("form", ["plain", "awaiting"])
def test_a_crash_while_undoing_undoes_all_of_a_flow_that_waits_between_its_steps(
    form: str, kept_url: str
) -> None:
    undone: list[str] = []

    @step
    def fail() -> None:
        raise ValueError

    flow = _waiting_flow(form, undone, fail)

    async def crash() -> None:
        async with hf.Engine(kept_url) as engine:
            async for event in engine.stream(flow(), run_id="run"):
                if isinstance(event, RollbackStarted):
                    break  # and never comes back

    asyncio.run(crash())
    with hf.Engine(kept_url) as engine, pytest.raises(hf.StepFailedError):
        engine.run_sync(flow(), run_id="run", resume=True)
    assert undone == ["b", "a"]


@pytest.mark.parametrize("form", ["plain", "awaiting"])
def test_a_paused_run_that_waits_between_its_steps_is_undone_when_it_is_cancelled(
    form: str, kept_url: str
) -> None:
    undone: list[str] = []
    flow = _waiting_flow(form, undone, lambda: ask("Go on?"))
    with hf.Engine(kept_url) as engine, pytest.raises(hf.RunPausedError):
        engine.run_sync(flow(), run_id="run")
    with hf.Engine(kept_url) as engine:
        engine.cancel_sync("run")
        with pytest.raises(hf.RunCancelledError):
            engine.run_sync(flow(), run_id="run", resume=True)
    assert undone == ["b", "a"]
