"""Flows of every kind, as runs of them were left in the golden stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest import mock

import holdfast as hf
from holdfast.engine.holding import process
from holdfast.graph import END, Graph
from holdfast.workflow import ask, step, workflow

executed: list[str] = []
"""The steps that were executed in this process."""


@step
def double(n: int) -> int:
    executed.append(f"double {n}")
    return 2 * n


@workflow
async def doubling(n: int) -> dict[str, int]:
    once = await double(n)
    twice = await double(once)
    return {"once": once, "twice": twice}


@workflow
async def approved(n: int) -> list[object]:
    once = await double(n)
    yes = await ask("Go on?", choices=["yes", "no"])
    twice = await double(once)
    return [yes, twice]


@dataclass
class Count:
    n: int = 0
    seen: list[int] = field(default_factory=list)


def add(state: Count) -> Count:
    executed.append(f"add {state.n}")
    return Count(state.n + 1, [*state.seen, state.n])


def enough(state: Count) -> Literal["add", "__end__"]:
    return END if state.n >= 3 else "add"


counting = (
    Graph(Count, name="counting")
    .add_node("add", add)
    .add_conditional_edge("add", enough)
    .set_entry("add")
    .compile()
)


def live(store: Any, **options: Any) -> None:
    """Run a workflow and a graph to their ends, and leave another workflow with a question."""
    with _nowhere(), hf.Engine(store, **options) as engine:
        engine.run_sync(doubling(4), run_id="doubling")
        engine.run_sync(counting(Count()), run_id="counting")
        try:
            engine.run_sync(approved(4), run_id="approved", labels={"team": "gold"})
        except hf.RunPausedError:
            return
        raise AssertionError("it asks first")


@contextmanager
def _nowhere() -> Iterator[None]:
    """The files say nothing of the machine on which they were made."""
    anyone = process.Identity("golden", "golden", 1, "")
    with mock.patch.object(process, "_process", return_value=anyone):
        yield
