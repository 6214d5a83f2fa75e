"""Tide tables for many harbours, computed on a Dask cluster whose workers may die at any time.

    python examples/dask_harbours.py               # starts a cluster of three processes, here
    python examples/dask_harbours.py --kill        # kills one of them in the midst of its work
    python -m dask_harbours --scheduler tcp://host:8786 --store postgresql://user:password@host/db

It needs the extra `dask`. Kill it and start it again: nothing that was finished is computed again.
The last line uses a cluster of yours, where workers must be able to import dask_harbours: see
docs/guides/dask.md. What it shows:

* one run per harbour, executed by whichever worker is free; when a worker dies, Dask gives its runs
  to another, which continues them after their last recorded step;
* another run that is executed here, and has its steps executed by the workers.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import time
from contextlib import suppress
from typing import Any

try:
    from distributed import Client, LocalCluster, as_completed
except ImportError:
    raise SystemExit("this needs Dask: in the clone, pip install '.[dask]'") from None

import holdfast as hf
from holdfast.integrations.dask import run_on, submit
from holdfast.workflow import for_each, step, workflow

HARBOURS = ["Brest", "Calais", "Cardiff", "Dover", "Galway", "Hull", "Leith", "Oban", "Vigo"]
PERIODS = [12.42, 12.0, 23.93, 25.82]  # hours: moon and sun, twice and once a day


@step
def measure(harbour: str) -> list[float]:
    """How much each period counts there: here, made up from the name."""
    time.sleep(0.1)
    letters = [ord(letter) for letter in harbour.lower()]
    return [sum(letters[part:]) % 97 / 40 for part in range(len(PERIODS))]


@step
def predict(parts: list[float], day: int) -> list[float]:
    """The level at each hour of a day."""
    time.sleep(0.05)
    hours = range(24 * day, 24 * day + 24)
    return [
        sum(
            part * math.cos(math.tau * hour / period)
            for part, period in zip(parts, PERIODS, strict=True)
        )
        for hour in hours
    ]


@workflow
async def tide_table(harbour: str, days: int) -> list[float]:
    """The highest level of each day: one run, with a step for each day."""
    parts = await measure(harbour)
    return [max(await predict(parts, day)) for day in range(days)]


def spread(levels: list[float]) -> float:
    """How much the days differ."""
    return max(levels) - min(levels)


@workflow
async def compare(tables: dict[str, list[float]]) -> str:
    """The harbour where the days differ most. This run is executed here, its steps are not."""
    found = await for_each(list(tables.values()), spread, run_on=run_on())
    widest = max(zip(found, tables, strict=True))
    return f"{len(tables)} harbours; the days differ most in {widest[1]}, by {widest[0]:.2f} m"


def compute(client: Client, store: str, days: int, kill: bool) -> str:
    """Submit a run for each harbour, and compare their results."""
    runs = {
        submit(client, tide_table(name, days), run_id=f"{name}-{days}", store=store): name
        for name in HARBOURS
    }
    tables: dict[str, list[float]] = {}
    results: Any = as_completed(runs, with_results=True)
    for future, table in results:
        tables[runs[future]] = table
        print(f"{runs[future]}: {max(table):.2f} m", flush=True)
        if kill and len(tables) == 2:
            kill_one(client)
    with hf.Engine(store) as engine:
        ordered = {name: tables[name] for name in HARBOURS}
        return engine.run_sync(compare(ordered), run_id=f"compare-{days}", resume=True)


def kill_one(client: Client) -> None:
    """What the kernel does when memory is short."""
    pid = next(iter(client.run(os.getpid).values()))
    print("killing worker process", pid, flush=True)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def main() -> None:
    """Compute the tables, or what is left to be computed."""
    parser = argparse.ArgumentParser(description="tide tables from a Dask cluster")
    parser.add_argument("--days", type=int, default=10, help="days in each table (10)")
    parser.add_argument("--store", default="sqlite:///harbours.db", help="URL (harbours.db here)")
    parser.add_argument("--scheduler", help="address of a cluster; by default one is started here")
    parser.add_argument("--kill", action="store_true", help="kill a worker on the way")
    options = parser.parse_args()
    if options.scheduler:
        with Client(options.scheduler) as client:
            print("done:", compute(client, options.store, options.days, kill=False))
        return
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        print("done:", compute(client, options.store, options.days, options.kill))


if __name__ == "__main__":
    main()
