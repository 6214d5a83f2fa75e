"""Flows that these tests start with `holdfast run`; copied into each test's directory as jobs.py."""

from __future__ import annotations

import time
from pathlib import Path

from holdfast.workflow import approve, step, workflow


@step
def measure(place: str) -> list[float]:
    return [1.5, 3.5, 2.5]


@step
def wait_for(path: str) -> str:
    until = time.monotonic() + 120
    while not Path(path).exists():
        if time.monotonic() > until:
            raise TimeoutError(path)
        time.sleep(0.02)
    return path


@step
def draw(levels: list[float]) -> str:
    return f"high water {max(levels)} m"


@workflow
async def tides(place: str) -> str:
    levels = await measure(place)
    await wait_for("go")
    return await draw(levels)


@workflow
async def refund(amount: int) -> str:
    said = await approve(f"Refund {amount} EUR?", name="approve_refund", show={"amount": amount})
    return f"refunded {amount}" if said.approved else "kept"
