"""A plain step with nobody listening pays for itself alone: counted, not timed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.model import Entry

_MOST_CALLS = 105  # of Python functions for one step, the node's own included


@dataclass(frozen=True)
class Count:
    turn: int = 0


def _line(nodes: int) -> Any:
    async def node(state: Count) -> Count:
        return replace(state, turn=state.turn + 1)

    graph = Graph(Count)
    names = [f"node-{number}" for number in range(nodes)]
    for name, following in zip(names, [*names[1:], END], strict=True):
        graph.add_node(name, node).add_edge(name, following)
    return graph.set_entry(names[0]).compile()


def _calls(nodes: int) -> int:
    """How many calls of Python functions a run takes."""
    app, calls = _line(nodes), 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    async def run() -> None:
        async with hf.Checkpointer("memory://") as store:
            await app.run(Count(), store=store, run_id="warm")
            before = sys.getprofile()
            sys.setprofile(count)
            try:
                await app.run(Count(), store=store, run_id="run")
            finally:
                sys.setprofile(before)

    asyncio.run(run())
    return calls


def test_a_step_makes_a_bounded_number_of_calls() -> None:
    assert (_calls(50) - _calls(30)) / 20 <= _MOST_CALLS


def test_steps_one_after_the_other_need_no_tasks_and_one_append_each() -> None:
    store, app = hf.open_store("memory://"), _line(5)
    appended: list[int] = []
    append = store.append

    def noting(entries: Sequence[Entry], *behind: Any) -> list[bool]:
        appended.append(len(entries))
        return append(entries, *behind)

    async def run() -> None:
        with patch.object(asyncio, "create_task", side_effect=AssertionError("a task was made")):
            assert await app.run(Count(), store=store, run_id="run") == Count(5)

    with pytest.MonkeyPatch.context() as context:
        context.setattr(store, "append", noting)
        asyncio.run(run())
    assert appended == [1] * 7, "the opening, five steps and the end"
    store.close()
