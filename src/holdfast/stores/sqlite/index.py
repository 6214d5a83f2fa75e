"""The heads index in a SQLite file: how its rows are written, checked and made anew."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from holdfast.heads import NOW, RowChange, RunHead, Tally, applied, change_of, differences, fold
from holdfast.model import Entry
from holdfast.scanning import summed, tallied
from holdfast.stores._shared.index import HEAD_COLUMNS, as_head, as_row, labels_text
from holdfast.stores._shared.table import NO_BODY

TABLES: Final = ("run_heads", "run_labels", "run_tally")

SCHEMA: Final = """
    CREATE TABLE run_heads (
        run TEXT PRIMARY KEY NOT NULL, opened INTEGER NOT NULL, changed INTEGER NOT NULL,
        status TEXT NOT NULL, flow TEXT, thread TEXT, owner TEXT, parent TEXT, holder TEXT,
        due INTEGER, questions INTEGER NOT NULL, labels TEXT NOT NULL, seq INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX run_heads_opened ON run_heads (opened, run);
    CREATE INDEX run_heads_status ON run_heads (status, opened, run, flow);
    CREATE INDEX run_heads_flow ON run_heads (flow, opened, run) WHERE flow IS NOT NULL;
    CREATE INDEX run_heads_owner ON run_heads (owner, opened, run) WHERE owner IS NOT NULL;
    CREATE INDEX run_heads_thread ON run_heads (thread, opened, run) WHERE thread IS NOT NULL;
    CREATE INDEX run_heads_holder ON run_heads (holder, opened, run) WHERE holder IS NOT NULL;
    CREATE INDEX run_heads_due ON run_heads (due, run) WHERE due IS NOT NULL;
    CREATE INDEX run_heads_due_of_flow ON run_heads (flow, due, run)
        WHERE due IS NOT NULL AND parent IS NULL;
    CREATE INDEX run_heads_due_child ON run_heads (due, run)
        WHERE due IS NOT NULL AND parent IS NOT NULL;
    CREATE INDEX run_heads_asking ON run_heads (opened, run) WHERE questions > 0;
    CREATE INDEX run_heads_roots ON run_heads (opened, run) WHERE parent IS NULL;
    CREATE TABLE run_labels (
        label TEXT NOT NULL, opened INTEGER NOT NULL, run TEXT NOT NULL,
        PRIMARY KEY (label, opened, run)
    ) WITHOUT ROWID;
    CREATE TABLE run_tally (
        hour INTEGER NOT NULL, flow TEXT NOT NULL, what TEXT NOT NULL, bucket INTEGER NOT NULL,
        n INTEGER NOT NULL, total INTEGER NOT NULL, PRIMARY KEY (hour, flow, what, bucket)
    ) WITHOUT ROWID;
"""

_PAGE: Final = 500
_ROW: Final = ", ".join("?" * len(RunHead._fields))
_FIND: Final = f"SELECT {HEAD_COLUMNS} FROM run_heads WHERE run = ?"  # noqa: S608 - constants
_INSERT: Final = f"INSERT INTO run_heads ({HEAD_COLUMNS}) VALUES ({_ROW})"  # noqa: S608
_DELETE: Final = "DELETE FROM run_heads WHERE run = ?"
_LABEL: Final = "INSERT OR REPLACE INTO run_labels (label, opened, run) VALUES (?, ?, ?)"
_UNLABEL: Final = "DELETE FROM run_labels WHERE label = ? AND opened = ? AND run = ?"
_COUNT: Final = (
    "INSERT INTO run_tally (hour, flow, what, bucket, n, total) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET n = n + excluded.n, total = total + excluded.total"
)
_JOURNAL: Final = f"SELECT {NO_BODY}, x'' FROM entries AS e WHERE e.run = ? ORDER BY e.seq"  # noqa: S608
_RUNS: Final = "SELECT DISTINCT run FROM entries WHERE run > ? AND run >= ' ' ORDER BY run LIMIT ?"
_INDEXED: Final = "SELECT run FROM run_heads WHERE run > ? ORDER BY run LIMIT ?"
_NOW: Final = (
    f"SELECT {NOW}, coalesce(flow, ''), status, 0, count(*), 0 FROM run_heads "  # noqa: S608
    "GROUP BY coalesce(flow, ''), status"
)


def change(db: sqlite3.Connection, changes: Sequence[RowChange]) -> None:
    """RowChange rows and statistics, in the transaction that appends what changes them."""
    counted: list[Tally] = []
    for each in changes:
        before = _find(db, each.run)
        counted += differences(before, each)
        _put(db, before, applied(before, each))
    db.executemany(_COUNT, summed(counted) if len(changes) > 1 else counted)


def change_by(db: sqlite3.Connection, entry: Entry) -> None:
    """RowChange the row of one entry's run."""
    found = change_of([entry])
    if found is not None:
        change(db, [found])


def build(db: sqlite3.Connection) -> None:
    """Make the index of a file that has none, in a transaction."""
    counted: list[Tally] = []
    for run in _names(db, _RUNS):
        journal = _journal(db, run)
        _put(db, None, fold(journal))
        counted += tallied(journal)
        if len(counted) > _PAGE:
            counted = summed(counted)
    db.executemany(_COUNT, [each for each in summed(counted) if each.hour != NOW])
    _count_anew(db)


def wrong_runs(db: sqlite3.Connection) -> list[str]:
    """The runs whose rows are not what their journals say."""
    wrong = [run for run in _names(db, _RUNS) if _find(db, run) != fold(_journal(db, run))]
    known = set(wrong)
    gone = (run for run in _names(db, _INDEXED) if not db.execute(_JOURNAL, (run,)).fetchone())
    return wrong + [run for run in gone if run not in known]


def wrong_counts(db: sqlite3.Connection) -> int:
    """How many numbers of runs by flow and status are not what the rows say."""
    said = db.execute(
        f"SELECT hour, flow, what, bucket, n, total FROM run_tally WHERE hour = {NOW} AND n <> 0"  # noqa: S608
    ).fetchall()
    return len(set(said) ^ set(db.execute(_NOW).fetchall()))


def correct(db: sqlite3.Connection, runs: Iterable[str]) -> None:
    """Make the rows of these runs anew, in a transaction."""
    for run in runs:
        _put(db, _find(db, run), fold(_journal(db, run)))
    _count_anew(db)


def _count_anew(db: sqlite3.Connection) -> None:
    db.execute(f"DELETE FROM run_tally WHERE hour = {NOW}")  # noqa: S608
    db.execute(f"INSERT INTO run_tally (hour, flow, what, bucket, n, total) {_NOW}")


def _find(db: sqlite3.Connection, run: str) -> RunHead | None:
    found = db.execute(_FIND, (run,)).fetchone()
    return None if found is None else as_head(found)


def _put(db: sqlite3.Connection, before: RunHead | None, row: RunHead | None) -> None:
    """Replace a row. Only columns that differ are written: every other index stays as it is."""
    if before is not None and (row is None or row.position != before.position):
        db.execute(_DELETE, (before.run,))
        _unlabel(db, before)
        before = None
    if row is None:
        return
    if before is None:
        db.execute(_INSERT, as_row(row))
        _label(db, row)
        return
    if row.labels != before.labels:
        _unlabel(db, before)
        _label(db, row)
    differ = [
        (name, labels_text(row.labels) if name == "labels" else value)
        for name, value, old in zip(RunHead._fields, row, before, strict=True)
        if value != old
    ]
    if differ:
        columns = ", ".join(f"{name} = ?" for name, _ in differ)
        values = [value for _, value in differ]
        db.execute(f"UPDATE run_heads SET {columns} WHERE run = ?", [*values, row.run])  # noqa: S608


def _label(db: sqlite3.Connection, row: RunHead) -> None:
    if row.labels:
        db.executemany(_LABEL, [(label, row.opened, row.run) for label in row.labels])


def _unlabel(db: sqlite3.Connection, row: RunHead) -> None:
    if row.labels:
        db.executemany(_UNLABEL, [(label, row.opened, row.run) for label in row.labels])


def _names(db: sqlite3.Connection, query: str) -> Iterator[str]:
    after = ""
    while page := db.execute(query, (after, _PAGE)).fetchall():
        yield from chain.from_iterable(page)
        (after,) = page[-1]


def _journal(db: sqlite3.Connection, run: str) -> list[Entry]:
    return list(map(Entry._make, db.execute(_JOURNAL, (run,))))
