"""What is stored, as one who opens the store only now finds it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg

import holdfast as hf
from holdfast.model import Entry, Status
from tests.crash.engine_check import Journal, dump

SLOT = "\x1fprocess\x1f"


def journals(url: str) -> dict[str, Journal]:
    """Every run, verified."""
    found = dump(url)
    problems = {run: journal.problems for run, journal in found.items() if journal.problems}
    assert problems == {}
    return found


def statuses(url: str) -> dict[str, str]:
    """How every run stands, child runs included."""
    return {run: journal.status for run, journal in journals(url).items()}


def failures(url: str) -> dict[str, list[Any]]:
    """What is recorded as failed, by run: the journals' error entries."""
    return {
        run: [(e.step, e.value) for e in journal.entries if e.status == Status.FAILED]
        for run, journal in journals(url).items()
        if any(e.status == Status.FAILED for e in journal.entries)
    }


def in_a_transaction(url: str) -> bool:
    """Whether somebody who uses the store, SQLite or PostgreSQL, is about to write."""
    if url.startswith("sqlite:"):
        path = url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            db.execute("ROLLBACK")
            return False
    query = (
        "SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND backend_type = 'client backend' AND xact_start IS NOT NULL"
    )
    with psycopg.connect(url.partition("?")[0], autocommit=True) as server:
        return server.execute(query).fetchone() is not None


def slots(url: str) -> list[Entry]:
    """The rows of the processes that use the store, or used it."""
    with closing(hf.open_store(url)) as store:
        return rows(store)


def rows(store: hf.Store) -> list[Entry]:
    """The same, of an open store."""
    found: list[Entry] = []
    while (row := store.last(f"{SLOT}{len(found)}")) is not None:
        found.append(row)
    return found
