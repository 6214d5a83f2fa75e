"""Runs with all that a run can have, to be damaged.

Those of flows stop before their last step: a resume has everything to read and one step to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import holdfast as hf
from holdfast.evidence import EvidencePack, file_evidence
from holdfast.graph import END, Graph
from holdfast.manager import CheckpointManager
from holdfast.pipeline import Pipeline
from holdfast.store import Store
from holdfast.workflow import ask, for_each, step, workflow

DONE: list[str] = []
"""The steps that were executed."""

_broken = False
_twin = 0


def large(n: int) -> dict[str, Any]:
    """Large enough to be saved as a change to the one before."""
    return {"n": n + 1000 * _twin, "log": [f"line {i} of {n if i == n else 0}" for i in range(400)]}


# --- saved by hand


def by_hand(store: Store) -> None:
    """Whole states, changes to them, small ones, and a thread."""
    with hf.SyncCheckpointer(store) as cp:
        for n in range(7):
            cp.save(
                "hand", large(n) if n % 4 else {"n": n + _twin}, step=f"s{n % 3}", step_index=n,
                duration=0.5, owner="me", thread_id="thread", type="tool_executed", metadata={"n": n},
            )  # fmt: skip


def pruned(store: Store) -> None:
    """Stubs, rewritten bodies and the marker that vouches for them; and another of each."""
    with hf.SyncCheckpointer(store) as cp:
        for n in range(8):
            cp.save("pruned", large(n), step=f"s{n % 3}")
        cp.delete("pruned", seq=2)
        for n in range(8, 10):
            cp.save("pruned", large(n), step=f"s{n % 3}")
        cp.prune("pruned", keep_latest=6)
        cp.save("pruned", large(10), step="s1")


def gone_back(store: Store) -> None:
    """Two rollbacks, and what they left behind."""
    with hf.SyncCheckpointer(store) as cp:
        for n in range(4):
            cp.save("back", large(n), step=f"s{n}")
        cp.rollback("back", seq=2)
        cp.save("back", large(4), step="s4")
        cp.save("back", large(5), step="s5")
        cp.rollback("back", seq=6)
        cp.save("back", large(6), step="s6")


def forked(store: Store) -> None:
    """A fork with a few checkpoints of its own."""
    with hf.SyncCheckpointer(store) as cp:
        for n in range(3):
            cp.save("origin", large(n), step=f"s{n}")
        cp.fork("origin", seq=2, run_id="fork")
        for n in range(3, 6):
            cp.save("fork", large(n), step=f"s{n}")


# --- tasks


def task(store: Store) -> None:
    """Steps that were begun and committed with evidence, one with a name, one in flight."""
    with CheckpointManager(hf.SyncCheckpointer(store)) as manager:
        for n in range(3):
            Path("evidence.txt").write_text("it is there")
            pack = EvidencePack([file_evidence("evidence.txt")])
            begun = manager.begin_step("task", "iteration_end", large(n))
            manager.commit_step(begun, pack, f"named-{n}" if n == 1 else None)
        manager.begin_step("task", "iteration_start", large(3))


# --- flows


@step
def double(n: int) -> int:
    DONE.append(f"double {n}")
    return 2 * n + _twin


@step(outputs="written.txt")
def write(numbers: list[int]) -> str:
    DONE.append("write")
    Path("written.txt").write_text(f"{numbers}")
    return "written.txt"


@step
def fill(n: int) -> list[str]:
    DONE.append(f"fill {n}")
    return [f"{n + _twin}: {i}" for i in range(600)]


@step
def finish(so_far: int) -> int:
    DONE.append("finish")
    if _broken:
        raise OSError("the last step fails")
    return so_far + 1


@workflow("inner")
async def inner(n: int) -> int:
    return await double(n) + await double(n + 1)


@workflow("outer")
async def outer(n: int) -> int:
    numbers = await for_each(range(n), double)
    total = await inner(10)
    lines = len(await fill(1)) + len(await fill(2))
    await write(numbers)
    more = await ask("How many more?", returns=int)
    return await finish(sum(numbers) + total + lines + more)


def flow(store: Store) -> None:
    """A workflow with many items, a child run, evidence and an answered question."""

    async def make() -> None:
        async with hf.Engine(store) as engine:
            with suppress(hf.RunPausedError):
                await engine.run(outer(3), run_id="flow")
            await engine.answer("flow", 7 + _twin)

    asyncio.run(make())


def grow(state: dict[str, Any]) -> dict[str, Any]:
    DONE.append(f"grow {state['n']}")
    return large(state["n"] % 1000 + 1)


def end(state: dict[str, Any]) -> dict[str, Any]:
    DONE.append("end")
    if _broken:
        raise OSError("the last node fails")
    return {"ended": state["n"]}


growing = (
    Graph(dict, name="growing")
    .add_node("grow", grow)
    .add_node("end", end)
    .set_entry("grow")
    .add_conditional_edge(
        "grow", lambda state: "grow" if state["n"] % 1000 < 4 else "end", ["grow", "end"]
    )
    .add_edge("end", END)
    .compile()
)


def graph(store: Store) -> None:
    """A graph with a large state, whose last node failed."""
    _until_it_fails(store, growing(large(0)), "graph")


def gather(data: dict[str, Any]) -> dict[str, Any]:
    DONE.append("gather")
    return {"lines": large(1)["log"], "n": _twin}


def count(data: Any) -> dict[str, Any]:
    DONE.append("count")
    return {"count": len(data["lines"])}


def report(data: Any) -> Any:
    DONE.append("report")
    if _broken:
        raise OSError("the last step fails")
    return f"{data['count']} lines"


reporting = Pipeline(
    name="reporting",
    steps=[
        {"id": "gather", "function": gather},
        {"id": "count", "function": count, "inputs": "{steps.gather.output}"},
        {"id": "report", "function": report, "inputs": "{steps.count.output}"},
    ],
    flow={
        "start_at": "gather",
        "paths": [
            {"from": "gather", "to": "count"},
            {"from": "count", "to": "report"},
            {"from": "report", "to": "end"},
        ],
    },
)


def pipeline(store: Store) -> None:
    """A pipeline whose last step failed."""
    _until_it_fails(store, reporting({"topic": "kelp"}), "pipeline")


def _until_it_fails(store: Store, call: Any, run_id: str) -> None:
    async def make() -> None:
        async with hf.Engine(store) as engine:
            with suppress(hf.HoldfastError, OSError):
                await engine.run(call, run_id=run_id)

    global _broken
    _broken = True
    try:
        asyncio.run(make())
    finally:
        _broken = False


@contextmanager
def of_another_store() -> Iterator[None]:
    """Runs made meanwhile have the same ids and other states."""
    global _twin
    _twin = 1
    try:
        yield
    finally:
        _twin = 0


class Life(NamedTuple):
    """A run, how it came to be, and what executes it."""

    run: str
    make: Callable[[Store], None]
    executed_by: Any = None
    journals: tuple[str, ...] = ()  # of other runs to damage

    @property
    def name(self) -> str:
        return self.run

    def __str__(self) -> str:
        return self.run


LIVES = (
    Life("hand", by_hand),
    Life("pruned", pruned),
    Life("back", gone_back),
    Life("fork", forked),
    Life("task", task),
    Life("flow", flow, outer, ("flow//inner",)),
    Life("graph", graph, growing),
    Life("pipeline", pipeline, reporting),
)
