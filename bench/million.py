"""A store that fills up: do saving, loading and listing stay as fast as when it was empty?

python -m bench.million [--store NAME ...] [--rows N] [--json FILE] [--dir DIRECTORY]

Run ids are random, the worst case for an index. Most runs have a few dozen checkpoints, a few have
thousands. It is filled by large batches; measuring waits for the disk at every save.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Final

import holdfast as hf
from bench.inputs import KB, State, fresh_steps
from bench.report import (
    Goal,
    arguments,
    as_json,
    environment,
    print_goals,
    print_table,
    quantile,
    scratch,
    show,
    write,
)
from bench.server_systems import SERVERS, SQLITE, Server
from bench.systems import Together

STORES: Final = {"SQLite": SQLITE} | {
    name: SERVERS[name] for name in ("PostgreSQL", "MariaDB", "Redis")
}
SIZES: Final = (0, 1_000, 10_000, 100_000, 1_000_000)
PROBES: Final = 300
_BATCH: Final = 4000
_AT_ONCE: Final = 20  # runs that grow side by side
_SETTLE_SECONDS: Final = 60.0
_LONG: Final = 0.0005  # the share of runs that have thousands of checkpoints


def main() -> None:
    """Fill, measure at each size, print, write the JSON: one store after the other."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=SIZES[-1], help="checkpoints in the end")
    parser.add_argument(
        "--store", nargs="+", choices=STORES, default=list(STORES), help="which, instead of all"
    )
    options = parser.parse_args()
    sizes = [*(size for size in SIZES if size < options.rows), options.rows]
    before = environment()
    results, goals = {}, []
    with scratch(options.dir) as directory:
        for name in options.store:
            print(f"\n{name}", flush=True)
            filled = _measure(STORES[name], directory, sizes)
            _print_table(sizes, filled)
            results[name] = dict(zip(map(str, sizes), filled, strict=True))
            goals += _goals(name, filled)
    print()
    print_goals(goals)
    write(options.json, {"environment": before, "results": results, "goals": as_json(goals)})


def _measure(store: Server, directory: Path, sizes: list[int]) -> list[dict[str, float]]:
    url = store.new_url(directory / "store.db")
    rows, runs = _rows(random.Random("rows")), set[str]()
    with closing(store.driver(store.new_url(directory / "driver.db"))) as driver:
        filled = [_probe(url, driver, ["first"])]
        _print(0, filled[0])
        for before, size in pairwise(sizes):
            seconds = _fill(url, islice(rows, size - before), runs)
            _settle(driver, filled[0]["commit_p50_us"] / 1e6)
            filled.append(_probe(url, driver, sorted(runs)))
            filled[-1] |= {"filled_per_s": (size - before) / seconds, "runs": len(runs)}
            _print(size, filled[-1])
    return filled


def _goals(store: str, filled: list[dict[str, float]]) -> list[Goal]:
    """Flat means: full over empty or, for reading, over the first size with enough to read."""

    def flat(what: str, base: int) -> Goal:
        grown = filled[-1][what] / filled[base][what] if base < len(filled) else None
        first = "empty" if base == 0 else "first filling"
        return Goal(f"{store}, {what}, full over {first}", "x", 1.5, grown)

    return [
        flat("save_p50_us", 0),
        flat("save_over_commit", 0),
        *(flat(what, 2) for what in ("load_p50_us", "list_20_p50_us", "runs_100_p50_us")),
    ]


def _rows(rng: random.Random) -> Iterator[tuple[str, int]]:
    """Runs and step numbers, as many as are asked for; `_AT_ONCE` runs grow side by side."""
    growing: list[list[Any]] = []
    while True:
        if len(growing) < _AT_ONCE:
            length = rng.randrange(2000, 8000) if rng.random() < _LONG else rng.randrange(2, 40)
            growing.append([f"{rng.getrandbits(48):012x}", 0, length])
        at = rng.randrange(len(growing))
        run, number, length = growing[at]
        yield run, number
        growing[at][1] += 1
        if growing[at][1] == length:
            growing[at] = growing[-1]
            growing.pop()


def _fill(url: str, rows: Iterator[tuple[str, int]], runs: set[str]) -> float:
    start = perf_counter()
    with hf.SyncCheckpointer(url) as checkpointer:
        while batch := list(islice(rows, _BATCH)):
            checkpointer.save_many(
                {"run_id": run, "state": _state(run, number), "step": f"step-{number}"}
                for run, number in batch
            )
            runs.update(run for run, _ in batch)
    return perf_counter() - start


def _settle(driver: Together, usual: float) -> None:
    """Wait until the server has done what it put off while it was being filled.

    Plain commits to a table that does not grow are then as fast as they were.
    """
    until = perf_counter() + _SETTLE_SECONDS
    step = fresh_steps(2 * KB)[:1]
    while perf_counter() < until:
        if quantile([driver.together(["settle"], step) for _ in range(50)], 0.5) < 1.1 * usual:
            return
        sleep(1)
    print(f"commits are still slower than at first, after {_SETTLE_SECONDS:g} s", flush=True)


def _state(run: str, number: int) -> State:
    return {"run": run, "turn": number, "done": [f"{run}-{number}"], "score": number * 0.37}


def _probe(url: str, driver: Together, runs: list[str]) -> dict[str, float]:
    """Everything at the store's present size. The driver commits the same bytes in between.

    The reader keeps no states in memory, so that every load asks the store.
    """
    rng = random.Random("probe")
    steps = fresh_steps(2 * KB)
    with (
        hf.SyncCheckpointer(url) as saver,
        hf.SyncCheckpointer(url, cache_bytes=0) as reader,
    ):
        chosen = [rng.choice(runs) for _ in range(20)]
        for run in chosen:
            saver.save(run, steps[0].state)
        saves, commits = [], []
        for number in range(PROBES):
            run, step = chosen[number % len(chosen)], steps[number % len(steps)]
            saves.append(_timed(partial(saver.save, run, step.state)))
            commits.append(driver.together([run], [step]))
        picked = rng.choices(runs, k=PROBES)
        loads = [_timed(partial(reader.load, run)) for run in picked]
        lists = [_timed(partial(reader.list_checkpoints, run)) for run in picked]
        pages = [_timed(partial(reader.runs, after=run)) for run in picked]
    return {
        **_quantiles("save", saves),
        "commit_p50_us": quantile(commits, 0.5) * 1e6,
        "save_over_commit": quantile(saves, 0.5) / quantile(commits, 0.5),
        **_quantiles("load", loads),
        **_quantiles("list_20", lists),
        **_quantiles("runs_100", pages),
    }


def _timed(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _quantiles(what: str, taken: list[float]) -> dict[str, float]:
    return {
        f"{what}_p50_us": quantile(taken, 0.5) * 1e6,
        f"{what}_p95_us": quantile(taken, 0.95) * 1e6,
    }


def _print_table(sizes: list[int], filled: list[dict[str, float]]) -> None:
    print_table(
        ["checkpoints", *(f"{size:,}" for size in sizes)],
        [
            [name, *(show(row[name]) if name in row else "" for row in filled)]
            for name in filled[-1]
        ],
    )


def _print(size: int, row: dict[str, float]) -> None:
    print(f"{size:>9,} checkpoints: save p50 {row['save_p50_us']:.0f} us", flush=True)


if __name__ == "__main__":
    main()
