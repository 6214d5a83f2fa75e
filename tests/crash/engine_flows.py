"""Flows to be killed in. Every step notes what it does; what they come to can be told beforehand."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import holdfast as hf
from holdfast.graph import END, Graph, Retry
from holdfast.workflow import ask, branch, for_each, parallel, step, workflow

Flow = Generator[Any, Any, Any]

PACE = 0.001  # seconds that a step takes
_fd = -1


def write_to(path: str) -> None:
    """Note what happens in this process in a file: each line is one write(2)."""
    global _fd
    if _fd >= 0:
        os.close(_fd)
    _fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def note(what: str, run: str, step: str = "", **fields: Any) -> None:
    """Note one thing."""
    line = {"what": what, "run": run, "step": step, "pid": os.getpid(), **fields}
    os.write(_fd, b"\n" + json.dumps(line).encode() + b"\n")


class Acting:
    """What a step does: notes that it begins, takes its time, notes what it came to."""

    def __enter__(self) -> Acting:
        info = hf.current_step()
        self.run, self.step, self.attempt = info.run_id, info.step, info.attempt
        note("begin", self.run, self.step, attempt=info.attempt, key=info.idempotency_key)
        return self

    def came_to(self, value: Any) -> dict[str, Any]:
        """The value, with a mark that tells this execution from any other."""
        mark = os.urandom(8).hex()
        note("done", self.run, self.step, mark=mark)
        return {"value": value, "mark": mark}

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            note("raised", self.run, self.step)


def act(value: Any) -> dict[str, Any]:
    with Acting() as acting:
        time.sleep(PACE * random.random())
        return acting.came_to(value)


async def act_async(value: Any) -> dict[str, Any]:
    with Acting() as acting:
        await asyncio.sleep(PACE * random.random())
        return acting.came_to(value)


def undo(done: dict[str, Any]) -> None:
    with Acting() as acting:
        time.sleep(PACE * random.random())
        acting.came_to(done["mark"])


def flaky(value: Any) -> dict[str, Any]:
    with Acting() as acting:
        if acting.attempt < 3:
            raise OSError("not yet")
        return acting.came_to(value)


def doom(_: Any = None) -> None:
    with Acting():
        time.sleep(PACE * 4)
        raise ValueError("as planned")


def coin() -> bool:
    """A condition that says something else each time it is asked."""
    return random.random() < 0.5


def decided(run_of: str, **values: Any) -> None:
    """Note what the flow's own code goes by."""
    for name, value in values.items():
        note("decided", run_of, name, value=repr(value))


# --- a workflow with everything


@workflow("within")
def within(n: int) -> Flow:
    first = yield step("first").python(act, (n,))
    second = yield step("second").python(act_async, (n + 1,))
    return first["value"] + second["value"]


def side(n: int) -> Flow:
    one = yield step("one").python(act, (n,))
    inner = yield parallel(
        step("left").python(act_async, (n,)), step("right").python(act, (n,)), name="inner"
    )
    return one["value"] + sum(part["value"] for part in inner)


def in_two_steps(n: int) -> Flow:
    a = yield step("a").python(act, (n,))
    b = yield step("b").python(act_async, (a["value"] * 10,))
    return b["value"]


@workflow("everything")
def everything(run: str, n: int) -> Flow:
    began, token, rounds = hf.now(), hf.uuid(), 2 + int(hf.random() * 3)
    decided(run, began=began, token=token, rounds=rounds)
    total = 0
    for i in range(rounds):
        total += (yield step("add").python(act_async if i % 2 else act, (i,)))["value"]
    sides = yield parallel(
        deep=side(n),
        flat=step("flat").python(act, (n,)),
        asked=question("colour"),
        inner=step("inner").subworkflow(within, n=n),
    )
    items = yield for_each(range(5), act, name="item", concurrency=2)
    pairs = yield for_each(range(3), in_two_steps, name="pair", concurrency=2)
    again = yield step("flaky").python(flaky, (n,)).retry(10_000, 0.0005, longest=0.001)
    way = yield branch(
        (coin, step("heads").python(act, ("heads",))), (True, step("tails").python(act, ("tails",)))
    )
    sub = yield step("sub").subworkflow(within, n=n)
    size = yield ask("How large?", name="size", returns=str)
    last = hf.uuid()
    decided(run, last=last, size=size)
    return {
        "total": total,
        "deep": sides["deep"],
        "flat": sides["flat"]["value"],
        "subs": [sides["inner"], sub],
        "items": [item["value"] for item in items],
        "pairs": pairs,
        "again": again["value"],
        "way": way["value"],
        "answers": {"asked/colour": sides["asked"], "size": size},
        "decided": {"began": began, "token": token, "rounds": rounds, "last": last, "size": size},
    }


