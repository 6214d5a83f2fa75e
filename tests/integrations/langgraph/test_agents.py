"""Real agents of LangGraph's do on holdfast what they do on LangGraph's own savers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from holdfast.integrations.langgraph import HoldfastSaver
from tests.integrations.langgraph import agents
from tests.integrations.langgraph.views import View

Saver = BaseCheckpointSaver[Any]
Play = Callable[[Saver, View], Iterator[Any]]

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}, "metadata": {"user": "ann"}}


def seen(saver: Saver, play: Play) -> list[Any]:
    view = View()
    return [view.of(each) for each in play(saver, view)]


def at(config: RunnableConfig) -> RunnableConfig:
    return {"configurable": dict(config["configurable"])}


def a_chat(saver: Saver, view: View) -> Iterator[Any]:
    graph = agents.chat(saver)
    for number, place in enumerate(("Brest", "Lyon")):
        yield graph.invoke(agents.said(place, number), CONFIG)
    yield view.history(graph, CONFIG)


def a_streamed_chat(saver: Saver, view: View) -> Iterator[Any]:
    graph = agents.chat(saver)
    yield list(graph.stream(agents.said("Brest", 0), CONFIG, stream_mode="updates"))
    yield view.snapshot(graph.get_state(CONFIG))


def an_approval(saver: Saver, view: View) -> Iterator[Any]:
    graph = agents.approval(saver)
    yield graph.invoke({"log": ["start"]}, CONFIG)
    yield view.snapshot(graph.get_state(CONFIG))
    yield graph.invoke(Command(resume="yes"), CONFIG)
    yield view.history(graph, CONFIG)


def a_fan_out(saver: Saver, view: View) -> Iterator[Any]:
    graph = agents.fan_out(saver)
    yield graph.invoke({"log": []}, CONFIG)
    yield view.history(graph, CONFIG)


def nested_graphs(saver: Saver, view: View) -> Iterator[Any]:
    graph = agents.nested(saver)
    yield graph.invoke({"log": ["start"]}, CONFIG)
    state = graph.get_state(CONFIG, subgraphs=True)
    yield view.snapshot(state)
    inner = state.tasks[0].state
    yield view.snapshot(inner)
    yield view.snapshot(inner.tasks[0].state)
    yield graph.invoke(Command(resume="yes"), CONFIG)
    yield view.history(graph, CONFIG)
    yield view.history(graph, inner.config)


def a_subgraph_with_a_memory(saver: Saver, view: View) -> Iterator[Any]:
    graph = agents.remembering(saver)
    for _ in range(3):
        yield graph.invoke({"topic": "x"}, CONFIG)["log"]
    yield view.history(graph, CONFIG)


def time_travel(saver: Saver, view: View) -> Iterator[Any]:
    graph = agents.approval(saver)
    graph.invoke({"log": ["start"]}, CONFIG)
    graph.invoke(Command(resume="yes"), CONFIG)
    states = list(graph.get_state_history(CONFIG))
    waiting = next(state for state in states if state.interrupts)
    yield graph.invoke(None, at(waiting.config))  # asks again
    edited = graph.update_state(at(states[1].config), {"log": ["edited"]}, as_node="ask")
    yield view.snapshot(graph.get_state(edited))
    yield graph.invoke(None, edited)
    yield view.history(graph, CONFIG)
    yield [view.snapshot(each) for each in graph.get_state_history(CONFIG, limit=2)]
    before = states[0].config
    yield [view.snapshot(each) for each in graph.get_state_history(CONFIG, before=before, limit=3)]
    by_source = graph.get_state_history(CONFIG, filter={"source": "update"})
    yield [view.snapshot(each) for each in by_source]


def a_failure(saver: Saver, view: View) -> Iterator[Any]:
    failures = iter([True, False])
    graph = agents.flaky(saver, lambda: next(failures))
    with pytest.raises(ConnectionError):
        graph.invoke({"log": ["start"]}, CONFIG)
    yield view.snapshot(graph.get_state(CONFIG))
    yield graph.invoke(None, CONFIG)
    yield view.history(graph, CONFIG)


def delta_channels(saver: Saver, view: View) -> Iterator[Any]:
    graph = agents.deltas(saver)
    for turn in range(5):
        yield graph.invoke({"log": [f"turn {turn}"], "turn": turn}, CONFIG)
    yield view.history(graph, CONFIG)
    state = list(graph.get_state_history(CONFIG))[4]
    edited = graph.update_state(at(state.config), {"log": ["edited"]}, as_node="one")
    yield graph.invoke(None, edited)
    yield view.history(graph, CONFIG)


def a_function(saver: Saver, view: View) -> Iterator[Any]:
    graph = agents.functional(saver)
    for number in (1, 5):
        yield graph.invoke(number, CONFIG)["__interrupt__"][0].value
        yield graph.invoke(Command(resume="go on"), CONFIG)
    yield view.snapshot(graph.get_state(CONFIG))


PLAYS = (
    a_chat, a_streamed_chat, an_approval, a_fan_out, nested_graphs, a_subgraph_with_a_memory,
    time_travel, a_failure, delta_channels, a_function,
)  # fmt: skip


@pytest.mark.parametrize("play", PLAYS)
def test_an_agent_gives_and_remembers_what_it_does_on_langgraphs_own_saver(
    play: Play, tmp_path: Path
) -> None:
    expected = seen(InMemorySaver(), play)
    for store in ("memory://", f"sqlite:///{tmp_path}/agents.db", f"file://{tmp_path}/runs"):
        with HoldfastSaver(store) as saver:
            assert seen(saver, play) == expected
