"""Agents whose models are toys: what they say follows from what they were told."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt

from tests.waiting import wait_until


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def said(text: str, number: int) -> dict[str, Any]:
    """What a person says; messages without an id would get a random one."""
    return {"messages": [HumanMessage(text, id=f"human-{number}")]}


def model(state: Chat) -> dict[str, Any]:
    """Answers a tool's result, and asks the tool about anything else."""
    last = state["messages"][-1]
    name = f"ai-{len(state['messages'])}"
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"It is {last.content}.", id=name)]}
    call = {"name": "weather", "args": {"place": last.content}, "id": f"call-{name}"}
    return {"messages": [AIMessage("", id=name, tool_calls=[call])]}


def tools(state: Chat) -> dict[str, Any]:
    found = state["messages"][-1]
    assert isinstance(found, AIMessage)
    return {
        "messages": [
            ToolMessage(
                f"sunny in {call['args']['place']}", id=f"tool-{n}", tool_call_id=call["id"]
            )
            for n, call in enumerate(found.tool_calls, len(state["messages"]))
        ]
    }


def wants_tools(state: Chat) -> str:
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END


def chat(saver: BaseCheckpointSaver[Any]) -> Any:
    """An agent with a tool, as most are."""
    builder = StateGraph(Chat)
    builder.add_node("model", model)
    builder.add_node("tools", tools)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", wants_tools, ["tools", END])
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    topics: list[str]
    topic: str


def approval(saver: BaseCheckpointSaver[Any]) -> Any:
    """Asks a person before it acts; beside that, another branch has finished already."""
    builder = StateGraph(Log)
    builder.add_node("beside", lambda _: {"log": ["beside"]})
    builder.add_node("ask", lambda _: {"log": [f"approved: {interrupt('pay 5 EUR?')}"]})
    builder.add_node("act", lambda state: {"log": [f"acted after {len(state['log'])}"]})
    builder.add_edge(START, "beside")
    builder.add_edge(START, "ask")
    builder.add_edge(["beside", "ask"], "act")
    return builder.compile(checkpointer=saver)


def fan_out(saver: BaseCheckpointSaver[Any]) -> Any:
    """Sends each topic to a node of its own."""
    builder = StateGraph(Log)
    builder.add_node("plan", lambda _: {"topics": ["rain", "wind", "sun"]})
    builder.add_node("write", lambda state: {"log": [f"about {state['topic']}"]})
    builder.add_node("join", lambda state: {"log": [" and ".join(state["log"])]})
    builder.add_edge(START, "plan")
    builder.add_conditional_edges(
        "plan", lambda state: [Send("write", {"topic": t}) for t in state["topics"]], ["write"]
    )
    builder.add_edge("write", "join")
    return builder.compile(checkpointer=saver)


def nested(saver: BaseCheckpointSaver[Any]) -> Any:
    """A subgraph in a subgraph, where a person is asked."""
    inner = StateGraph(Log)
    inner.add_node("inner", lambda _: {"log": [f"inner: {interrupt('inner?')}"]})
    inner.add_edge(START, "inner")
    middle = StateGraph(Log)
    middle.add_node("first", lambda _: {"log": ["middle"]})
    middle.add_node("deeper", inner.compile())
    middle.add_edge(START, "first")
    middle.add_edge("first", "deeper")
    outer = StateGraph(Log)
    outer.add_node("before", lambda _: {"log": ["before"]})
    outer.add_node("middle", middle.compile())
    outer.add_node("after", lambda _: {"log": ["after"]})
    outer.add_edge(START, "before")
    outer.add_edge("before", "middle")
    outer.add_edge("middle", "after")
    return outer.compile(checkpointer=saver)


def remembering(saver: BaseCheckpointSaver[Any]) -> Any:
    """A subgraph with a memory of its own: it has a namespace without a task id."""
    inner = StateGraph(Log)
    inner.add_node("count", lambda state: {"log": [f"call {len(state.get('log', ())) + 1}"]})
    inner.add_edge(START, "count")
    remembered = inner.compile(checkpointer=True)

    def call(state: Log) -> dict[str, Any]:
        return {"log": remembered.invoke({"topic": "again"})["log"][-1:]}

    outer = StateGraph(Log)
    outer.add_node("call", call)
    outer.add_edge(START, "call")
    return outer.compile(checkpointer=saver)


def flaky(saver: BaseCheckpointSaver[Any], fails: Callable[[], bool]) -> Any:
    """One of two parallel nodes fails: what the other one did must not be done again."""

    thread: RunnableConfig = {"configurable": {"thread_id": "t"}}

    def shaky(_: Log) -> dict[str, Any]:
        if fails():
            wait_until(lambda: (found := saver.get_tuple(thread)) and found.pending_writes)
            raise ConnectionError("no answer")
        return {"log": ["shaky"]}

    builder: Any = StateGraph(Log)
    builder.add_node("steady", lambda _: {"log": ["steady"]})
    builder.add_node("shaky", shaky)
    builder.add_node("join", lambda state: {"log": [f"joined {len(state['log'])}"]})
    builder.add_edge(START, "steady")
    builder.add_edge(START, "shaky")
    builder.add_edge(["steady", "shaky"], "join")
    return builder.compile(checkpointer=saver)


def _extend(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(text for write in writes for text in write)]


class Deltas(TypedDict):
    log: Annotated[list[str], DeltaChannel(_extend, snapshot_frequency=4)]
    turn: int


def deltas(saver: BaseCheckpointSaver[Any]) -> Any:
    """A graph whose log is kept by LangGraph as the changes since a snapshot."""
    builder = StateGraph(Deltas)
    builder.add_node("one", lambda state: {"log": [f"one {state['turn']}"]})
    builder.add_node("two", lambda state: {"log": [f"two after {len(state['log'])}"]})
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    return builder.compile(checkpointer=saver)


def functional(saver: BaseCheckpointSaver[Any]) -> Any:
    """An agent written as a function, with tasks."""

    @task
    def double(number: int) -> int:
        return number * 2

    @entrypoint(checkpointer=saver)
    def agent(number: int, *, previous: Any = None) -> Any:
        doubled = [each.result() for each in [double(number), double(number + 1)]]
        answer = interrupt({"doubled": doubled})
        return {"answer": answer, "doubled": doubled, "previous": previous}

    return agent
