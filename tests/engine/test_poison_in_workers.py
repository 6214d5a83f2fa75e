"""A run that kills whoever executes it does not kill workers for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.events import StepStarted
from holdfast.workflow import step, workflow
from tests.holders import dying

DEATHS = 21


@step
def deadly() -> None:
    """Nothing here kills; the tests' processes die in it all the same."""


@workflow
async def inner() -> None:
    await deadly()


@workflow
async def outer() -> None:
    await inner()


@pytest.mark.parametrize("flow", [inner, outer], ids=["run", "child run"])
def test_a_step_in_which_its_process_always_died_is_given_up(flow: object, tmp_path: Path) -> None:
    async def main() -> None:
        async with hf.Engine(tmp_path / "runs.db", flows=[inner, outer]) as engine:
            assert flow in (inner, outer)
            call = inner() if flow is inner else outer()
            await engine.submit(call, run_id="poison")
            core = engine.checkpointer.core
            for _ in range(DEATHS):
                with dying(core):
                    async with engine.resume_stream("poison") as events:
                        async for event in events:
                            if isinstance(event, StepStarted) and event.name == "deadly":
                                break
            assert await engine.work(until_idle=True) == 1
            assert await engine.status("poison") == "failed"
            with pytest.raises(hf.StepFailedError, match=f"its process died {DEATHS} times"):
                await engine.get("poison")
            assert await engine.resume("poison") is None, "whoever resumes it tries once more"

    asyncio.run(main())
