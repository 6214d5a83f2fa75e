"""A graph with all that a database can hold, and databases that LangGraph's own savers wrote."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from tests.servers import postgres

KINDS = ("langgraph-sqlite", "langgraph-postgres")


class Trip(MessagesState):
    log: Annotated[list[str], operator.add]


def graph(saver: Any) -> Any:
    """A model that calls a tool, three tasks that it sends, and a subgraph that asks a person."""

    def ask(_: Trip) -> dict[str, Any]:
        answer = interrupt({"question": "Book it?"})
        return {"messages": [AIMessage(f"They said {answer}.", id="m3")], "log": ["asked"]}

    def model(_: Trip) -> dict[str, Any]:
        call = {"name": "find_ferry", "args": {"to": "Brest"}, "id": "c1"}
        answer = AIMessage("Let me see.\n\x1b[31mRed.", id="m2", tool_calls=[call])
        return {"messages": [answer], "log": ["model"]}

    def leg(given: Any) -> dict[str, Any]:
        return {"log": [f"leg {given['number']}"]}

    inner: Any = StateGraph(Trip)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    outer: Any = StateGraph(Trip)
    outer.add_node("model", model)
    outer.add_node("leg", leg)
    outer.add_node("confirm", inner.compile())
    outer.add_edge(START, "model")
    outer.add_conditional_edges("model", lambda _: [Send("leg", {"number": n}) for n in range(3)])
    outer.add_edge("leg", "confirm")
    return outer.compile(checkpointer=saver)


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def history(app: Any, thread: str) -> list[Any]:
    """All states of a thread, with those of its subgraphs, without what a read makes anew."""
    found = []
    for state in app.get_state_history(config(thread)):
        inner = [app.get_state(task.state).values for task in state.tasks if task.state]
        found.append((state, inner))
    return found


def new_place(kind: str, directory: Path) -> str:
    """Where a database of this kind can be made."""
    return str(directory / "lg.sqlite") if kind == KINDS[0] else postgres.new_database()


@contextmanager
def saver(kind: str, where: str) -> Iterator[Any]:
    """LangGraph's own."""
    made = SqliteSaver if kind == KINDS[0] else PostgresSaver
    with made.from_conn_string(where) as found:
        found.setup()
        yield found


def fill(app: Any) -> None:
    """A thread that waits for an answer, one that was finished, and forked in the past."""
    for thread in ("waiting", "done"):
        app.invoke({"messages": [HumanMessage("A ferry, please.", id="m1")]}, config(thread))
    app.invoke(Command(resume="yes"), config("done"))
    earlier = list(app.get_state_history(config("done")))[2]
    app.update_state(earlier.config, {"log": ["another past"]})