def question(name: str) -> Flow:
    yield step("before").python(act, (name,))
    answer = yield ask(f"Which {name}?", name=name, returns=str)
    yield step("after").python(act, (name,))
    return answer


def everything_comes_to(n: int, rounds: int) -> dict[str, Any]:
    """Its result, but for what is left to chance."""
    return {
        "total": sum(range(rounds)),
        "deep": 3 * n,
        "flat": n,
        "subs": [2 * n + 1] * 2,
        "items": list(range(5)),
        "pairs": [0, 10, 20],
        "again": n,
    }


# --- one that fails, and is undone


def undoable(name: str, value: Any) -> Any:
    return step(name).python(act, (value,)).with_rollback(undo)


def item_that_fails(n: int) -> Flow:
    if n == 0:  # the slowest
        yield step("doom").python(doom)
    yield undoable("make", n)
    yield step("keep").python(act, (n,))


@workflow("doomed")
def doomed(run: str, n: int) -> Flow:
    began = hf.now()
    decided(run, began=began)
    for i in range(3):
        yield undoable("build", i)
    yield parallel(undoable("east", n), undoable("west", n), undoable("north", n))
    if n % 2:
        yield for_each(range(6), item_that_fails, name="item", concurrency=2)
    else:
        yield for_each(range(1, 4), item_that_fails, name="item", concurrency=2)
        yield step("doom").python(doom)


# --- transactional steps


def book(cursor: Any, done: dict[str, Any]) -> None:
    """A row of the user's own for each result."""
    cursor.execute("CREATE TABLE IF NOT EXISTS booked (what TEXT, mark TEXT)")
    cursor.execute("INSERT INTO booked VALUES (?, ?)", (done["value"], done["mark"]))


@workflow("ledger")
def ledger(run: str, n: int) -> Flow:
    for i in range(3 + n):
        yield step("pay").python(act, (f"{run}:pay{i}",), commit=book)
        yield step("tell").python(act_async, (i,))
    yield parallel(
        *(step("split").python(act, (f"{run}:split{i}",), commit=book) for i in range(3)),
        step("beside").python(act, (0,)),
    )
    return n


# --- short, for a kill at every fault point


@workflow("short")
def short(run: str, n: int) -> Flow:
    began = hf.now()
    decided(run, began=began)
    both = yield parallel(step("one").python(act, (n,)), step("two").python(act_async, (n,)))
    size = yield ask("How large?", name="size", returns=str)
    decided(run, size=size)
    yield undoable("three", n)
    return {
        "sum": sum(part["value"] for part in both),
        "answers": {"size": size},
        "decided": {"began": began, "size": size},
    }


@workflow("fails")
def fails(run: str, n: int) -> Flow:
    yield parallel(undoable("one", n), undoable("two", n))
    yield step("doom").python(doom)


# --- for requests that come at any time


def asks_and_acts(name: str) -> Flow:
    yield undoable(f"{name}-before", name)
    answer = yield ask(f"Which {name}?", name=name, returns=str)
    yield step(f"{name}-after").python(act_async, (name,))
    return answer


def acts(name: str) -> Flow:
    for i in range(4):
        yield step(f"{name}{i}").python(act if i % 2 else act_async, (name,))


@workflow("raced")
def raced(run: str, n: int) -> Flow:
    began = hf.now()
    decided(run, began=began)
    yield undoable("begin", n)
    sides = yield parallel(
        north=asks_and_acts("north"),
        south=asks_and_acts("south"),
        east=acts("east"),
        west=acts("west"),
    )
    yield for_each(range(4), act, name="item", concurrency=2)
    last = yield from asks_and_acts("last")
    return {
        "answers": {
            "north/north": sides["north"], "south/south": sides["south"], "last": last
        },
        "decided": {"began": began},
    }  # fmt: skip


# --- one that is always at work


@workflow("busy")
def busy(run: str, n: int) -> Flow:
    began = hf.now()
    decided(run, began=began)
    for _ in range(6):
        yield parallel(acts("east"), acts("west"), step("flat").python(act, (n,)))
    yield for_each(range(8), act, name="item", concurrency=2)
    return {"decided": {"began": began}}


