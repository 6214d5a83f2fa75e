"""Flows that the tests execute; copied into each test's own directory as jobs.py."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.pipeline import HumanInputStep, Pipeline
from holdfast.workflow import ask, parallel, step, workflow


@dataclass
class Decision:
    approved: bool
    amount: int
    note: str = ""


def fetch(day: str) -> dict[str, Any]:
    return {"day": day, "rows": [1, 2, 3]}


def write(rows: list[int]) -> int:
    Path("out.txt").write_text("\n".join(map(str, rows)))
    return len(rows)


def fail() -> None:
    raise RuntimeError("no such table")


def wait_for(path: str) -> str:
    for _ in range(3000):
        if Path(path).exists():
            return path
        time.sleep(0.02)
    raise TimeoutError(path)


@workflow("inner")
def inner(rows: list[int]) -> Generator[Any, Any, Any]:
    return (yield step("sum").python(sum, args=(rows,)))


@workflow("etl")
def etl(day: str) -> Generator[Any, Any, Any]:
    found = yield step("fetch").python(fetch, args=(day,))
    total = yield step("total").subworkflow(inner, rows=found["rows"])
    return {"day": day, "total": total}


@workflow("claims")
def claims() -> Generator[Any, Any, Any]:
    return (yield step("write").python(write, args=([1, 2],)).outputs("out.txt"))


@workflow("review")
def review(what: str) -> Generator[Any, Any, Any]:
    decision = yield ask(f"publish {what}?", returns=Decision, name="publish")
    return f"{what}: {decision}"


def give_back(room: str) -> None:
    print("gave back", room)


@step(with_rollback=give_back)
def reserve() -> str:
    return "room 7"


@workflow("trip")
async def trip() -> bool:
    await reserve()
    return await ask("go?", returns=bool)


@workflow("trips")
async def trips() -> None:
    await reserve()
    asked = (ask(f"{name}?", returns=bool, name=name) for name in ("first", "second"))
    await parallel(*asked)


@workflow("journey")
async def journey() -> bool:
    return await trip()


@workflow("impatient")
def impatient() -> Generator[Any, Any, Any]:
    return (yield ask("well?", deadline=0.05, default="no answer"))


@workflow("color")
def color() -> Generator[Any, Any, Any]:
    return (yield ask("which color?", choices=["red", "blue"], assignees=["ann"]))


@workflow("anything")
def anything() -> Generator[Any, Any, Any]:
    return (yield ask("well?"))


@workflow("broken")
def broken() -> Generator[Any, Any, Any]:
    yield step("fetch").python(fetch, args=("today",))
    yield step("load").python(fail)


@workflow("slow")
def slow(path: str) -> Generator[Any, Any, Any]:
    yield step("fetch").python(fetch, args=("today",))
    waited = yield step("wait").python(wait_for, args=(path,))
    yield step("last").python(fetch, args=("tomorrow",))
    return waited


@workflow("stuck")
def stuck(path: str) -> Generator[Any, Any, Any]:
    def wait() -> str:
        hf.current_step().emit("begun")
        return wait_for(path)

    return (yield step("wait").python(wait))


@workflow("nap")
async def nap(seconds: float) -> str:
    await hf.sleep(seconds)
    return "awake"


def book(cursor: sqlite3.Cursor, done: str) -> None:
    cursor.execute("INSERT INTO effects VALUES (?)", (done,))


@step(commit=book)
def part(number: int, name: str) -> str:
    time.sleep(0.05)
    return f"{number}{name}"


@workflow("effects")
async def effects(number: int) -> list[str]:
    return [await part(number, name) for name in "abc"]


@step
def speak() -> None:
    print("I am a step")


@workflow("talkative")
async def talkative() -> None:
    await speak()


@dataclass
class State:
    name: str = ""
    visits: int = 0


def visit(state: State) -> State:
    return State(state.name, state.visits + 1)


def next_node(state: State) -> str:
    return END if state.visits >= 3 else "visit"


graph = (
    Graph(State, name="visits")
    .add_node("visit", visit)
    .add_conditional_edge("visit", next_node)
    .set_entry("visit")
    .compile()
)


def named(name: str) -> Callable[[State], State]:
    return lambda state: State(name, state.visits + 1)


def most_visits(before: State, branches: dict[str, State]) -> State:
    return max(branches.values(), key=lambda state: state.visits)


wide = (
    Graph(State, name="wide", merge=most_visits)
    .add_node("start", named("start"))
    .add_node("left", named("left"))
    .add_node("right", named("right"))
    .add_node("end", named("end"))
    .add_edge("start", "left")
    .add_edge("start", "right")
    .add_edge("left", "end")
    .add_edge("right", "end")
    .add_edge("end", END)
    .set_entry("start")
    .compile()
)


pipeline = Pipeline(
    steps=[
        {"id": "count", "function": lambda data: len(data["words"])},
        {"id": "double", "function": lambda data: 2},
    ],
    flow={
        "start_at": "count",
        "paths": [{"from": "count", "to": "double"}, {"from": "double", "to": "end"}],
    },
    name="counting",
)


stored = Pipeline(
    steps=[
        {"id": "count", "function": lambda data: len(data["words"])},
        HumanInputStep("publish", prompt="publish?", choices=["yes", "no"]),
    ],
    flow={
        "start_at": "count",
        "paths": [{"from": "count", "to": "publish"}, {"from": "publish", "to": "end"}],
    },
    name="keeper",
    checkpointer="own.db",
)
