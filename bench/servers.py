"""Saving to servers, side by side with their own drivers and LangGraph's AsyncPostgresSaver.

python -m bench.servers [--quick] [--only WORD] [--json FILE]

The servers are private ones, with their default settings: every commit waits for the disk. A
floor is the plain driver with a batch of rows of three columns in one statement, for all runs at once.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import psycopg
from tests.servers import mariadb, postgres

import holdfast as hf
from bench.inputs import KB, Step, fresh_steps
from bench.report import (
    Goal,
    Measured,
    Trial,
    arguments,
    as_json,
    environment,
    interleave,
    over,
    print_goals,
    print_measured,
    scratch,
    write,
)
from bench.systems import Awaiting, Puts, Together, cycle
from holdfast.model import Entry

HAS_LANGGRAPH: Final = importlib.util.find_spec("langgraph.checkpoint.postgres") is not None
US: Final = 1e6


class Holdfast(Awaiting):
    """`Checkpointer` as a user gets it."""

    def __init__(self, url: str) -> None:
        super().__init__(Path())
        self._checkpointer = hf.Checkpointer(url)

    async def save(self, run: str, step: Step) -> object:
        return await self._checkpointer.save(run, step.state)

    def close(self) -> None:
        self.runner.run(self._checkpointer.close())
        self.runner.close()


class Batches:
    """The store alone, given whole batches: what is left to compare when nobody encodes a state."""

    def __init__(self, url: str) -> None:
        self._store = hf.open_store(url)
        self._seq = 0

    def together(self, runs: Sequence[str], steps: Sequence[Step]) -> float:
        first, names = self._seq, sorted(runs)
        self._seq += len(steps)
        batches = [
            [_entry(run, seq, step.payload) for run in names]
            for seq, step in enumerate(steps, first)
        ]
        start = perf_counter()
        for batch in batches:
            assert all(self._store.append(batch))
        return perf_counter() - start

    def close(self) -> None:
        self._store.close()


class Saver(Awaiting):
    """`AsyncPostgresSaver`."""

    def __init__(self, url: str) -> None:
        super().__init__(Path())
        self._stack = AsyncExitStack()
        self.runner.run(self._open(url))

    async def _open(self, url: str) -> None:
        module = importlib.import_module("langgraph.checkpoint.postgres.aio")
        self._saver: Any = await self._stack.enter_async_context(
            module.AsyncPostgresSaver.from_conn_string(url)
        )
        await self._saver.setup()
        self._puts = Puts(self._saver)

    async def save(self, run: str, step: Step) -> object:
        config = self._puts.config(run)
        saved = await self._saver.aput(config, *self._puts.checkpoint(step.state))
        return self._puts.note(run, saved)

    def close(self) -> None:
        self.runner.run(self._stack.aclose())
        self.runner.close()


class PostgresFloor:
    """One statement for a batch, as psycopg does it best."""

    def __init__(self, url: str) -> None:
        self._db = psycopg.connect(url, autocommit=True)
        self._db.execute(
            'CREATE TABLE raw (run text COLLATE "C", seq bigint, body bytea, PRIMARY KEY (run, seq))'
        )
        self._db.execute("ALTER TABLE raw ALTER body SET STORAGE EXTERNAL")
        self._seq = 0

    def together(self, runs: Sequence[str], steps: Sequence[Step]) -> float:
        names = sorted(runs)
        start = perf_counter()
        for step in steps:
            self._seq += 1
            self._db.execute(
                "INSERT INTO raw SELECT * FROM unnest(%b::text[], %b::int8[], %b::bytea[]) "
                "ON CONFLICT DO NOTHING RETURNING seq",
                (names, [self._seq] * len(names), [step.payload] * len(names)),
            ).fetchall()
        return perf_counter() - start

    def close(self) -> None:
        self._db.close()


class MySQLFloor:
    """One statement for a batch, with hexadecimal digits."""

    def __init__(self, url: str) -> None:
        self._db = mariadb.connect(url)
        self._cursor = self._db.cursor()
        self._cursor.execute(
            "CREATE TABLE raw (run VARBINARY(512), seq BIGINT, body LONGBLOB, PRIMARY KEY (run, seq))"
        )
        self._seq = 0

    def together(self, runs: Sequence[str], steps: Sequence[Step]) -> float:
        names = sorted(runs)
        start = perf_counter()
        for step in steps:
            self._seq += 1
            rows = [f"('{name}',{self._seq},x'{step.payload.hex()}')" for name in names]
            for at in range(0, len(rows), 50):  # what a server takes at once
                self._db.query("INSERT INTO raw VALUES " + ",".join(rows[at : at + 50]))
        return perf_counter() - start

    def close(self) -> None:
        self._db.close()


KINDS: Final[dict[str, dict[str, tuple[Callable[[str], Together], Callable[[], str]]]]] = {
    "PostgreSQL": {
        "driver": (PostgresFloor, postgres.new_database),
        "store": (Batches, postgres.new_database),
        "holdfast": (Holdfast, postgres.new_database),
        **({"AsyncPostgresSaver": (Saver, postgres.new_database)} if HAS_LANGGRAPH else {}),
    },
    "MariaDB": {
        "driver": (MySQLFloor, mariadb.new_url),
        "store": (Batches, mariadb.new_url),
        "holdfast": (Holdfast, mariadb.new_url),
    },
}


def main() -> None:
    """Measure, print the tables, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", default="", help="only workloads whose name holds this")
    options = parser.parse_args()
    results: dict[str, Measured] = {}
    with scratch(options.dir) as directory:
        for server in KINDS:
            for savers in (1, 100):
                for size in (2, 100):
                    name = f"{server}, {savers} at once, {size} KB"
                    if options.only in name:
                        trials = _trials(server, savers, size * KB)
                        results[name] = interleave(directory, 3 if options.quick else 5, trials)
                        print_measured(name, results[name])
    goals = _goals(results)
    print()
    print_goals(goals)
    write(
        options.json,
        {"environment": environment(), "results": results, "goals": as_json(goals)},
    )


