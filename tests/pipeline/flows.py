"""Small pipelines, and steps that keep track of what ran."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from holdfast.engine.events import Event
from holdfast.pipeline import Pipeline

T = TypeVar("T")


def run(made: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(made)


async def follow(stream: Any) -> list[Event]:
    return [event async for event in stream]


class Calls(Counter[str]):
    """How often each step was called, with what, and which of them are to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: set[str] = set()
        self.given: dict[str, Any] = {}

    def step(self, name: str, /, **settings: Any) -> dict[str, Any]:
        def fn(data: Any) -> Any:
            self[name] += 1
            self.given[name] = data
            if name in self.failing:
                raise RuntimeError(f"{name} is broken")
            return {"by": name, "call": self[name]}

        return {"id": name, "function": fn, **settings}

    def line(self, *names: str, **options: Any) -> Pipeline:
        """One step after another."""
        return Pipeline([self.step(name) for name in names], line(*names), **options)


def line(*names: str) -> dict[str, Any]:
    paths = [path(a, b) for a, b in zip(names, [*names[1:], "end"], strict=True)]
    return {"start_at": names[0], "paths": paths}


def path(source: str, to: Any, condition: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"from": source, "to": to, **({"condition": condition} if condition else {})}


def when(source: str, operator: str, value: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "type": "expression",
        "config": {"source": source, "operator": operator, "value": value, **more},
    }


def one(fn: Callable[[Any], Any], **options: Any) -> Pipeline:
    """A pipeline of one step."""
    return Pipeline([{"id": "only", "function": fn}], line("only"), **options)
