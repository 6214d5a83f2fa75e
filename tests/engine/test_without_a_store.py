"""Without a store any value may flow, as in any Python program."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.pipeline import Pipeline
from holdfast.workflow import ask, for_each, parallel, step, workflow

LOCK = threading.Lock()


@dataclass
class State:
    lock: Any = None
    seen: list[str] = field(default_factory=list)


@step
def make() -> threading.Thread:
    return threading.current_thread()


@step
def give(value: object) -> object:
    return value


async def item(n: int) -> object:
    return LOCK


@workflow
async def flow(lock: object) -> dict[str, Any]:
    thread = await make()
    both = await parallel(give({"in": [lock]}), give((lock, 1)))
    items = await for_each([1], item)
    answer = await ask("Well?", returns=str)
    return {"thread": type(thread).__name__, "both": both, "items": items, "answer": answer}


def visit(state: State) -> State:
    state.seen.append("x")
    return State(LOCK, state.seen)


graph = Graph(State).add_node("a", visit).add_node("b", visit).add_edge("a", "b")
app = graph.add_edge("b", END).set_entry("a").compile()
pipeline = Pipeline(
    [{"id": "a", "function": lambda value: [value]}, {"id": "b", "function": len}],
    {"start_at": "a", "paths": [{"from": "a", "to": "b"}, {"from": "b", "to": "end"}]},
)


def test_values_that_no_store_could_keep_flow_through_workflows_also_after_a_pause() -> None:
    with hf.Engine(False) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(flow(LOCK), run_id="r")
        engine.answer_sync("r", "yes")
        found = engine.run_sync(flow(LOCK), run_id="r", resume=True)
    assert found["both"] == ({"in": [LOCK]}, (LOCK, 1))
    assert found["items"] == [LOCK]
    assert found["answer"] == "yes"


def test_graphs_and_pipelines_too() -> None:
    given = State()
    for final in (hf.Engine(False).run_sync(app(given)), app.run_sync(given)):
        assert final == State(LOCK, ["x", "x"])
        assert given == State(), "a node gets its own copy of what can be copied"
    assert pipeline.run_sync(LOCK).output == 1
    assert hf.Engine(False).run_sync(pipeline(LOCK))["a"] == [LOCK]


@pytest.mark.parametrize(
    "call", [lambda: flow(LOCK), lambda: app(State(LOCK)), lambda: pipeline(LOCK)]
)
def test_with_a_store_they_are_refused_before_anything_runs(call: Any) -> None:
    with hf.Engine("memory://") as engine:
        with pytest.raises(hf.SerializeError, match="lock can't be stored"):
            engine.run_sync(call(), run_id="r")
        with pytest.raises(hf.CheckpointNotFoundError):
            engine.status_sync("r")
