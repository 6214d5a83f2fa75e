"""LangGraph agents on holdfast, side by side with LangGraph's own savers.

python -m bench.langgraph [--turns N] [--threads N] [--only PostgreSQL] [--json FILE]

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

from bench.inputs import MB, State, chat
from bench.report import (
    Goal,
    Measured,
    arguments,
    as_json,
    environment,
    interleave,
    over,
    print_goals,
    print_measured,
    scratch,
    write,
)
from bench.server_systems import postgres_bytes
from bench.systems import bytes_on_disk
from holdfast.integrations.langgraph import HoldfastSaver

MS: Final = 1000
PARTS: Final = 10  # of a conversation, to see how its length matters
TURNS_AT_ONCE: Final = 10  # of each of the threads that run at the same time
HISTORY: Final = 20  # states that are asked for
OURS: Final = "holdfast"


class Place(NamedTuple):
    """Where agents keep their threads: a new one, its size, and who can keep them there."""

    new: Callable[[Path], str]
    size: Callable[[str], int]
    savers: Mapping[str, Callable[[str], AbstractContextManager[Any]]]
    awaited: Mapping[str, Callable[[str], AbstractAsyncContextManager[Any]]]
    smaller: float  # the goal: how many times fewer bytes
    faster: float  # the goal: how many times the turns of all threads


def main() -> None:
    """Measure, print the tables, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=1000, help="of the long conversation")
    parser.add_argument("--threads", type=int, default=100, help="that run at the same time")
    parser.add_argument("--only", default="", help="only SQLite, or only PostgreSQL")
    options = parser.parse_args()
    before = environment()
    results: dict[str, Measured] = {}
    goals: list[Goal] = []
    with scratch(options.dir) as directory:
        for name, place in PLACES.items():
            if options.only not in name:
                continue
            long, many = f"{name}, {options.turns} turns", f"{name}, {options.threads} threads"
            results[long] = _conversation(place, directory, options.turns)
            print_measured(long, results[long])
            trials = {
                saver: _threads(place, opened, options.threads)
                for saver, opened in place.awaited.items()
            }
            results[many] = interleave(directory, 3, trials)
            print_measured(many, results[many])
            goals += _goals(name, place, results[long], results[many])
    print()
    print_goals(goals)
    write(options.json, {"environment": before, "results": results, "goals": as_json(goals)})


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
        hot = {name: _read(agent) for name, agent in agents.items()}
    measured = Measured()
    states = []
    for name, url in urls.items():
        size = place.size(url)
        with place.savers[name](url) as saver:
            agent = _agent(said).compile(checkpointer=saver)
            agent.get_state(_config("nobody"))
            cold = _read(agent)
            states.append(agent.get_state(_config("long")).values["messages"])
        parts = [median(part) * MS for part in _parts(taken[name])]
        measured[name] = {
            "all_s": [sum(taken[name])],
            "disk_mb": [size / MB],
            "get_state_ms": [hot[name][0]],
            "get_state_cold_ms": [cold[0]],
            f"history_{HISTORY}_ms": [hot[name][1]],
            f"history_{HISTORY}_cold_ms": [cold[1]],
            **{f"turn_ms_{number}": [part] for number, part in enumerate(parts, 1)},
        }
    assert all(state == states[0] for state in states), "the savers hold the same conversation"
    return measured


def _read(agent: Any) -> tuple[float, float]:
    """Milliseconds that the newest state takes, and the last ones."""
    start = perf_counter()
    agent.get_state(_config("long"))
    middle = perf_counter()
    found = list(agent.get_state_history(_config("long"), limit=HISTORY))
    end = perf_counter()
    assert found, "the thread was saved"
    return (middle - start) * MS, (end - middle) * MS


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
        return {
            "turns_per_s": threads * TURNS_AT_ONCE / seconds,
            "disk_mb": place.size(url) / MB,
        }

    return trial


def _goals(name: str, place: Place, long: Measured, many: Measured) -> list[Goal]:
    theirs = next(saver for saver in place.savers if saver != OURS)
    theirs_awaited = next(saver for saver in place.awaited if saver != OURS)

    def ratio(quantity: str) -> float | None:
        return long.paired(OURS, theirs, quantity, over)

    parts = [quantity for quantity in long[OURS] if quantity.startswith("turn_ms_")]
    slowest = max(found for part in parts if (found := ratio(part)) is not None)
    bytes_ratio = long.paired(theirs, OURS, "disk_mb", over)
    rate = many.paired(OURS, theirs_awaited, "turns_per_s", over)
    reads = [q for q in long[OURS] if q.startswith(("get_state", "history"))]
    return [
        Goal(f"{name}, all turns, over {theirs}", "x", 1, ratio("all_s")),
        Goal(f"{name}, slowest tenth, over {theirs}", "x", 1, slowest),
        *(Goal(f"{name}, {read}, over {theirs}", "x", 1, ratio(read)) for read in reads),
        Goal(f"{name}, bytes, times fewer", "x", place.smaller, bytes_ratio, at_least=True),
        Goal(f"{name}, threads at once", "x", place.faster, rate, at_least=True),
    ]


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
        {OURS: _holdfast_awaited, "AsyncSqliteSaver": _sqlite_awaited, "InMemorySaver": _memory},
        smaller=240,
        faster=4,
    ),
    "PostgreSQL": Place(
        lambda _: postgres.new_database(),
        postgres_bytes,
        {OURS: _holdfast, "PostgresSaver": _postgres},
        {
            OURS: _holdfast_awaited,
            "AsyncPostgresSaver": _postgres_awaited,
            "InMemorySaver": _memory,
        },
        smaller=34,
        faster=7,
    ),
}


if __name__ == "__main__":
    main()
