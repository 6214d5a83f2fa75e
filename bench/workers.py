"""Workers on PostgreSQL: runs and steps a second for 1, 2 and 4 worker processes.

python -m bench.workers [--runs N] [--quick] [--json FILE]

Each trial has a database of its own, into which the runs are submitted first; then the workers begin
together. Their steps return at once, so what is measured is holdfast and the server. Also what the
server writes for a step, and whose processor time it takes: what saturates first.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg
from tests.processes import descendants
from tests.servers import postgres

import holdfast as hf
from bench.report import arguments, environment, print_table, scratch, write
from holdfast.workflow import step, workflow

STEPS: Final = 6
PROCESSES: Final = (1, 2, 4)
AT_ONCE: Final = 20
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@step
async def add(total: int, n: int) -> int:
    """A step that takes no time."""
    return total + n


@workflow
async def job(n: int) -> int:
    """Six steps, one after the other."""
    total = 0
    for number in range(STEPS):
        total = await add(total, n + number)
    return total


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="how many runs are executed")
    parser.add_argument("--quick", action="store_true", help="200 runs")
    parser.add_argument("--work", nargs=2, metavar=("URL", "GATE"), help="be a worker")
    options = parser.parse_args()
    if options.work:
        _work(*options.work)
        return
    runs = 200 if options.quick else options.runs
    with scratch(options.dir) as directory:
        found = [_trial(directory, processes, runs) for processes in PROCESSES]
    print_table(list(found[0]), [[f"{value:,.1f}" for value in row.values()] for row in found])
    write(options.json, {"environment": environment(), "runs": runs, "results": found})


def _trial(directory: Path, processes: int, runs: int) -> dict[str, float]:
    url = postgres.new_database()
    submitting = asyncio.run(_submit(url, runs))
    gate = directory / f"gate-{processes}"
    command = [sys.executable, "-m", "bench.workers", "--work", url, str(gate)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(processes)]
    for each in started:
        assert each.stdout is not None
        each.stdout.readline()
    with psycopg.connect(url, autocommit=True) as db:
        before = _counters(db)
        server, own = _server_seconds(), _children_seconds()
        began = time.perf_counter()
        gate.touch()
        for each in started:
            if each.wait() != 0:
                raise RuntimeError(f"a worker ended with {each.returncode}")
        seconds = time.perf_counter() - began
        after = _counters(db)
        with closing(hf.open_store(url)) as store:
            completed = store.counts().get("completed", 0)
        if completed != runs:
            raise RuntimeError(f"{completed} of {runs} runs were completed")
        entries = _one(db, "SELECT count(*) FROM holdfast.entries WHERE run !~ '^\x1f'")
        size = _one(
            db,
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE n.nspname = 'holdfast' AND c.relkind = 'r'",
        )
    steps = runs * STEPS
    return {
        "processes": processes,
        "runs/s": runs / seconds,
        "steps/s": steps / seconds,
        "submits/s": runs / submitting,
        "transactions/step": (after["commits"] - before["commits"]) / steps,  # reads, too
        "WAL bytes/step": (after["wal"] - before["wal"]) / steps,
        "stored bytes/entry": float(size) / entries,
        "worker cores": (_children_seconds() - own) / seconds,
        "server cores": (_server_seconds() - server) / seconds,
    }


async def _submit(url: str, runs: int) -> float:
    async with hf.Engine(url) as engine:
        await engine.submit(job(0), run_id="r0")
        began = time.perf_counter()
        for first in range(1, runs, 100):
            last = min(first + 100, runs)
            await asyncio.gather(
                *(engine.submit(job(n), run_id=f"r{n}") for n in range(first, last))
            )
        return time.perf_counter() - began


def _work(url: str, gate: str) -> None:
    async def main() -> None:
        async with hf.Engine(url, flows=[job]) as engine:
            await engine.workers()  # connects
            print("ready", flush=True)
            while not Path(gate).exists():
                await asyncio.sleep(0.002)
            await engine.work(at_once=AT_ONCE, until_idle=True)

    asyncio.run(main())


def _counters(db: psycopg.Connection[Any]) -> dict[str, float]:
    time.sleep(1.1)  # backends report their commits now and then
    query = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    wal = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"
    return {"commits": float(_one(db, query)), "wal": float(_one(db, wal))}


def _one(db: psycopg.Connection[Any], query: str) -> Any:
    row = db.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _server_seconds() -> float:
    """Processor time that the server's processes have taken so far."""
    total = 0
    for pid in descendants(os.getpid()) or ():
        name = Path(f"/proc/{pid}/comm")
        try:
            if "postgres" not in name.read_text():
                continue
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))  # its own, and of those that have ended
    return total / _TICKS


if __name__ == "__main__":
    main()
