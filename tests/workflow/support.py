"""What the tests of workflows share: steps that keep count, and ways to stop in the middle."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, TypeVar
from unittest.mock import patch

import holdfast as hf
from holdfast.documents import workflow_results
from holdfast.engine.events import StepEvent
from holdfast.events import Event
from tests.waiting import ENOUGH

E = TypeVar("E", bound=Event)
X = TypeVar("X", bound=Exception)

Flow = Generator[Any, Any, Any]


class Calls:
    """Counts what was called, by name, in order."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def __call__(self, name: str, value: Any = None) -> Any:
        self.order.append(name)
        return name if value is None else value

    def count(self, name: str) -> int:
        return Counter(self.order)[name]

    def take(self) -> list[str]:
        """What was called since this was asked last."""
        taken, self.order = self.order, []
        return taken


async def collect(stream: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in stream]


async def collect_failure(
    stream: AsyncIterator[Event],
    kind: type[X],
    look: Callable[[Event], Awaitable[None]] | None = None,
) -> tuple[list[Event], X]:
    """The events up to an error, and the error; `look` is awaited for each event."""
    events: list[Event] = []
    try:
        async for event in stream:
            events.append(event)
            if look is not None:
                await look(event)
    except kind as error:
        return events, error
    raise AssertionError(f"the run ended without a {kind.__name__}")


async def stop_at(
    stream: AsyncIterator[Event], kind: type[E], step: str | None = None, nth: int = 1
) -> E:
    """Follow a run to the nth such event and leave it there, as a process that dies does."""
    async for event in stream:
        if isinstance(event, kind) and (step is None or getattr(event, "step", None) == step):
            nth -= 1
            if not nth:
                return event
    raise AssertionError(f"the run ended without {kind.__name__} of {step}")


def of(events: list[Event], *kinds: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kinds)]


def steps(events: list[Event], kind: type[StepEvent]) -> list[str]:
    return [event.step for event in events if isinstance(event, kind)]


def recorded(engine: hf.Engine, run_id: str) -> list[str]:
    """The keys of the steps of a run that have an outcome, in order."""
    with patch.object(workflow_results, "name_of", lambda entry: str(entry.step)):
        found = workflow_results.result_of(engine.checkpointer.core, run_id).steps
    return [one.name for one in found]


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until something is so."""
    async with asyncio.timeout(ENOUGH):
        while not condition():
            await asyncio.sleep(0.001)


def other_tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}
