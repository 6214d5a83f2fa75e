"""Everything that is measured, by name, and how much of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from bench import evidence, flows, histories, many, saves
from bench.inputs import KB, MB
from bench.report import Measured, Trial, interleave


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured: full, quick or, in tests, tiny."""

    seconds: float  # about what the repetitions of one workload may take
    rounds: int  # at most
    graphs: int  # runs of ten nodes
    steps: int  # of a run, and of each of those at once
    at_once: tuple[int, ...]  # runs that are saved to at the same time
    processes: tuple[int, ...]
    saves: int
    turns: tuple[int, ...]  # of a chat
    sizes: tuple[int, ...]  # bytes of a state
    resumed: tuple[int, ...]  # steps, beside peers
    long_resume: int  # steps, holdfast alone
    lengths: tuple[int, ...]  # steps before the one that is timed
    forked: tuple[int, ...]  # checkpoints
    verified: tuple[int, ...]  # checkpoints
    pipeline: tuple[int, ...]  # steps
    runs: tuple[int, ...]  # in a store
    commanded: int  # runs of a store that commands are about
    files: int  # that steps claim
    agent_turns: int
    agent_threads: int


FULL: Final = Sizes(
    seconds=20, rounds=15, graphs=100, steps=10, at_once=(1, 10, 100, 1000), processes=(1, 2, 4),
    saves=2000, turns=(10, 50, 100, 250, 500, 1000), sizes=(KB, 10 * KB, 100 * KB, MB),
    resumed=(100, 1000, 2000), long_resume=100_000, lengths=(100, 1000, 4000),
    forked=(100, 1000, 10_000), verified=(80, 800, 8000), pipeline=(100, 200, 400, 800),
    runs=(1000, 10_000, 100_000), commanded=100_000, files=4000, agent_turns=1000, agent_threads=100,
)  # fmt: skip
QUICK: Final = Sizes(
    seconds=4, rounds=5, graphs=30, steps=10, at_once=(1, 10, 100), processes=(1, 2),
    saves=1000, turns=(10, 100, 1000), sizes=(KB, 100 * KB, MB),
    resumed=(500,), long_resume=10_000, lengths=(100, 500),
    forked=(100, 1000, 10_000), verified=(80, 800), pipeline=(100, 800),
    runs=(1000, 10_000), commanded=3000, files=400, agent_turns=100, agent_threads=50,
)  # fmt: skip


class Workload(NamedTuple):
    """What is measured together: the trials take turns."""

    trials: Callable[[Path], dict[str, Trial]]
    rounds: int | None = None  # at most, if fewer than usual

    def measured(self, directory: Path, sizes: Sizes) -> Measured:
        rounds = min(self.rounds or sizes.rounds, sizes.rounds)
        return interleave(directory, rounds, self.trials(directory), sizes.seconds)


class Agents(NamedTuple):
    """Agents take turns one turn at a time, so they are no trials: see `bench.langgraph`."""

    place: str

    def measured(self, directory: Path, sizes: Sizes) -> Measured:
        from bench import langgraph

        return langgraph.measured(
            self.place, directory, sizes.agent_turns, sizes.agent_threads, sizes.seconds
        )


def workloads(sizes: Sizes) -> dict[str, Workload | Agents]:
    """Everything that is measured, by name."""
    s = sizes
    made: dict[str, Workload | Agents] = {
        "graph": Workload(lambda _: flows.graph_in_memory(s.graphs)),
        "graph state": Workload(lambda _: flows.large_graph(s.sizes, max(2, s.graphs // 20))),
        "builder": Workload(lambda _: flows.building(s.graphs * 20)),
        "workflow": Workload(lambda _: flows.one_run(s.steps * 10)),
        "runs at once": Workload(lambda _: flows.concurrent(100, s.steps), 5),
        "step size": Workload(lambda _: flows.large_steps(s.sizes, s.steps), 5),
        "listeners": Workload(lambda _: flows.listeners(s.graphs * 10)),
        "step history": Workload(lambda _: flows.long_runs(s.lengths), 1),
        "save 100 KB": Workload(lambda _: saves.put(100 * KB, 20)),
        "save 1 MB": Workload(lambda _: saves.put(MB, 10)),
        "tiny change": Workload(lambda _: saves.tiny_change(MB, 50)),
        "save in memory": Workload(lambda _: saves.in_memory(KB, s.graphs * 20)),
        "saves at once": Workload(lambda _: saves.concurrent(s.at_once, s.saves, 2 * KB), 5),
        "processes": Workload(lambda _: saves.processes(s.processes, s.saves // 10), 3),
        "chat": Workload(lambda _: saves.conversation(s.turns), 5),
        "resume": Workload(
            lambda d: histories.resumes(d, s.resumed, "LangGraph, sync", "DBOS, WAL"), 3
        ),
        "long resume": Workload(lambda d: histories.resumes(d, [s.long_resume]), 3),
        "fork": Workload(lambda d: histories.forks(d, s.forked), 5),
        "last verified": Workload(lambda d: histories.last_verified(d, s.verified), 5),
        "pipeline": Workload(lambda _: histories.pipelines(s.pipeline)),
        "slow pipeline": Workload(lambda _: histories.slow_pipeline(min(0.5, s.seconds / 10)), 3),
        "keys": Workload(lambda _: saves.keys((KB, 100 * KB), s.saves // 10)),
        "files": Workload(lambda d: evidence.files(d, s.files, 250 * KB), 5),
        "lists": Workload(lambda d: many.lists(d, s.runs), 3),
        "commands": Workload(lambda d: many.commands(d, s.commanded), 1),
        "kill -9": Workload(lambda _: flows.killed(), 5),
        "agents SQLite": Agents("SQLite"),
        "agents PostgreSQL": Agents("PostgreSQL"),
    }
    return made
