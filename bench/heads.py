"""The heads index: what each question about runs takes in a store with many of them.

python -m bench.heads [--store NAME ...] [--runs N] [--json FILE] [--dir DIRECTORY]

Also what an entry costs that changes its run's row, beside one that changes none. The store is
filled by large batches; times are those of `Store`, in this process.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from tests.servers import mariadb, postgres, redis

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
from holdfast.heads import HOUR
from holdfast.model import Entry
from holdfast.store import RunFilter, Store
from holdfast.testing.invariants import entry
from holdfast.urls import open_store

STORES: Final[dict[str, Callable[[Path], str]]] = {
    "SQLite": lambda directory: f"sqlite:///{directory}/heads.db",
    "DuckDB": lambda directory: f"duckdb:///{directory}/heads.duckdb",
    "PostgreSQL": lambda _: postgres.new_url(),
    "MariaDB": lambda _: mariadb.new_url(),
    "Redis": lambda _: redis.new_url(),
}
_REPETITIONS: Final = 15
_BATCH: Final = 4000
_START: Final = 490_000 * HOUR
_DAYS: Final = 30
_ENDS: Final = {"completed": 90, "failed": 4, "running": 2, "paused": 2, "open": 1, "cancelled": 1}
_LIMITS: Final = {100_000: 20.0, 1_000_000: 40.0}  # milliseconds

Question = Callable[[Store], object]


def main() -> None:
    """Fill, ask, print, write the JSON: one store after the other."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=100_000, help="how many runs there are")
    parser.add_argument(
        "--store", nargs="+", choices=STORES, default=["SQLite", "PostgreSQL"], help="which"
    )
    options = parser.parse_args()
    before = environment()
    results, goals = {}, []
    with scratch(options.dir) as directory:
        for name in options.store:
            with closing(open_store(STORES[name](directory))) as store:
                results[name] = _measured(store, options.runs)
            goals += _goals(name, options.runs, results[name])
    print()
    print_goals(goals)
    write(
        options.json,
        {
            "environment": before,
            "runs": options.runs,
            "results": results,
            "goals": as_json(goals),
        },
    )


def _measured(store: Store, runs: int) -> dict[str, dict[str, float]]:
    started = perf_counter()
    entries = _entries(runs)
    while batch := list(islice(entries, _BATCH)):
        assert all(store.append(batch))
    seconds = perf_counter() - started
    print(f"\n{store.url}: {runs:,} runs, filled in {seconds:.0f} s", flush=True)
    found = {name: _timed(store, ask) for name, ask in _questions(runs).items()}
    rows = [[name, show(own["p50_ms"]), show(own["max_ms"])] for name, own in found.items()]
    print_table(["question", "p50 ms", "max ms"], rows)
    costs = _costs(store)
    print(", ".join(f"{name} {value:.0f}" for name, value in costs.items()))
    return found | {"costs": costs}


def _timed(store: Store, ask: Question) -> dict[str, float]:
    times = []
    for _ in range(_REPETITIONS):
        started = perf_counter()
        ask(store)
        times.append((perf_counter() - started) * 1000)
    return {"p50_ms": quantile(times, 0.5), "max_ms": max(times), "first_ms": times[0]}


def _questions(runs: int) -> dict[str, Question]:
    def page(**wanted: Any) -> Question:
        return lambda store: store.listed(RunFilter(**wanted), limit=50)

    middle = _opened(runs // 2, runs)
    statuses = {f"status {name}": page(status=name) for name in _ENDS}
    return {
        "the 50 newest": page(),
        "a page in the middle": lambda store: store.listed(before=(middle, "r"), limit=50),
        **statuses,
        "two statuses": page(statuses=("failed", "paused")),
        "flow": page(flow="flow-3"),
        "flow and status": page(flow="flow-3", status="failed"),
        "flow and two statuses": page(flow="flow-3", statuses=("failed", "running")),
        "owner": page(owner="owner-7"),
        "owner and status": page(owner="owner-7", status="failed"),
        "thread": page(thread="thread-77"),
        "label": page(labels=("team=4",)),
        "two labels": page(labels=("team=4", "size=1")),
        "a time range": page(since=middle, until=middle + HOUR),
        "a time range and a status": page(since=middle, until=middle + HOUR, status="failed"),
        "asking": page(asking=True),
        "no child runs": page(roots=True),
        "of a holder": page(holder="holder-3"),
        "counts": lambda store: store.counts(),
        "counts of a flow": lambda store: store.counts(RunFilter(flow="flow-3")),
        "due": lambda store: store.due(_START + HOUR, limit=50),
        "due of two flows": lambda store: store.due(
            _START + HOUR, flows=["flow-3", "flow-4"], limit=50
        ),
        "holders": lambda store: store.holders(),
        "a day's tally": lambda store: store.tally(middle, middle + 24 * HOUR),
    }


def _costs(store: Store) -> dict[str, float]:
    """Microseconds of a plain save and of one that changes the row, taken in turns."""
    plain: list[float] = []
    changing: list[float] = []
    for number in range(60):
        run = f"cost-{number}"
        facts: dict[str, Any] = {"flow": "flow-3", "owner": "owner-7"}
        store.append([entry(run, 0, kind="open", status="running", **facts)])
        for seq in range(1, 21):
            turns = seq % 2 == 0
            status, kind = ("paused", "pause") if seq % 4 == 0 else ("running", "claim")
            item = (
                entry(run, seq, b"x" * 200, kind=kind, status=status, **facts)
                if turns
                else entry(run, seq, b"x" * 200, term=0, status="running", **facts)
            )
            started = perf_counter()
            store.append([item])
            (changing if turns else plain).append((perf_counter() - started) * 1e6)
    return {
        "plain_p50_us": quantile(plain, 0.5),
        "changing_p50_us": quantile(changing, 0.5),
        "difference_p50_us": quantile(changing, 0.5) - quantile(plain, 0.5),
    }


def _entries(runs: int) -> Iterator[Entry]:
    source = random.Random("heads")
    ends = list(_ENDS)
    for number in range(runs):
        run, at = f"run-{source.randrange(1 << 48):012x}", _opened(number, runs)
        fields: dict[str, Any] = {
            "flow": f"flow-{source.randrange(20)}",
            "owner": f"owner-{source.randrange(50)}",
            "thread": f"thread-{source.randrange(max(1, runs // 20))}",
        }
        facts: dict[str, Any] = {
            "holder": f"holder-{source.randrange(20)}",
            "labels": {"team": str(source.randrange(20)), "size": str(source.randrange(3))},
        }
        if source.random() < 0.3:
            facts["parent"] = "another@step"
        yield entry(run, 0, kind="open", status="running", at=at, meta=json.dumps(facts), **fields)
        (status,) = source.choices(ends, list(_ENDS.values()))
        if status == "running":
            continue
        facts = {}
        if status == "paused":
            facts = {"questions": source.randrange(2), "due": _START + source.randrange(2 * HOUR)}
        ended = at + source.randrange(HOUR)
        yield entry(run, 1, kind="pause", status=status, at=ended, meta=json.dumps(facts), **fields)


def _opened(number: int, runs: int) -> int:
    return _START + number * _DAYS * 24 * HOUR // runs


def _goals(name: str, runs: int, found: dict[str, dict[str, float]]) -> list[Goal]:
    limit = _LIMITS.get(runs)
    if limit is None:
        return []
    slowest = max((own["p50_ms"], which) for which, own in found.items() if "p50_ms" in own)
    return [
        Goal(f"{name}, {runs:,} runs: slowest question ({slowest[1]})", "ms", limit, slowest[0])
    ]


if __name__ == "__main__":
    main()
