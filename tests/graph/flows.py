"""Small graphs, and a state that keeps track of what ran."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from holdfast.engine.events import Event
from holdfast.graph import END, Graph

T = TypeVar("T")


@dataclass
class State:
    n: int = 0
    log: list[str] = field(default_factory=list)


class Calls(Counter[str]):
    """How often each node was called, and which of them to fail or to hold up."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: set[str] = set()

    def node(self, name: str) -> Callable[[State], State]:
        def fn(state: State) -> State:
            self[name] += 1
            if name in self.failing:
                raise RuntimeError(f"{name} is broken")
            state.n += 1
            state.log.append(name)
            return state

        return fn

    def line(self, names: str, **options: Any) -> Graph[State]:
        """A graph of one node after another."""
        graph = Graph(State, **options)
        for name in names:
            graph.add_node(name, self.node(name))
        for source, target in zip(names, [*names[1:], END], strict=True):
            graph.add_edge(source, target)
        return graph.set_entry(names[0])


def join(before: State, branches: dict[str, State]) -> State:
    """What each branch added to the log, in the order of the branches' names."""
    start = len(before.log)
    for name in sorted(branches):
        before.log += branches[name].log[start:]
    before.n = len(before.log)
    return before


def until(seconds: float, made: Coroutine[Any, Any, T]) -> T:
    """Run it, and fail rather than hang."""

    async def main() -> T:
        async with asyncio.timeout(seconds):
            return await made

    return asyncio.run(main())


def run(made: Coroutine[Any, Any, T]) -> T:
    return until(60, made)


def told(events: list[Event], *kinds: type[Event]) -> list[str]:
    """The events as words: what happened, to which node."""
    return [
        f"{type(event).__name__} {getattr(event, 'name', '')}".strip()
        for event in events
        if not kinds or isinstance(event, kinds)
    ]
