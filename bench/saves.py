"""The work that savers are measured with: each workload is a set of trials, one for each system."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import holdfast as hf
from bench.clock import MS, US, clocked
from bench.fresh import first_load_ms, save_together
from bench.inputs import MB, TURNS, chat, fresh_steps, tiny_changes
from bench.report import Trial
from bench.systems import (
    AWAITING,
    BLOCKING,
    HAS_LANGGRAPH,
    MEMORY,
    SYSTEMS,
    Blocking,
    Floor,
    Holdfast,
    HoldfastAwaited,
    LangGraph,
    System,
    Together,
    bytes_on_disk,
    cycle,
)


def put(size: int, saves: int) -> dict[str, Trial]:
    """One run, saved to again and again with a wholly different state."""

    def trial(kind: type[System]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            with closing(kind(path)) as system:
                system.times("run", cycle(fresh_steps(size), 3))
                with clocked() as spent:
                    taken = system.times("run", cycle(fresh_steps(size), saves))
            return {
                "save_ms": median(taken) * MS,
                "cpu_ms": spent.cpu / saves * MS,
                "bytes_per_save": bytes_on_disk(path) / (saves + 3),
            }

        return measure

    return {name: trial(kind) for name, kind in SYSTEMS.items()}


def conversation(lengths: Sequence[int]) -> dict[str, Trial]:
    """A chat saved after each turn, then loaded: by the same object, a fresh one, a fresh process.

    What a save took and the file has is noted at each of the lengths; the last is the chat's end.
    """

    def trial(name: str, kind: type[Blocking]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            return {
                **chat_on(lambda: kind(path), lambda: bytes_on_disk(path), lengths),
                "load_process_ms": first_load_ms(name, path, "chat"),
            }

        return measure

    return {name: trial(name, kind) for name, kind in BLOCKING.items()}


def chat_on(
    open_: Callable[[], Blocking], size: Callable[[], int], lengths: Sequence[int] = (TURNS,)
) -> dict[str, float]:
    """The chat on one system: its saves, the bytes it takes, loading it hot and cold."""
    turns, found = lengths[-1], dict[str, float]()
    with closing(open_()) as system:
        steps, taken = chat(turns), list[float]()
        for length in lengths:
            taken += system.times("chat", islice(steps, length - len(taken)))
            found[f"save_ms@{length}"] = median(taken[-min(50, length) :]) * MS
            if length < turns:
                found[f"disk_mb@{length}"] = size() / MB
        with clocked() as warm:
            hot = median(_load_times(system, turns, 20))
    found[f"disk_mb@{turns}"] = size() / MB
    cold, cpu = list[float](), 0.0
    for _ in range(10):
        with closing(open_()) as system, clocked() as spent:
            cold += _load_times(system, turns, 1)
        cpu += spent.cpu
    return {
        **found,
        "total_s": sum(taken),
        "load_hot_ms": hot * MS,
        "load_hot_cpu_ms": warm.cpu / 20 * MS,
        "load_cold_ms": median(cold) * MS,
        "load_cold_cpu_ms": cpu / 10 * MS,
    }


def tiny_change(size: int, saves: int) -> dict[str, Trial]:
    """One large state, of which a counter and one message change from save to save."""

    def trial(kind: type[System]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            with closing(kind(path)) as system:
                steps = tiny_changes(size, saves)
                system.times("run", islice(steps, 1))
                with clocked():
                    taken = system.times("run", steps)
            return {"save_ms": median(taken) * MS, "disk_mb": bytes_on_disk(path) / MB}

        return measure

    return {name: trial(kind) for name, kind in SYSTEMS.items()}


def concurrent(counts: Sequence[int], saves: int, size: int) -> dict[str, Trial]:
    """So many runs at once, each saved to one step after the other; their opening is not counted.

    The floor is group commit at its best: one transaction for a row of every run.
    """

    def trial(kind: Callable[[Path], Together]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            found = {}
            for runs in counts:
                names = [f"run-{runs}-{number}" for number in range(runs)]
                steps = list(cycle(fresh_steps(size), max(saves // runs, 5)))
                with closing(kind(path.with_name(f"{runs}.db"))) as system:
                    system.together(names, fresh_steps(size)[:1])
                    with clocked() as spent:
                        seconds = system.together(names, steps)
                done = runs * len(steps)
                found[f"saves_per_s@{runs}"] = done / seconds
                found[f"cpu_us@{runs}"] = spent.cpu / done * US
            return found

        return measure

    kinds: dict[str, Callable[[Path], Together]] = {"group commit": Floor, **AWAITING}
    return {name: trial(kind) for name, kind in kinds.items()}


def in_memory(size: int, saves: int) -> dict[str, Trial]:
    """What a save costs where there is no disk."""

    def trial(kind: type[System]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            with closing(kind(MEMORY)) as system:
                system.times("run", cycle(fresh_steps(size), 3))
                with clocked() as spent:
                    taken = system.times("run", cycle(fresh_steps(size), saves))
            return {"save_us": median(taken) * US, "cpu_us": spent.cpu / saves * US}

        return measure

    kinds: dict[str, type[System]] = {"holdfast": Holdfast, "holdfast, awaited": HoldfastAwaited}
    if HAS_LANGGRAPH:
        kinds["InMemorySaver"] = LangGraph
    return {name: trial(kind) for name, kind in kinds.items()}


def keys(sizes: Sequence[int], saves: int) -> dict[str, Trial]:
    """The same saves plain, encrypted, signed, and with their heads remembered elsewhere."""
    kinds: dict[str, Callable[[Path], dict[str, Any]]] = {
        "plain": lambda _: {},
        "encrypted": lambda _: {"key": hf.Keyring({"bench": os.urandom(32)})},
        "signed, HMAC": lambda _: {"sign": hf.SigningKey.hmac("bench", os.urandom(32))},
        "signed, Ed25519": lambda _: {"sign": hf.SigningKey.ed25519("bench", os.urandom(32))},
        "remembered": lambda path: {"remember": path.with_name("heads.db")},
    }

    def trial(options: Callable[[Path], dict[str, Any]]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            found = {}
            for size in sizes:
                with hf.SyncCheckpointer(path, **options(path)) as cp:
                    cp.save(f"run-{size}", {"warm": True})
                    with clocked() as spent:
                        for made in cycle(fresh_steps(size), saves):
                            cp.save(f"run-{size}", made.state)
                path = path.with_name(f"{size}.db")
                found[f"save_us@{size}"] = spent.seconds / saves * US
                found[f"cpu_us@{size}"] = spent.cpu / saves * US
            return found

        return measure

    return {name: trial(options) for name, options in kinds.items()}


def processes(counts: Sequence[int], saves: int) -> dict[str, Trial]:
    """So many processes that save 2 KB each to runs of their own, in one SQLite file."""

    def trial(name: str) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            return {
                f"saves_per_s@{count}": saves * count / save_together(name, path, count, saves)
                for count in counts
            }

        return measure

    return {name: trial(name) for name in BLOCKING}


def _load_times(system: Blocking, turns: int, count: int) -> list[float]:
    taken = []
    for _ in range(count):
        start = perf_counter()
        state = system.load("chat")
        taken.append(perf_counter() - start)
        assert len(state["messages"]) == turns, "what was saved last is what is loaded"
    return taken
