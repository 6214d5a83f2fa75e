"""A run that calls `sys.exit` fails; the worker that executes it, and its other runs, do not."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.workflow import Workflow, parallel, step, workflow


@step
def leaves() -> None:
    sys.exit(7)


@step
async def leaves_async() -> None:
    sys.exit(7)


@workflow
async def in_a_thread() -> None:
    await leaves()


@workflow
async def on_the_loop() -> None:
    await leaves_async()


@workflow
async def in_parallel() -> None:
    await parallel(leaves_async(), leaves())


@workflow
async def in_the_flow() -> None:
    sys.exit(7)


@workflow
def in_a_plain_flow() -> None:
    sys.exit(7)


@workflow
def in_a_generator() -> Generator[Any, Any, None]:
    yield leaves()
    sys.exit(7)


@workflow
async def in_a_child() -> None:
    await in_the_flow()


@workflow
async def fine() -> str:
    return "fine"


FLOWS = [in_a_thread, on_the_loop, in_parallel, in_the_flow, in_a_plain_flow, in_a_generator, in_a_child]  # fmt: skip


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: str(flow.name))
def test_an_exit_fails_its_run_alone(flow: Workflow[..., None], tmp_path: Path) -> None:
    async def main() -> None:
        async with hf.Engine(tmp_path / "runs.db", flows=[*FLOWS, fine]) as engine:
            await engine.submit(flow(), run_id="leaves")
            await engine.submit(fine(), run_id="fine")
            assert await engine.work(until_idle=True) == 2
            assert await engine.status("leaves") == "failed"
            assert await engine.status("fine") == "completed"
            with pytest.raises(hf.RunError, match="SystemExit"):
                await engine.get("leaves")

    asyncio.run(main())
