"""The heads index in a SQLite file: how its rows are written, checked and made anew."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.heads import NOW, RowChange, RunHead, Tally, applied, change_of, differences
from holdfast.model import Entry
from holdfast.scanning import summed
from holdfast.stores._shared.index import HEAD_COLUMNS, as_head, as_row, labels_text
from holdfast.stores._shared.rebuilding import NOW_COLUMNS, Journals

PREFIX: Final = "holdfast_"
"""What the names of all tables and indexes begin with: the file may have others of its program."""

ENTRIES: Final = f"{PREFIX}entries"
TABLES: Final = (f"{PREFIX}run_heads", f"{PREFIX}run_labels", f"{PREFIX}run_tally")

SCHEMA: Final = """
    CREATE TABLE holdfast_run_heads (
        run TEXT PRIMARY KEY NOT NULL, opened INTEGER NOT NULL, changed INTEGER NOT NULL,
        status TEXT NOT NULL, flow TEXT, thread TEXT, owner TEXT, parent TEXT, holder TEXT,
        due INTEGER, questions INTEGER NOT NULL, labels TEXT NOT NULL, seq INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX holdfast_run_heads_opened ON holdfast_run_heads (opened, run);
    CREATE INDEX holdfast_run_heads_status ON holdfast_run_heads (status, opened, run, flow);
    CREATE INDEX holdfast_run_heads_flow ON holdfast_run_heads (flow, opened, run)
        WHERE flow IS NOT NULL;
    CREATE INDEX holdfast_run_heads_owner ON holdfast_run_heads (owner, opened, run)
        WHERE owner IS NOT NULL;
    CREATE INDEX holdfast_run_heads_thread ON holdfast_run_heads (thread, opened, run)
        WHERE thread IS NOT NULL;
    CREATE INDEX holdfast_run_heads_holder ON holdfast_run_heads (holder, opened, run)
        WHERE holder IS NOT NULL;
    CREATE INDEX holdfast_run_heads_due ON holdfast_run_heads (due, run)
        WHERE due IS NOT NULL;
    CREATE INDEX holdfast_run_heads_due_of_flow ON holdfast_run_heads (flow, due, run)
        WHERE due IS NOT NULL AND parent IS NULL;
    CREATE INDEX holdfast_run_heads_due_child ON holdfast_run_heads (due, run)
        WHERE due IS NOT NULL AND parent IS NOT NULL;
    CREATE INDEX holdfast_run_heads_asking ON holdfast_run_heads (opened, run) WHERE questions > 0;
    CREATE INDEX holdfast_run_heads_roots ON holdfast_run_heads (opened, run) WHERE parent IS NULL;
    CREATE TABLE holdfast_run_labels (
        label TEXT NOT NULL, opened INTEGER NOT NULL, run TEXT NOT NULL,
        PRIMARY KEY (label, opened, run)
    ) WITHOUT ROWID;
    CREATE TABLE holdfast_run_tally (
        hour INTEGER NOT NULL, flow TEXT NOT NULL, what TEXT NOT NULL, bucket INTEGER NOT NULL,
        n INTEGER NOT NULL, total INTEGER NOT NULL, PRIMARY KEY (hour, flow, what, bucket)
    ) WITHOUT ROWID;
"""

COUNTED: Final = """
    DROP INDEX holdfast_run_heads_roots;
    CREATE INDEX holdfast_run_heads_roots ON holdfast_run_heads (opened, run, status, parent)
        WHERE parent IS NULL;
"""
"""Counts of runs that are no child runs need this index alone: `parent` is in it for SQLite."""

_ROW: Final = ", ".join("?" * len(RunHead._fields))
_FIND: Final = f"SELECT {HEAD_COLUMNS} FROM holdfast_run_heads WHERE run = ?"  # noqa: S608 - constants
_INSERT: Final = f"INSERT INTO holdfast_run_heads ({HEAD_COLUMNS}) VALUES ({_ROW})"  # noqa: S608
_DELETE: Final = "DELETE FROM holdfast_run_heads WHERE run = ?"
_LABEL: Final = "INSERT OR REPLACE INTO holdfast_run_labels (label, opened, run) VALUES (?, ?, ?)"
_UNLABEL: Final = "DELETE FROM holdfast_run_labels WHERE label = ? AND opened = ? AND run = ?"
_COUNT: Final = (
    "INSERT INTO holdfast_run_tally (hour, flow, what, bucket, n, total) "
    "VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET n = n + excluded.n, total = total + excluded.total"
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


def journals(db: sqlite3.Connection) -> Journals:
    """The journals and the index, to compare them."""
    return Journals(lambda query, values: db.execute(query, values).fetchall(), ENTRIES, PREFIX)


def build(db: sqlite3.Connection) -> None:
    """Make the index of a file that has none, in a transaction."""
    db.executemany(_COUNT, journals(db).built(lambda row: _put(db, None, row)))
    _count_anew(db)


def correct(db: sqlite3.Connection, runs: Iterable[str]) -> None:
    """Make the rows of these runs anew, in a transaction."""
    own = journals(db)
    for run in runs:
        _put(db, own.row(run), own.right(run))
    _count_anew(db)


def _count_anew(db: sqlite3.Connection) -> None:
    db.execute(f"DELETE FROM holdfast_run_tally WHERE hour = {NOW}")  # noqa: S608
    db.execute(f"INSERT INTO holdfast_run_tally ({NOW_COLUMNS}) {journals(db).now}")


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
        db.execute(f"UPDATE holdfast_run_heads SET {columns} WHERE run = ?", [*values, row.run])  # noqa: S608


def _label(db: sqlite3.Connection, row: RunHead) -> None:
    if row.labels:
        db.executemany(_LABEL, [(label, row.opened, row.run) for label in row.labels])


def _unlabel(db: sqlite3.Connection, row: RunHead) -> None:
    if row.labels:
        db.executemany(_UNLABEL, [(label, row.opened, row.run) for label in row.labels])
