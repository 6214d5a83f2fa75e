"""The work that engines are measured with: each workload is a set of trials, one for each engine."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Final

from bench.engine_once import interpreter_seconds, restart
from bench.engines import (
    ENGINES,
    GRAPHS,
    MEMORY,
    NOWHERE,
    WORKFLOWS,
    Awaiting,
    Engine,
    HoldfastGraph,
    Job,
    LangGraph,
    PlainCalls,
    State,
    installed,
)
from bench.inputs import KB, Step, fresh_steps, tiny_changes
from bench.report import Trial
from bench.systems import Floor, cycle

MS: Final = 1000.0
US: Final = 1_000_000.0
NODES: Final = 10


def graph_in_memory(runs: int) -> dict[str, Trial]:
    """A graph of ten nodes run again and again where there is no disk, its start and end included."""
    kinds: dict[str, tuple[type[Awaiting], Path]] = {
        "plain calls": (PlainCalls, NOWHERE),
        "holdfast": (HoldfastGraph, MEMORY),
        "holdfast, no store": (HoldfastGraph, NOWHERE),
        "LangGraph": (LangGraph, MEMORY),
        "LangGraph, no saver": (LangGraph, NOWHERE),
    }

    def trial(kind: type[Awaiting], where: Path) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            with closing(kind(where, _ten_nodes())) as engine:
                engine.times(_names("warm", 3))
                cpu = process_time()
                taken = engine.times(_names("run", runs))
                cpu = process_time() - cpu
            return {
                "step_us": median(taken) / NODES * US,
                "cpu_us": cpu / (runs * NODES) * US,
            }

        return measure

    return {name: trial(*made) for name, made in kinds.items() if installed(made[0])}


def graph_on_disk(runs: int) -> dict[str, Trial]:
    """The same graph, each step durable."""

    def trial(kind: type[Engine]) -> Trial:
        return lambda path: _one_after_the_other(kind, path, _ten_nodes(), runs)

    changes = list(tiny_changes(2 * KB, NODES))[1:]
    return {
        "floor": lambda path: _floor(path, changes * runs, NODES),
        **{name: trial(kind) for name, kind in GRAPHS.items() if installed(kind)},
    }


def workflow(steps: int) -> dict[str, Trial]:
    """One run of many steps, each returning 2 KB that are durable before the next begins."""

    def trial(kind: type[Engine]) -> Trial:
        return lambda path: _one_after_the_other(kind, path, _two_kb(steps), 1)

    return {
        "floor": lambda path: _floor(path, list(cycle(fresh_steps(2 * KB), steps)), steps),
        **{name: trial(kind) for name, kind in ENGINES.items() if installed(kind)},
    }


def concurrent(runs: int, steps: int) -> dict[str, Trial]:
    """Many runs at once, their start and end included.

    The floor is group commit at its best: one transaction for a row of every run.
    """

    def measured(together: Callable[[list[str]], float]) -> dict[str, float]:
        together(_names("warm", 3))
        cpu = process_time()
        seconds = together(_names("run", runs))
        cpu = process_time() - cpu
        return {"steps_per_s": runs * steps / seconds, "cpu_us": cpu / (runs * steps) * US}

    def trial(kind: type[Awaiting]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            with closing(kind(path, _two_kb(steps))) as engine:
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
        cpu = process_time()
        taken = engine.times(_names("run", runs))
        cpu = process_time() - cpu
    assert len(marks) == runs * job.steps, "every step was done, and once"
    between = [
        later - earlier
        for first in range(0, len(marks), job.steps)
        for earlier, later in pairwise(marks[first : first + job.steps])
    ]
    return {
        "step_ms": median(between) * MS,
        "run_ms": median(taken) * MS,
        "cpu_ms": cpu / len(marks) * MS,
    }


def _floor(path: Path, steps: Sequence[Step], each: int) -> dict[str, float]:
    """One commit for each step, the bytes made beforehand; a run is so many of them."""
    with closing(Floor(path)) as system:
        system.times("warm", cycle(fresh_steps(2 * KB), 3))
        cpu = process_time()
        taken = system.times("run", steps)
        cpu = process_time() - cpu
    runs = [sum(taken[first : first + each]) for first in range(0, len(taken), each)]
    return {
        "step_ms": median(taken) * MS,
        "run_ms": median(runs) * MS,
        "cpu_ms": cpu / len(taken) * MS,
    }


def _two_kb(steps: int) -> Job:
    """Each step returns 2 KB that have nothing in common with the others'."""
    made = fresh_steps(2 * KB)
    return Job(steps, lambda number: made[number % len(made)].state)


def _ten_nodes() -> Job:
    """A state of 2 KB of which each node changes a counter and one message."""
    start, *changed = (copy.deepcopy(step.state) for step in tiny_changes(2 * KB, NODES))
    updates = [{"messages": state["messages"], "turn": state["turn"]} for state in changed]
    return Job(NODES, updates.__getitem__, start)


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]
