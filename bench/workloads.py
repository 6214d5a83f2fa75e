"""The work that is measured: each workload is a set of trials, one for each system."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from bench.inputs import KB, MB, TURNS, chat, fresh_steps, tiny_changes
from bench.once import first_load_ms
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
from holdfast.codec import values

MS = 1000.0
US = 1_000_000.0


def put(size: int, saves: int) -> dict[str, Trial]:
    """One run, saved to again and again with a wholly different state."""

    def trial(kind: type[System]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            with closing(kind(path)) as system:
                system.times("run", cycle(fresh_steps(size), 3))
                cpu = process_time()
                taken = system.times("run", cycle(fresh_steps(size), saves))
                cpu = process_time() - cpu
            return {
                "save_ms": median(taken) * MS,
                "cpu_ms": cpu / saves * MS,
                "bytes_per_save": bytes_on_disk(path) / (saves + 3),
            }

        return measure

    return {name: trial(kind) for name, kind in SYSTEMS.items()}


def conversation(turns: int = TURNS) -> dict[str, Trial]:
    """A chat saved after each turn, then loaded: by the same object, a fresh one, a fresh process.

    "encoding" is no system: it is what turning each state into bytes takes by itself.
    """

    def trial(name: str, kind: type[Blocking]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            return {
                **chat_on(lambda: kind(path), lambda: bytes_on_disk(path), turns),
                "load_process_ms": first_load_ms(name, path, "chat"),
                **(_body_sizes(path) if kind is Holdfast else {}),
            }

        return measure

    def encoding(path: Path) -> dict[str, float]:
        taken, size = [], 0
        for step in chat(turns):
            start = perf_counter()
            encoded = values.encode(step.state)
            taken.append(perf_counter() - start)
            size += len(encoded)
        return {**_save_times(taken), "us_per_kb": sum(taken) * US / (size / KB)}

    return {**{name: trial(name, kind) for name, kind in BLOCKING.items()}, "encoding": encoding}


def chat_on(
    open_: Callable[[], Blocking], size: Callable[[], int], turns: int = TURNS
) -> dict[str, float]:
    """The chat on one system: its saves, the bytes it takes once closed, loading it."""
    with closing(open_()) as system:
        taken = system.times("chat", chat(turns))
        hot = median(_load_times(system, turns, 20))
    stored = size()
    cold = []
    for _ in range(10):
        with closing(open_()) as system:
            cold += _load_times(system, turns, 1)
    return {
        **_save_times(taken),
        "disk_mb": stored / MB,
        "load_hot_ms": hot * MS,
        "load_cold_ms": median(cold) * MS,
    }


def tiny_change(size: int, saves: int) -> dict[str, Trial]:
    """One large state, of which a counter and one message change from save to save."""

    def trial(kind: type[System]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            with closing(kind(path)) as system:
                taken = system.times("run", tiny_changes(size, saves))[1:]
            return {"save_ms": median(taken) * MS, "disk_mb": bytes_on_disk(path) / MB}

        return measure

    return {name: trial(kind) for name, kind in SYSTEMS.items()}


def concurrent(runs: int, saves: int, size: int) -> dict[str, Trial]:
    """Many runs at once, each saved to one step after the other; their opening is not counted.

    The floor is group commit at its best: one transaction for a row of every run.
    """
    names = [f"run-{number}" for number in range(runs)]

    def trial(kind: Callable[[Path], Together]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            with closing(kind(path)) as system:
                system.together(names, fresh_steps(size)[:1])
                cpu = process_time()
                seconds = system.together(names, list(cycle(fresh_steps(size), saves)))
                cpu = process_time() - cpu
            return {"saves_per_s": runs * saves / seconds, "cpu_us": cpu / (runs * saves) * US}

        return measure

    kinds: dict[str, Callable[[Path], Together]] = {"group commit": Floor, **AWAITING}
    return {name: trial(kind) for name, kind in kinds.items()}


def in_memory(size: int, saves: int) -> dict[str, Trial]:
    """What a save costs where there is no disk."""

    def trial(kind: type[System]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            with closing(kind(MEMORY)) as system:
                taken = system.times("run", cycle(fresh_steps(size), saves + 3))[3:]
            return {"save_us": median(taken) * US}

        return measure

    kinds: dict[str, type[System]] = {"holdfast": Holdfast, "holdfast, awaited": HoldfastAwaited}
    if HAS_LANGGRAPH:
        kinds["InMemorySaver"] = LangGraph
    return {name: trial(kind) for name, kind in kinds.items()}


def _load_times(system: Blocking, turns: int, count: int) -> list[float]:
    taken = []
    for _ in range(count):
        start = perf_counter()
        state = system.load("chat")
        taken.append(perf_counter() - start)
        assert len(state["messages"]) == turns, "what was saved last is what is loaded"
    return taken


def _save_times(taken: list[float]) -> dict[str, float]:
    return {
        "total_s": sum(taken),
        "first_100_ms": median(taken[:100]) * MS,
        "last_100_ms": median(taken[-100:]) * MS,
    }


def _body_sizes(path: Path) -> dict[str, float]:
    """What the saves of a chat took at its beginning and at its end, keyframes left out."""
    query = "SELECT stored_bytes FROM holdfast_checkpoints WHERE run_id = 'chat' ORDER BY sequence"
    with closing(sqlite3.connect(path)) as db:
        sizes = [size for (size,) in db.execute(query)]
    middle = len(sizes) // 2
    return {
        "bytes_per_save": sum(sizes) / len(sizes),
        "median_bytes_1st_half": median(sizes[:middle]),
        "median_bytes_2nd_half": median(sizes[middle:]),
    }
