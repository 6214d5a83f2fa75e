"""LangGraph agents on holdfast, side by side with LangGraph's own savers.

The same compiled agent runs on each saver with `durability="sync"`: a person writes, the model
answers, and in every fourth turn calls a tool first. The savers take turns, one turn of the agent
each, so that "never slower at any length" is seen in every tenth of the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final, NamedTuple

import aiosqlite
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from tests.servers import postgres

from bench.clock import MS, clocked
from bench.inputs import MB, State, chat
from bench.report import Measured, interleave, over
from bench.server_systems import postgres_bytes
from bench.systems import bytes_on_disk
from holdfast.integrations.langgraph import HoldfastSaver

PARTS: Final = 10  # of a conversation, to see how its length matters
TURNS_AT_ONCE: Final = 10  # of each of the threads that run at the same time
READS: Final = 5
HISTORY: Final = 20  # states that are asked for
OURS: Final = "holdfast"


class Place(NamedTuple):
    """Where agents keep their threads: a new one, its size, and who can keep them there."""

    new: Callable[[Path], str]
    size: Callable[[str], int]
    savers: Mapping[str, Callable[[str], AbstractContextManager[Any]]]
    awaited: Mapping[str, Callable[[str], AbstractAsyncContextManager[Any]]]


def measured(name: str, directory: Path, turns: int, threads: int, seconds: float) -> Measured:
    """One long conversation, and many threads at once."""
    place = PLACES[name]
    found = _conversation(place, directory, turns)
    trials = {saver: _threads(place, opened, threads) for saver, opened in place.awaited.items()}
    for saver, quantities in interleave(directory, 3, trials, seconds).items():
        found.setdefault(saver, {})["turns_per_s"] = quantities["turns_per_s"]
    return found


def _conversation(place: Place, directory: Path, turns: int) -> Measured:
    """One long thread on each saver: each turn, then its newest state and its last states, cold."""
    said = [step.state["messages"][-1] for step in chat(2 * turns)]
    urls = {name: place.new(directory / f"{name}.db") for name in place.savers}
    taken: dict[str, list[float]] = {name: [] for name in urls}
    with ExitStack() as stack:
        agents = {
            name: _agent(said).compile(checkpointer=stack.enter_context(place.savers[name](url)))
            for name, url in urls.items()
        }
        for turn in range(turns):
            for name, agent in agents.items():
                start = perf_counter()
                agent.invoke(_person(said, turn), _config("long"), durability="sync")
                taken[name].append(perf_counter() - start)
        hot = [{name: _read(agent) for name, agent in agents.items()} for _ in range(READS)]
    sizes = {name: place.size(url) for name, url in urls.items()}
    cold = [{name: _read_cold(place.savers[name](url)) for name, url in urls.items()} for _ in hot]
    measured = Measured()
    for name in urls:
        parts = [median(part) * MS for part in _parts(taken[name])]
        measured[name] = {
            "all_s": [sum(taken[name])],
            "disk_mb": [sizes[name] / MB],
            "get_state_ms": [read[name].state for read in hot],
            "get_state_cold_ms": [read[name].state for read in cold],
            f"history_{HISTORY}_ms": [read[name].history for read in hot],
            f"history_{HISTORY}_cold_ms": [read[name].history for read in cold],
            **{f"turn_ms@{n * turns // PARTS}": [part] for n, part in enumerate(parts[:PARTS], 1)},
        }
    states = [read.messages for read in cold[0].values()]
    assert all(state == states[0] for state in states), "the savers hold the same conversation"
    theirs = next(name for name in measured if name != OURS)
    turn_by_turn = list(map(over, taken[OURS], taken[theirs]))
    measured[OURS]["slowest"] = [max(map(median, _parts(turn_by_turn)))]
    return measured


class Read(NamedTuple):
    """Milliseconds that the newest state takes, and the last ones; and what was said."""

    state: float
    history: float
    messages: list[BaseMessage]


def _read(agent: Any) -> Read:
    with clocked() as newest:
        found = agent.get_state(_config("long"))
    with clocked() as last:
        history = list(agent.get_state_history(_config("long"), limit=HISTORY))
    assert history, "the thread was saved"
    return Read(newest.seconds * MS, last.seconds * MS, found.values["messages"])


def _read_cold(opened: AbstractContextManager[Any]) -> Read:
    """By a fresh saver, which has connected."""
    with opened as saver:
        agent = _agent([]).compile(checkpointer=saver)
        agent.get_state(_config("nobody"))
        return _read(agent)


def _parts(values: list[float]) -> list[list[float]]:
    size = max(1, len(values) // PARTS)
    return [values[at : at + size] for at in range(0, len(values), size)]


def _threads(
    place: Place, opened: Callable[[str], AbstractAsyncContextManager[Any]], threads: int
) -> Callable[[Path], dict[str, float]]:
    """So many threads at the same time, in one event loop, a few turns each."""
    said = [step.state["messages"][-1] for step in chat(2 * TURNS_AT_ONCE)]

    async def measure(url: str) -> float:
        async with opened(url) as saver:
            agent = _agent(said).compile(checkpointer=saver)

            async def one(thread: str) -> None:
                for turn in range(TURNS_AT_ONCE):
                    person = _person(said, turn)
                    await agent.ainvoke(person, _config(thread), durability="sync")

            await one("before")
            start = perf_counter()
            await asyncio.gather(*(one(f"thread-{number}") for number in range(threads)))
            return perf_counter() - start

    def trial(path: Path) -> dict[str, float]:
        url = place.new(path)
        seconds = asyncio.run(measure(url))
        return {"turns_per_s": threads * TURNS_AT_ONCE / seconds}

    return trial


def _agent(said: list[State]) -> Any:
    """A model that says what is written down for it, and a tool that it calls at times."""

    def model(state: MessagesState) -> dict[str, list[BaseMessage]]:
        messages = state["messages"]
        place = len(messages) % len(said)
        line = said[place]
        calls = []
        if messages[-1].type == "human" and int(line["id"], 16) % 4 == 0:
            calls = [{"name": "look_up", "args": {"query": line["content"][:40]}, "id": line["id"]}]
        usage = {"input_tokens": 10 * place, "output_tokens": line["tokens"]}
        answer = AIMessage(
            line["content"],
            id=f"run-{line['id']}-{len(messages)}",
            tool_calls=calls,
            usage_metadata={**usage, "total_tokens": sum(usage.values())},
            response_metadata={"model_name": "small-1", "finish_reason": "stop"},
        )
        return {"messages": [answer]}

    def tools(state: MessagesState) -> dict[str, list[BaseMessage]]:
        last = state["messages"][-1]
        assert isinstance(last, AIMessage)
        text = said[-len(state["messages"]) % len(said)]["content"]
        return {
            "messages": [
                ToolMessage(text, tool_call_id=call["id"], id=f"tool-{call['id']}")
                for call in last.tool_calls
            ]
        }

    def after(state: MessagesState) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else END

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", tools)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", after, ["tools", END])
    builder.add_edge("tools", "model")
    return builder


def _person(said: list[State], turn: int) -> Any:
    line = said[2 * turn]
    return {"messages": [HumanMessage(line["content"][:120], id=line["id"])]}


def _config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@contextmanager
def _holdfast(url: str) -> Iterator[Any]:
    with HoldfastSaver(url) as saver:
        yield saver


@asynccontextmanager
async def _holdfast_awaited(url: str) -> AsyncIterator[Any]:
    async with HoldfastSaver(url) as saver:
        yield saver


@contextmanager
def _sqlite(url: str) -> Iterator[Any]:
    with SqliteSaver.from_conn_string(_path(url)) as saver:
        saver.setup()  # which sets WAL
        saver.conn.execute("PRAGMA synchronous=FULL")
        yield saver


@asynccontextmanager
async def _sqlite_awaited(url: str) -> AsyncIterator[Any]:
    async with aiosqlite.connect(_path(url)) as db:
        saver = AsyncSqliteSaver(db)
        await saver.setup()
        await db.execute("PRAGMA synchronous=FULL")
        yield saver


@contextmanager
def _postgres(url: str) -> Iterator[Any]:
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        yield saver


@asynccontextmanager
async def _postgres_awaited(url: str) -> AsyncIterator[Any]:
    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        await saver.setup()
        yield saver


@asynccontextmanager
async def _memory(_: str) -> AsyncIterator[Any]:
    yield InMemorySaver()  # what LangGraph itself takes, whoever saves


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")


PLACES: Final = {
    "SQLite": Place(
        lambda path: f"sqlite:///{path}",
        lambda url: bytes_on_disk(Path(_path(url))),
        {OURS: _holdfast, "SqliteSaver": _sqlite},
        {OURS: _holdfast_awaited, "AsyncSqliteSaver": _sqlite_awaited, "memory alone": _memory},
    ),
    "PostgreSQL": Place(
        lambda _: postgres.new_database(),
        postgres_bytes,
        {OURS: _holdfast, "PostgresSaver": _postgres},
        {
            OURS: _holdfast_awaited,
            "AsyncPostgresSaver": _postgres_awaited,
            "memory alone": _memory,
        },
    ),
}
