"""The write-ahead log of a SQLite store stays small, also where others read for long."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest

from holdfast.stores import SQLiteStore
from holdfast.stores.sqlite import connections
from holdfast.testing.invariants import entry
from tests import faults

LARGE: Final = connections.LARGE_WAL
BODY: Final = bytes(100_000)
MANY: Final = 3 * LARGE // len(BODY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    with closing(SQLiteStore(path, survives="process-crash")) as store:
        store.append([entry("run", 0)])
        yield store


def wal(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A program that began to read and has not come to its end."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        begin(db)
        yield db


def begin(db: sqlite3.Connection) -> None:
    db.execute("BEGIN")
    db.execute("SELECT count(*) FROM holdfast_entries").fetchone()


def test_the_log_shrinks_again_after_a_long_reader(store: SQLiteStore, path: Path) -> None:
    with reading(path):
        for seq in range(1, MANY):
            store.append([entry("run", seq, BODY)])
        assert wal(path) > 2 * LARGE
    for seq in range(MANY, MANY + 3):
        store.append([entry("run", seq, b"small")])
    assert wal(path) <= LARGE
    assert len(store.read("run", limit=2 * MANY, bodies=False)) == MANY + 3


def test_it_shrinks_between_readers_who_take_turns(store: SQLiteStore, path: Path) -> None:
    """Each begins before the other ends, so that the log is never unused for long."""
    largest = 0
    with reading(path) as one, reading(path) as other:

        def pause() -> None:
            for db in (one, other):
                if db.in_transaction:
                    db.execute("COMMIT")

        for seq in range(1, MANY):
            with faults.at("sqlite.wal.shrink", pause):
                store.append([entry("run", seq, BODY)])
            largest = max(largest, wal(path))
            one, other = other, one
            if one.in_transaction:
                one.execute("COMMIT")
            begin(one)
            if not other.in_transaction:
                begin(other)
    assert largest < 2 * LARGE


def test_saves_go_on_while_a_reader_keeps_the_log_from_shrinking(
    store: SQLiteStore, path: Path
) -> None:
    with reading(path), faults.record() as passed:
        for seq in range(1, MANY):
            assert store.append([entry("run", seq, BODY)]) == [True]
    attempts = passed.count("sqlite.wal.shrink")
    assert 1 <= attempts <= 1 + MANY * 2 * len(BODY) // LARGE, "not after every commit"


def test_a_log_that_cant_be_shrunk_fails_no_save(store: SQLiteStore, path: Path) -> None:
    def fail() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with reading(path), faults.at("sqlite.wal.shrink", fail):
        for seq in range(1, MANY):
            assert store.append([entry("run", seq, BODY)]) == [True]
