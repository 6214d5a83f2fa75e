"""The work that engines are measured with: each workload is a set of trials, one for each engine."""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import holdfast as hf
from bench.clock import MS, US, clocked
from bench.engines import (
    MEMORY,
    NOWHERE,
    Awaiting,
    Engine,
    HoldfastGraph,
    HoldfastGraphFollowed,
    Job,
    PlainCalls,
    State,
)
from bench.fresh import interpreter_seconds, restart
from bench.inputs import KB, Step, fresh_steps, state, tiny_changes
from bench.peers import ENGINES, GRAPHS, WORKFLOWS, LangGraph, LangGraphFollowed, installed
from bench.report import Trial
from bench.systems import Floor, cycle
from holdfast.telemetry import Metrics
from holdfast.workflow import step, workflow

NODES: Final = 10
ALIKE: Final = ("holdfast, awaited", "LangGraph, sync", "DBOS, WAL")
"""Those that make a step durable before the next begins, in the fastest way they have."""


def graph_in_memory(runs: int) -> dict[str, Trial]:
    """A graph of ten nodes run again and again where there is no disk, its start and end included."""
    kinds: dict[str, tuple[type[Awaiting], Path]] = {
        "plain calls": (PlainCalls, NOWHERE),
        "holdfast": (HoldfastGraph, MEMORY),
        "LangGraph": (LangGraph, MEMORY),
        "holdfast, events": (HoldfastGraphFollowed, MEMORY),
        "LangGraph, events": (LangGraphFollowed, MEMORY),
        "holdfast, no store": (HoldfastGraph, NOWHERE),
        "LangGraph, no saver": (LangGraph, NOWHERE),
    }

    def trial(kind: type[Awaiting], where: Path) -> Trial:
        return lambda path: _nodes(kind, where, _ten_nodes(), runs)

    return {name: trial(*made) for name, made in kinds.items() if installed(made[0])}


def large_graph(sizes: Sequence[int], runs: int) -> dict[str, Trial]:
    """Ten nodes in memory that leave a state of so many bytes as it is, and count."""

    def trial(kind: type[Awaiting], where: Path) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            found = {}
            for size in sizes:
                job = Job(NODES, lambda number: {"turn": number}, state(size))
                for quantity, value in _nodes(kind, where, job, runs).items():
                    found[f"{quantity}@{size}"] = value
            return found

        return measure

    kinds = {name: (kind, MEMORY) for name, kind in GRAPHS.items() if installed(kind)}
    return {name: trial(*made) for name, made in kinds.items()}


def _nodes(kind: type[Awaiting], where: Path, job: Job, runs: int) -> dict[str, float]:
    with closing(kind(where, job)) as engine:
        engine.times(_names("warm", min(3, runs)))
        with clocked() as spent:
            taken = engine.times(_names("run", runs))
    return {
        "step_us": median(taken) / job.steps * US,
        "cpu_us": spent.cpu / (runs * job.steps) * US,
    }


def building(count: int) -> dict[str, Trial]:
    """A step of a workflow made by the builder, and not run."""

    def work(number: int) -> int:
        return number

    def measure(path: Path) -> dict[str, float]:
        with clocked() as spent:
            made = [
                step("work").python(work, args=(number,)).checkpoint() for number in range(count)
            ]
        with warnings.catch_warnings(action="ignore"):  # nobody awaits them
            del made
        return {"build_us": spent.seconds / count * US, "cpu_us": spent.cpu / count * US}

    return {"holdfast": measure}


def graph_on_disk(runs: int) -> dict[str, Trial]:
    """The same graph, each step durable."""

    def trial(kind: type[Engine]) -> Trial:
        return lambda path: _one_after_the_other(kind, path, _ten_nodes(), runs)

    changes = list(tiny_changes(2 * KB, NODES))[1:]
    return {
        "floor": lambda path: _floor(path, changes * runs, NODES),
        **{name: trial(kind) for name, kind in GRAPHS.items() if installed(kind)},
    }


def one_run(steps: int) -> dict[str, Trial]:
    """One run of many steps, each returning 2 KB that are durable before the next begins."""

    def trial(kind: type[Engine]) -> Trial:
        return lambda path: _one_after_the_other(kind, path, _returning(2 * KB, steps), 1)

    return {
        "floor": lambda path: _floor(path, list(cycle(fresh_steps(2 * KB), steps)), steps),
        **{name: trial(kind) for name, kind in ENGINES.items() if installed(kind)},
    }


