"""What errors of graphs advise works."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

import holdfast as hf
from holdfast.graph import END, CompiledGraph, Graph, command


@dataclass
class State:
    n: int = 0
    note: str = ""


def asks() -> CompiledGraph[State]:
    graph = Graph(State).add_node("a", lambda s: {"n": s.n + 1})
    graph.add_question("ask", "What note?", into="note")
    return graph.add_edge("a", "ask").add_edge("ask", END).set_entry("a").compile()


def paused(app: CompiledGraph[State], cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(hf.RunPausedError, match="answer it, then resume"):
        app.run_sync(State(), store=cp, run_id="r")
    app.answer_sync("r", "fine", store=cp)


def test_a_run_that_began_with_another_state_is_resumed_with_its_own(
    cp: hf.SyncCheckpointer,
) -> None:
    app = asks()
    paused(app, cp)
    with pytest.raises(hf.InputMismatchError, match="which uses the recorded inputs"):
        app.run_sync(State(7), store=cp, run_id="r", resume=True)
    assert app.resume_sync("r", store=cp) == State(1, "fine")


def test_a_store_needs_a_run_id_and_a_question_needs_a_store(cp: hf.SyncCheckpointer) -> None:
    app = asks()
    with pytest.raises(hf.RunIdRequiredError, match="pass run_id="):
        app.run_sync(State(), store=cp)
    with pytest.raises(hf.StoreRequiredError):
        app.run_sync(State())
    paused(app, cp)


def test_a_node_that_asks_is_asked_again_by_going_back(cp: hf.SyncCheckpointer) -> None:
    app = asks()
    paused(app, cp)
    app.resume_sync("r", store=cp)
    with pytest.raises(ValueError, match="resume with from_node= to ask again"):
        asyncio.run(app.replay("r", "ask", store=cp))
    with pytest.raises(hf.RunPausedError):
        app.resume_sync("r", store=cp, from_node="ask")


def test_what_an_invalid_graph_is_told_to_add_makes_it_valid() -> None:
    graph = Graph(State).add_node("a", lambda s: None).add_node("b", lambda s: None)
    with pytest.raises(hf.InvalidFlowError, match="call set_entry"):
        graph.compile()
    graph.set_entry("a").add_edge("a", "b")
    with pytest.raises(hf.InvalidFlowError, match="add an edge to END or to another node"):
        graph.compile()
    graph.add_edge("b", "end")
    with pytest.raises(hf.InvalidFlowError, match=r"did you mean holdfast\.graph\.END"):
        graph.compile()
    fixed = Graph(State).add_node("a", command(["true"])).add_edge("a", END).set_entry("a")
    assert fixed.compile().run_sync(State(3)) == State(3)


def test_an_empty_id_is_refused_and_never_means_a_new_run(cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(hf.InvalidIdError):
        asks().run_sync(State(), store=cp, run_id="", resume=True)
    assert not cp.runs()