def _trials(server: str, savers: int, size: int) -> dict[str, Trial]:
    names = [f"run-{number}" for number in range(savers)]
    saves = max(5, 3_000_000 // (size * savers)) if savers > 1 else 50

    def trial(kind: Callable[[str], Together], new_url: Callable[[], str]) -> Trial:
        def measure(_: Path) -> dict[str, float]:
            with closing(kind(new_url())) as system:
                system.together(names, fresh_steps(size)[:1])  # opens the runs
                cpu = process_time()
                seconds = system.together(names, list(cycle(fresh_steps(size), saves)))
                cpu = process_time() - cpu
            count = savers * saves
            return {"saves_per_s": count / seconds, "cpu_us": cpu / count * US}

        return measure

    return {name: trial(*how) for name, how in KINDS[server].items()}


def _entry(run: str, seq: int, body: bytes) -> Entry:
    return Entry(
        run, seq, "checkpoint", bytes(16), None, bytes(32), "step", seq, None, "open",
        1_700_000_000_000_000, None, len(body), None, None, None, "", body,
    )  # fmt: skip


def _goals(results: dict[str, Measured]) -> list[Goal]:
    postgresql, mysql = (
        results.get(f"{server}, 100 at once, 2 KB", Measured()) for server in KINDS
    )
    rate = "saves_per_s"
    return [
        Goal("PostgreSQL, 100 at once, over AsyncPostgresSaver", "x", 10,
             postgresql.paired("holdfast", "AsyncPostgresSaver", rate, over), at_least=True),
        Goal("PostgreSQL, batches of 100, over the driver's", "x", 0.6,
             postgresql.paired("store", "driver", rate, over), at_least=True),
        Goal("MariaDB, batches of 100, over the driver's", "x", 0.6,
             mysql.paired("store", "driver", rate, over), at_least=True),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