def large_steps(sizes: Sequence[int], steps: int) -> dict[str, Trial]:
    """The same with results of other sizes."""

    def measured(of: Callable[[int], dict[str, float]]) -> dict[str, float]:
        return {
            f"{quantity}@{size}": found[quantity]
            for size in sizes
            for found in [of(size)]
            for quantity in ("step_ms", "cpu_ms")
        }

    def trial(kind: type[Engine]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            def of(size: int) -> dict[str, float]:
                on = path.with_name(f"{size}.db")
                return _one_after_the_other(kind, on, _returning(size, steps), 1)

            return measured(of)

        return measure

    def floor(path: Path) -> dict[str, float]:
        def of(size: int) -> dict[str, float]:
            given = list(cycle(fresh_steps(size), steps))
            return _floor(path.with_name(f"{size}.db"), given, steps)

        return measured(of)

    kinds = {name: ENGINES[name] for name in ALIKE if installed(ENGINES[name])}
    return {"floor": floor, **{name: trial(kind) for name, kind in kinds.items()}}


def long_runs(lengths: Sequence[int]) -> dict[str, Trial]:
    """What a durable step takes when so many were done before it: one long run of small steps."""

    def trial(kind: type[Awaiting]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            marks: list[float] = []

            def work(number: int) -> State:
                marks.append(perf_counter())
                return {"turn": number}

            window = min(50, lengths[0] // 2)
            with closing(kind(path, Job(lengths[-1] + 1, work))) as engine:
                engine.times(["run"])
            taken = [later - earlier for earlier, later in pairwise(marks)]
            return {f"step_ms@{n}": median(taken[n - window : n]) * MS for n in lengths}

        return measure

    kinds = {name: WORKFLOWS[name] for name in ALIKE if installed(WORKFLOWS[name])}
    return {name: trial(kind) for name, kind in kinds.items()}


def listeners(steps: int) -> dict[str, Trial]:
    """Steps of a workflow in memory, with nobody listening to its events and with some."""

    def trial(listening: Sequence[Any]) -> Trial:
        async def run() -> dict[str, float]:
            async with hf.Engine("memory://", listeners=listening) as engine:
                await engine.run(counting(steps // 10))
                with clocked() as spent:
                    await engine.run(counting(steps))
            return {"cpu_us": spent.cpu / steps * US}

        return lambda path: asyncio.run(run())

    def seen(_: object) -> None: ...

    trials = {"holdfast": trial([]), "a function": trial([seen]), "Metrics": trial([Metrics()])}
    if importlib.util.find_spec("opentelemetry"):
        from holdfast.integrations.otel import Tracing

        trials["Tracing, no SDK"] = trial([Tracing()])
    return trials


@step
async def nothing(number: int) -> int:
    return number


@workflow
async def counting(steps: int) -> int:
    total = 0
    for number in range(steps):
        total += await nothing(number)
    return total


def concurrent(runs: int, steps: int) -> dict[str, Trial]:
    """Many runs at once, their start and end included.

    The floor is group commit at its best: one transaction for a row of every run.
    """

    def measured(together: Callable[[list[str]], float]) -> dict[str, float]:
        together(_names("warm", 3))
        with clocked() as spent:
            seconds = together(_names("run", runs))
        return {"steps_per_s": runs * steps / seconds, "cpu_us": spent.cpu / (runs * steps) * US}

    def trial(kind: type[Awaiting]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            with closing(kind(path, _returning(2 * KB, steps))) as engine:
                return measured(engine.together)

        return measure

    def floor(path: Path) -> dict[str, float]:
        with closing(Floor(path)) as system:
            return measured(
                lambda names: system.together(names, list(cycle(fresh_steps(2 * KB), steps)))
            )

    return {
        "group commit": floor,
        **{name: trial(kind) for name, kind in WORKFLOWS.items() if installed(kind)},
    }


def killed() -> dict[str, Trial]:
    """A run of ten steps that kills itself in the sixth, then a fresh process that finishes it."""

    def trial(name: str) -> Trial:
        return lambda path: restart(name, path)

    kinds: Mapping[str, type[Engine]] = {**WORKFLOWS, "holdfast, graph": HoldfastGraph}
    return {
        "python itself": lambda path: {"done_s": interpreter_seconds()},
        **{name: trial(name) for name, kind in kinds.items() if installed(kind)},
    }


def _one_after_the_other(kind: type[Engine], path: Path, job: Job, runs: int) -> dict[str, float]:
    """Besides whole runs, the time from one step to the next, which their start and end are not in."""
    marks: list[float] = []

    def work(number: int) -> State:
        marks.append(perf_counter())
        return job.work(number)

    with closing(kind(path, Job(job.steps, work, job.start))) as engine:
        engine.times(["warm"])
        marks.clear()
        with clocked() as spent:
            taken = engine.times(_names("run", runs))
    assert len(marks) == runs * job.steps, "every step was done, and once"
    between = [
        later - earlier
        for first in range(0, len(marks), job.steps)
        for earlier, later in pairwise(marks[first : first + job.steps])
    ]
    return {
        "step_ms": median(between) * MS,
        "run_ms": median(taken) * MS,
        "cpu_ms": spent.cpu / len(marks) * MS,
    }


def _floor(path: Path, steps: Sequence[Step], each: int) -> dict[str, float]:
    """One commit for each step, the bytes made beforehand; a run is so many of them."""
    with closing(Floor(path)) as system:
        system.times("warm", cycle(fresh_steps(2 * KB), 3))
        with clocked() as spent:
            taken = system.times("run", steps)
    runs = [sum(taken[first : first + each]) for first in range(0, len(taken), each)]
    return {
        "step_ms": median(taken) * MS,
        "run_ms": median(runs) * MS,
        "cpu_ms": spent.cpu / len(taken) * MS,
    }


def _returning(size: int, steps: int) -> Job:
    """Each step returns so many bytes that have nothing in common with the others'."""
    made = fresh_steps(size)
    return Job(steps, lambda number: made[number % len(made)].state)


def _ten_nodes() -> Job:
    """A state of 2 KB of which each node changes a counter and one message."""
    start, *changed = (copy.deepcopy(step.state) for step in tiny_changes(2 * KB, NODES))
    updates = [{"messages": state["messages"], "turn": state["turn"]} for state in changed]
    return Job(NODES, updates.__getitem__, start)


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]
