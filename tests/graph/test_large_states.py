"""Graphs with large states: most of it is unchanged from node to node, and nothing is shared."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import pydantic
import pytest

import holdfast as hf
from holdfast.codec import values
from holdfast.graph import END, Graph, merge_changes
from holdfast.stores import MemoryStore


@dataclass
class Chat:
    rows: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""
    n: int = 0


class TypedChat(TypedDict):
    rows: list[dict[str, Any]]
    text: str
    n: int


class ModelChat(pydantic.BaseModel):
    rows: list[dict[str, Any]] = []
    text: str = ""
    n: int = 0


def fields() -> dict[str, Any]:
    rows = [{"n": n, "words": [f"word {n}"], "text": "x" * 40} for n in range(500)]
    return {"rows": rows, "text": "y" * 9000, "n": 0}


KINDS: dict[Any, Callable[..., Any]] = {
    dict: dict,
    Chat: Chat,
    TypedChat: dict,
    ModelChat: ModelChat,
}


def rows_of(state: Any) -> Any:
    return state["rows"] if isinstance(state, dict) else state.rows


def line(kind: Any, nodes: list[Callable[[Any], Any]]) -> Any:
    graph = Graph(kind)
    names = [f"node-{number}" for number in range(len(nodes))]
    for name, node in zip(names, nodes, strict=True):
        graph.add_node(name, node)
    for name, following in zip(names, [*names[1:], END], strict=True):
        graph.add_edge(name, following)
    return graph.set_entry(names[0]).compile()


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_node_changes_in_place_is_recorded_and_what_it_does_later_is_not(kind: Any) -> None:
    kept: list[Any] = []

    def look(state: Any) -> Any:
        for earlier in kept:  # while others hold theirs, and go on changing them
            rows_of(earlier)[0]["words"].append("too late")
            rows_of(earlier).append({"too": "late"})
        kept.append(state)
        return {"n": len(kept)}

    def change(state: Any) -> Any:
        rows_of(state)[7]["words"][0] = "changed in place"
        look(state)

    store = MemoryStore()
    nodes: list[Callable[[Any], Any]] = [look] * 5 + [change] + [look] * 5
    result = line(kind, nodes).run_sync(KINDS[kind](**fields()), store=store, run_id="r")
    before, after = fields()["rows"], fields()["rows"]
    after[7]["words"][0] = "changed in place"
    with hf.SyncCheckpointer(store) as cp:
        for info in cp.list_checkpoints("r"):
            loaded = cp.load("r", seq=info.seq)
            assert loaded is not None
            assert loaded.state["rows"] == (before if (info.step_index or 0) < 5 else after)
    assert rows_of(result) == after
    assert type(result) is (dict if kind is TypedChat else kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_caller_does_to_its_inputs_afterwards_changes_nothing(kind: Any) -> None:
    flat = {**fields(), "rows": [{"n": n, "text": "x" * 40} for n in range(500)]}
    inputs = KINDS[kind](**copy.deepcopy(flat))
    seen: list[Any] = []

    def node(state: Any) -> Any:
        rows_of(inputs)[3]["text"] = "changed by the caller"
        rows_of(inputs).append({"too": "late"})
        seen.append(copy.deepcopy(rows_of(state)))
        rows_of(state)[4]["text"] = f"changed by node {len(seen)}"
        return {"n": len(seen)}

    store = MemoryStore()
    line(kind, [node] * 4).run_sync(inputs, store=store, run_id="r")
    for number, rows in enumerate(seen):
        expected = copy.deepcopy(flat["rows"])
        expected[4]["text"] = f"changed by node {number}" if number else expected[4]["text"]
        assert rows == expected
    with hf.SyncCheckpointer(store) as cp:
        loaded = cp.load("r")
        assert loaded is not None
        assert loaded.state["rows"][3:5] == [
            flat["rows"][3],
            {"n": 4, "text": "changed by node 4"},
        ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_sees_the_values_that_a_live_one_saw(kind: Any) -> None:
    seen: dict[str, list[bytes]] = {"live": [], "resumed": []}
    failing = [True]

    def node(state: Any) -> Any:
        seen["live" if failing[0] else "resumed"].append(values.encode(state))
        if len(seen["live"]) == 6 and failing[0]:
            raise OSError("the disk is gone")
        rows_of(state)[len(seen["live"])]["words"].append((1, "a tuple"))
        return {"n": len(seen["live"])}

    store, app = MemoryStore(), line(kind, [node] * 8)
    with pytest.raises(hf.StepFailedError):
        app.run_sync(KINDS[kind](**fields()), store=store, run_id="r")
    failing[0] = False
    app.resume_sync("r", store=store)
    assert seen["resumed"][0] == seen["live"][-1]


def test_a_failed_attempt_leaves_nothing_behind() -> None:
    attempts: list[int] = []

    def flaky(state: Chat) -> dict[str, Any]:
        attempts.append(len(state.rows))
        state.rows.clear()
        if len(attempts) % 2:
            raise OSError("once more")
        return {"n": state.n + 1, "rows": fields()["rows"]}

    graph = Graph(Chat)
    for number in range(5):
        graph.add_node(f"n{number}", flaky, retry=2)
        graph.add_edge(f"n{number}", f"n{number + 1}" if number < 4 else END)
    app = graph.set_entry("n0").compile()
    app.run_sync(Chat(**fields()), store=MemoryStore(), run_id="r")
    assert attempts == [500] * 10


def test_branches_have_states_of_their_own() -> None:
    def plan(state: Chat) -> Chat:
        return replace(state, n=state.n + 1)

    def left(state: Chat) -> None:
        state.rows[0]["text"] = "left"

    def right(state: Chat) -> None:
        assert state.rows[0]["text"] == "x" * 40
        state.text = "right"

    def after(state: Chat) -> None:
        assert (state.rows[0]["text"], state.text) == ("left", "right")

    graph = Graph(Chat)
    for name, node in {"a": plan, "b": plan, "c": plan, "d": plan}.items():
        graph.add_node(name, node)
    graph.add_node("left", left).add_node("right", right).add_node("after", after)
    graph.add_edge("a", "b").add_edge("b", "c").add_edge("c", "d")
    graph.add_edge("d", "left").add_edge("d", "right")
    graph.add_edge("left", "after").add_edge("right", "after").add_edge("after", END)
    app = graph.set_entry("a").compile(merge=merge_changes)
    result = app.run_sync(Chat(**fields()), store=MemoryStore(), run_id="r")
    assert (result.n, result.rows[0]["text"], result.text) == (4, "left", "right")


def test_the_result_is_the_callers_own() -> None:
    """Also where it was made for a node that did not come: nobody else has it."""
    kept: list[Chat] = []

    def node(state: Chat) -> Chat:
        kept.append(state)
        return replace(state, n=state.n + 1)

    app, store = line(Chat, [node, node]), MemoryStore()
    result = app.run_sync(Chat(**fields()), store=store, run_id="r")
    again = app.run_sync(Chat(**fields()), store=store, run_id="r", resume=True)
    assert result == again == Chat(**{**fields(), "n": 2})
    result.rows[0]["words"].append("mine")
    result.rows.pop()
    assert [state.rows for state in (*kept, again)] == [fields()["rows"]] * 3
