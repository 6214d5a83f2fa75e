"""A run that is interrupted, wherever, comes to the same as one that is not."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.engine.context import current_step
from holdfast.engine.events import CheckpointSaved, Event
from holdfast.graph import END, CompiledGraph, Graph
from tests import forks
from tests.effort import examples
from tests.graph.flows import run

State = dict[str, int]


def add_up(before: State, branches: dict[str, State]) -> State:
    names = {name for state in branches.values() for name in state}
    return {
        name: before.get(name, 0)
        + sum(state.get(name, 0) - before.get(name, 0) for state in branches.values())
        for name in sorted(names)
    }


@st.composite
def shapes(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Pieces in a row: a node, a fork (whose branches are such rows), or a loop over a node."""
    piece = st.one_of(
        st.just(("node", None)),
        st.tuples(st.just("loop"), st.integers(1, 3)),
        st.tuples(st.just("fork"), st.lists(st.integers(1, 3), min_size=2, max_size=3)),
    )
    return draw(st.lists(piece, min_size=1, max_size=4))


def build(shape: list[tuple[str, Any]], ran: Counter[str]) -> CompiledGraph[State]:
    graph: Graph[State] = Graph(dict, merge=add_up)

    def node(name: str) -> str:
        def fn(state: State) -> State:
            ran[current_step().step] += 1
            return {name: state.get(name, 0) + 1}

        graph.add_node(name, fn, inline=True)
        return name

    def link(sources: list[str], target: str) -> None:
        for source in sources:
            graph.add_edge(source, target)

    ends: list[str] = [node("start")]
    for index, (kind, size) in enumerate(shape):
        if kind == "node":
            name = node(f"n{index}")
            link(ends, name)
            ends = [name]
        elif kind == "loop":
            again, after = node(f"loop{index}"), node(f"after{index}")
            link(ends, again)

            def route(state: State, again: str = again, after: str = after, n: int = size) -> str:
                return again if state[again] % (n + 1) else after

            graph.add_conditional_edge(again, route, [again, after])
            ends = [after]
        else:
            tails = []
            (source,) = ends
            for branch, length in enumerate(size):
                before = source
                for step in range(length):
                    name = node(f"f{index}.{branch}.{step}")
                    graph.add_edge(before, name)
                    before = name
                tails.append(before)
            ends = [node(f"join{index}")]
            link(tails, ends[0])
    link(ends, END)
    return graph.set_entry("start").compile()


async def interrupted(app: CompiledGraph[State], every: int, cp: hf.SyncCheckpointer) -> None:
    """Carry the run out, and drop it after so many events, again and again."""
    fresh = True
    while True:
        events = (
            app.stream({}, store=cp, run_id="run") if fresh else app.resume_stream("run", store=cp)
        )
        fresh, seen = False, 0
        async with events:
            event: Event | None = None
            async for event in events:
                seen += isinstance(event, CheckpointSaved)
                if seen == every:
                    break
            else:
                return


@given(shapes(), st.integers(1, 4))
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_interrupted_run_comes_to_the_same_and_runs_no_visit_twice(
    shape: list[tuple[str, Any]], every: int
) -> None:
    once: Counter[str] = Counter()
    expected = run(build(shape, once).run({}))
    ran: Counter[str] = Counter()
    with hf.SyncCheckpointer("memory://") as cp:
        run(interrupted(build(shape, ran), every, cp))
        current = cp.load("run")
        assert current is not None
        assert current.state == expected
        assert cp.verify("run").ok
    assert set(ran) == set(once)
    assert set(once.values()) == {1}
    twice = {step for step, count in ran.items() if count > 1}
    assert all(">" in step for step in twice), "only branches that were under way when it stopped"


# --- killed

WORKER = """
import asyncio, os, signal, sys
from holdfast.graph import END, Graph

url, journal, kill_at = sys.argv[1:]

def node(name):
    def fn(state):
        with open(journal, "a") as file:
            file.write(name + "\\n")
        if name == kill_at and os.environ.get("KILL"):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"log": [*state["log"], name]}
    return fn

def merge(before, branches):
    start = len(before["log"])
    return {"log": before["log"] + [x for n in sorted(branches) for x in branches[n]["log"][start:]]}

graph = Graph(dict, merge=merge)
for name in "abcdef":
    graph.add_node(name, node(name), inline=True)
for source, target in ("ab", "ac", "ad", "be", "ce", "de"):
    graph.add_edge(source, target)
graph.add_conditional_edge("e", lambda s: "f" if len(s["log"]) < 11 else END, ["f", END])
graph.add_edge("f", "a")
app = graph.set_entry("a").compile()
if os.environ.get("KILL"):
    asyncio.run(app.run({"log": []}, store=url, run_id="run"))
else:
    print("".join(asyncio.run(app.resume("run", store=url))["log"]))
"""


@pytest.mark.parametrize("kill_at", list("abcdef"))
def test_a_killed_process_repeats_only_what_it_was_killed_in(
    kill_at: str, kept_url: str, tmp_path: Path
) -> None:
    journal = tmp_path / "ran"
    command = ("-c", WORKER, kept_url, str(journal), kill_at)
    first = forks.run(*command, env={**os.environ, "KILL": "1"}, check=False)
    assert first.returncode == -signal.SIGKILL
    second = forks.run(*command, capture_output=True, check=True)
    assert second.stdout.strip() == "abcdefabcde"
    ran = Counter(journal.read_text().split())
    usual = Counter("abcdefabcde")
    extra = ran - usual
    assert usual - ran == Counter()
    assert extra[kill_at] == 1
    side_by_side = set("bcd") if kill_at in "bcd" else set()
    assert set(extra) <= {kill_at} | side_by_side
