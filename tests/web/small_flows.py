"""Flows whose runs ask, fail and are changed in tests of the web UI."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

import holdfast as hf
from holdfast.workflow import Retry, approve, ask, sleep, step, workflow

broken: list[bool] = []
"""Something in it: the step `shaky` fails."""

DATABASE: Final = "postgresql://ann:hunter2@db/runs"
"""What should be shown without its password."""

gate = threading.Event()
begun = threading.Event()


@step
def fetch(page: str) -> dict[str, Any]:
    return {"page": page, "rows": 12, "api_key": "k-123"}


@step
def shaky() -> str:
    if broken:
        raise ConnectionError("the site is down")
    return "up"


@step
def held() -> str:
    """Waits in its thread, as a slow step does."""
    begun.set()
    gate.wait(60)
    return "let go"


@step
async def waits() -> str:
    """Waits for the gate as a coroutine does: it can be left at any moment."""
    begun.set()
    while not gate.is_set():
        await asyncio.sleep(0.01)
    return "let go"


@dataclass
class Address:
    city: str
    zip: int | None = None


@dataclass
class Shipping:
    carrier: Literal["DHL", "UPS"]
    when: date
    price: Decimal
    to: Address
    insured: bool
    notes: list[str] = field(default_factory=list)


@workflow
async def digest(pages: list[str]) -> str:
    for page in pages:
        await fetch(page)
    publish = await ask(f"Publish {len(pages)} pages?", returns=bool)
    return "published" if publish else "kept"


@workflow
async def refund(amount: int) -> str:
    said = await approve(
        f"Refund {amount}?", assignees=["ann", "bob"], show={"amount": amount, "password": "x"}
    )
    return f"{said.approved} {said.comment}"


@workflow
async def ship() -> str:
    answer = await ask("How?", returns=Shipping)
    return f"{answer.carrier} to {answer.to.city} on {answer.when} for {answer.price}"


@workflow
async def offer() -> str:
    return "sold" if await ask("Take it?", returns=bool, deadline=0.001, default=False) else "kept"


@workflow
async def anything() -> str:
    return str(await ask("What?"))


@workflow
async def site() -> str:
    await fetch("a")
    return await shaky()


@step(retry=Retry(2, backoff=0))
def connects() -> None:
    raise ConnectionError(f"no answer from {DATABASE}")


@workflow
async def connecting() -> None:
    await connects()


@workflow
async def confirming() -> None:
    await ask(f"Copy {DATABASE}?", returns=bool)


@workflow
async def sleepy() -> None:
    await sleep(3600)


@workflow
async def two() -> list[Any]:
    first = await fetch("a")
    return [first, await fetch("b")]


@workflow
async def slow() -> str:
    return await held()


@workflow
async def waiting() -> str:
    return await waits()


ALL = (digest, refund, ship, offer, anything, site, two, slow)


def execute(store: Path, call: Callable[[], Any], run_id: str) -> None:
    """Execute a run until it stops, however it does."""
    with hf.Engine(store) as engine, suppress(hf.RunPausedError, hf.StepFailedError):
        engine.run_sync(call(), run_id=run_id)
