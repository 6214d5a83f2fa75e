"""What the processes execute. Every step notes what it does; results can be told beforehand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.pipeline import Pipeline
from holdfast.workflow import Retry, ask, for_each, parallel, sleep, step, workflow
from tests.crash.holders.oracle import note

FOREVER: Final = 600.0
hang: set[str] = set()
"""The steps that this process never leaves."""

slow: dict[str, float] = {}
"""How many seconds steps take in this process."""

pace = 0.002
"""Seconds that other steps take at most."""

until: dict[str, Path] = {}
"""The steps that this process leaves only when a file is there."""

begun: set[str] = set()
"""The steps that this process has begun."""

at_step: dict[str, Callable[[], None]] = {}
"""What else steps do in this process."""


class Acting:
    """Notes that a step begins, ends and raises."""

    def __enter__(self) -> Acting:
        info = hf.current_step()
        self.run, self.step = info.run_id, info.step
        self.name = self.step.split("#")[0].rpartition("/")[2]
        note("begin", self.run, self.step, attempt=info.attempt, key=info.idempotency_key)
        begun.add(self.name)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        note("end" if kind is None else "raised", self.run, self.step)


async def act(value: Any) -> Any:
    """Take some time, and return the value."""
    with Acting() as acting:
        if acting.name in at_step:
            at_step[acting.name]()
        if acting.name in hang:
            await asyncio.sleep(FOREVER)
        while acting.name in until and not until[acting.name].exists():
            await asyncio.sleep(0.02)
        await asyncio.sleep(slow.get(acting.name, pace * random.random()))
        return value


async def undo(value: Any) -> None:
    await act(value)


async def fail(value: Any) -> Any:
    await act(value)
    raise ValueError("as planned")


def does(name: str, value: Any) -> Any:
    """A step of this name."""
    return step(name).python(act, args=(value,))


def undoable(name: str, value: Any) -> Any:
    return does(name, value).with_rollback(undo)


# --- one after the other


@workflow
async def chain(n: int) -> int:
    total = 0
    for i, name in enumerate(("one", "two", "three"), n):
        total += await does(name, i)
    return total


@dataclass
class State:
    n: int
    seen: list[str] = field(default_factory=list)


async def visit(state: State) -> State:
    state.seen.append(hf.current_step().step)
    state.n = await act(state.n) + 1
    return state


graph = (
    Graph(State, name="graph")
    .add_node("one", visit)
    .add_node("two", visit)
    .add_node("three", visit)
    .add_edge("one", "two")
    .add_edge("two", "three")
    .add_edge("three", END)
    .set_entry("one")
    .compile()
)

pipe = Pipeline(
    steps=[{"id": name, "function": act} for name in ("one", "two", "three")],
    flow={
        "start_at": "one",
        "paths": [
            {"from": "one", "to": "two"},
            {"from": "two", "to": "three"},
            {"from": "three", "to": "end"},
        ],
    },
    name="pipe",
)


@step(name="two", retry=Retry(3, crashes=2))
async def risk(n: int) -> int:
    return int(await act(n))


@workflow
async def fragile(n: int) -> int:
    """Its second step may crash twice."""
    await does("one", n)
    return await risk(n)


@workflow
async def endless(n: int) -> None:
    """Many entries, then a step."""
    await for_each(range(n), int, name="item", concurrency=200)
    await does("last", n)


# --- parents


@workflow
async def family(n: int) -> int:
    total = await does("before", n)
    total += await step("kid").subworkflow(chain(n))
    total += sum(await for_each([n, n + 1], chain, concurrency=2))
    return int(total + await does("after", n))


@workflow
async def asks(n: int, seconds: float | None) -> int:
    await does("first", n)
    size = await ask("How large?", name="size", returns=int, deadline=seconds, default=n)
    return int(await does("last", size))


@workflow
async def asking_family(n: int, seconds: float | None) -> int:
    total = await does("before", n)
    total += await step("kid").subworkflow(asks(n, seconds))
    return int(total + await does("after", n))


@workflow
async def doomed(n: int) -> None:
    await undoable("book", n)
    await step("kid").subworkflow(chain(n))
    await undoable("pay", n)
    await step("doom").python(fail, args=(n,))


@workflow
async def tolerant(n: int) -> str:
    """A parent whose child fails, is undone, and is excused."""
    try:
        await step("kid").subworkflow(doomed(n))
    except hf.StepFailedError as error:
        return str(error)
    return "it did not fail"


@workflow
async def long_child(n: int) -> int:
    for i in range(n):
        await does("walk", i)
    return n


@workflow
async def patient(n: int) -> int:
    """A parent that undoes its first step if it is cancelled while its child walks."""
    await undoable("book", n)
    return int(await step("kid").subworkflow(long_child(n)))


@workflow
async def mixed(n: int) -> int:
    """Children, questions and compensations: all of it comes to an end, whatever happens."""
    total = await does("before", n)
    kid, answer = await parallel(
        step("kid").subworkflow(chain(n)),
        step("asker").subworkflow(asks(n, 1.0)),
    )
    try:
        await step("doomed").subworkflow(doomed(n))
    except hf.StepFailedError as error:
        assert "as planned" in str(error), error
    total += sum(await for_each([n, n + 1], chain, concurrency=2))
    return int(total + kid + answer + await does("after", n))


@workflow
async def worked(n: int) -> int:
    """What workers continue: child runs, a question that nobody answers, a sleep."""
    total = await does("before", n)
    total += await step("kid").subworkflow(chain(n))
    total += await ask("How large?", name="size", returns=int, deadline=0.5, default=n)
    await sleep(0.7)
    return int(total + await does("after", n))


def comes_to(flow: str, n: int) -> Any:
    """What a run of the flow returns, whatever happens to it."""
    of_chain = 3 * n + 3
    return {
        "chain": of_chain,
        "family": n + of_chain + of_chain + (of_chain + 3) + n,
        "mixed": n + (of_chain + of_chain + 3) + of_chain + n + n,
        "asking_family": 3 * n,
        "worked": 3 * n + of_chain,
    }[flow]


WORKFLOWS: Final = {
    flow.name: flow
    for flow in (
        chain, fragile, endless, family, asks, asking_family, doomed, tolerant, long_child,
        patient, mixed, worked,
    )
}  # fmt: skip
