"""What the tests of durable coroutines share: steps, and workflows of nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import holdfast as hf
from holdfast.workflow import Step, step, workflow
from tests.workflow.support import Calls

T = TypeVar("T")


class Gates:
    """Steps that end when they are told to."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.events: dict[str, asyncio.Event] = {}
        self.cancelled: list[str] = []

    def open(self, *names: str) -> None:
        for name in names:
            self._event(name).set()

    def _event(self, name: str) -> asyncio.Event:
        return self.events.setdefault(name, asyncio.Event())

    async def pass_through(self, name: str) -> str:
        self.calls(name)
        try:
            await self._event(name).wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        return name.upper()


def counted(calls: Calls) -> Callable[[str], Step[str]]:
    @step
    def work(name: str) -> str:
        calls(name)
        return name.upper()

    return work


def run(engine: hf.Engine, body: Callable[[], Awaitable[Any]], run_id: str = "r") -> Any:
    """Run a workflow that is nothing but this durable coroutine, or resume it."""
    return asyncio.run(run_async(engine, body, run_id))


async def run_async(
    engine: hf.Engine, body: Callable[[], Awaitable[Any]], run_id: str = "r"
) -> Any:
    return await engine.run(flow_of(body)(), run_id=run_id, resume=True)


def flow_of(body: Callable[[], Any]) -> Any:
    @workflow("flow")
    async def flow() -> Any:
        return await hf.durable(body(), name="body")

    return flow


async def of(effect: Awaitable[T]) -> T:
    return await effect