# --- tasks of its own


async def crowd_of(run: str, n: int) -> dict[str, Any]:
    """Tasks that race each other: what each does next depends on who was faster."""
    order: list[int] = []

    async def member(i: int) -> None:
        await step("seek").python(act_async if i % 2 else act, (i,))
        order.append(i)
        place = len(order)
        decided(run, **{f"place{place}": i})
        async with asyncio.timeout(60):
            await step(f"place{place}").python(act, (i,))
        await asyncio.sleep(PACE)
        await step("rest").python(act_async, (i,))

    async def racer(i: int) -> int:
        return int((await step("race").python(act_async, (i,)))["value"])

    async with asyncio.TaskGroup() as group:
        asked = group.create_task(colour())
        for i in range(4):
            group.create_task(member(i))
    racers = [asyncio.create_task(racer(i)) for i in range(3)]
    done, _ = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
    winner = min(task.result() for task in done)
    decided(run, winner=winner)
    await step("prize").python(act, (winner,))  # the losers are cancelled when it returns
    return {"order": order, "winner": winner, "colour": asked.result(), "n": n}


async def colour() -> str:
    await step("before").python(act, (0,))
    return await ask("Which colour?", name="colour", returns=str)


@workflow("crowd")
async def crowd(run: str, n: int) -> dict[str, Any]:
    began = hf.now()
    decided(run, began=began)
    found = await hf.durable(crowd_of(run, n), name="crowd")
    size = await ask("How large?", name="size", returns=str)
    decided(run, size=size)
    await step("last").python(act, (n,))
    places = {f"place{place}": i for place, i in enumerate(found["order"], 1)}
    return {
        "answers": {"crowd/colour": found["colour"], "size": size},
        "decided": {"began": began, "size": size, "winner": found["winner"], **places},
    }


# --- a graph


@dataclass
class Trip:
    run: str
    n: int = 0
    turns: int = 0
    marks: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)


def visit(trip: Trip) -> Trip:
    done = act(trip.n)
    trip.marks.append(done["mark"])
    trip.seen.append(hf.current_step().step)
    return trip


async def visit_async(trip: Trip) -> Trip:
    done = await act_async(trip.n)
    trip.marks.append(done["mark"])
    trip.seen.append(hf.current_step().step)
    return trip


def turn(trip: Trip) -> Trip:
    trip.turns += 1
    return visit(trip)


def meet(before: Trip, sides: dict[str, Trip]) -> Trip:
    with Acting() as acting:
        at = len(before.seen)
        for name in sorted(sides):
            before.seen += sides[name].seen[at:]
            before.marks += sides[name].marks[at:]
        before.marks.append(acting.came_to(0)["mark"])
        before.seen.append(acting.step)
        return before


def again_or_on(trip: Trip) -> str:
    return "turn" if trip.turns < 3 else "split"


def heads_or_tails(_: Trip) -> str:
    return random.choice(("heads", "tails"))


def _trip() -> Graph[Trip]:
    graph = Graph(Trip, name="trip", merge=meet)
    for name in ("begin", "split", "a1", "b1", "b2", "heads", "tails", "toss", "end"):
        graph.add_node(name, visit_async if name in ("b1", "toss", "end") else visit)
    graph.add_node("turn", turn)
    graph.add_node("a2", visit, retry=Retry(10_000, 0.0005, 0.001))
    for source, target in (
        ("begin", "turn"), ("split", "a1"), ("split", "b1"), ("a1", "a2"), ("b1", "b2"),
        ("a2", "toss"), ("b2", "toss"), ("heads", "end"), ("tails", "end"), ("end", END),
    ):  # fmt: skip
        graph.add_edge(source, target)
    graph.add_conditional_edge("turn", again_or_on, ["turn", "split"])
    graph.add_conditional_edge("toss", heads_or_tails, ["heads", "tails"])
    return graph.set_entry("begin")


trip = _trip().compile()
TRIP = [
    "begin", "turn", "turn#2", "turn#3", "split", "split>a1/a1", "split>a1/a2",
    "split>b1/b1", "split>b1/b2", "split>merge", "toss",
]  # fmt: skip
"""The steps that every trip consists of, up to where chance decides."""

WORKFLOWS = {
    flow.name: flow for flow in (everything, doomed, ledger, short, fails, raced, busy, crowd)
}
