"""The embedded default: one SQLite file in WAL mode, one writing connection, many readers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import chain, compress
from pathlib import Path
from typing import Final, Literal

from holdfast.changes import ANY_RUN, Change
from holdfast.errors import HoldfastError
from holdfast.heads import Position, RunHead, changes, changes_of
from holdfast.model import HIDDEN, Entry, follows
from holdfast.seams import fault
from holdfast.store import (
    ANY_HEAD,
    NO_HEAD,
    PAGE,
    Behind,
    Head,
    RunFilter,
    Survives,
    Transactional,
    Work,
    outcomes,
)
from holdfast.stores._shared.disk import volatile_file_system
from holdfast.stores._shared.index import IndexedTableStore
from holdfast.stores._shared.outcomes import outcomes_by_heads
from holdfast.stores._shared.table import (
    COLUMNS,
    NO_BODY,
    Parameters,
    Row,
    Statement,
    bounds,
    fields_of,
)
from holdfast.stores.sqlite import index
from holdfast.stores.sqlite.columns import checked, head_or_lost
from holdfast.stores.sqlite.connections import Connections, roll_back
from holdfast.stores.sqlite.errors import code_of
from holdfast.stores.sqlite.index import ENTRIES, PREFIX
from holdfast.stores.sqlite.work import WORK_SECONDS, run_guarded

BUSY_SECONDS: Final = 0.5  # the writer asks again until a save's deadline
_VACUUM_PAGES: Final = 2000  # given back to the disk at once
_VACUUM_BITES: Final = 100  # at most, after one trim or erase; the next continues from there
_SYNCHRONOUS: Final = {"process-crash": "NORMAL", "power-loss": "FULL"}
_NOTHING_WRITTEN: Final = (
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_ERROR,  # a statement that does not fit the schema, and was not begun
)  # fmt: skip
_MAX_HEADS: Final = 50_000
_BATCHES: Final = (64, 32, 16, 8, 4, 2, 1)

_ROW: Final = ", ".join("?" * len(Entry._fields))
_HEAD: Final = "SELECT seq, digest FROM holdfast_entries WHERE run = ? ORDER BY seq DESC LIMIT 1"
_INSERT: Final = {
    rows: f"INSERT INTO holdfast_entries ({COLUMNS}) VALUES {', '.join([f'({_ROW})'] * rows)}"  # noqa: S608
    for rows in _BATCHES
}


def _insert_if(condition: str) -> str:
    """Inserts an entry if the condition is true: without a seq it is ignored.

    `INSERT ... SELECT ... WHERE` would copy the body to a temporary table first, as it reads the
    table that it writes. The condition's parameters come between the run and the seq.
    """
    rest = ", ".join("?" * (len(Entry._fields) - 2))
    return (
        f"INSERT OR IGNORE INTO holdfast_entries ({COLUMNS}) "  # noqa: S608 - constants only
        f"VALUES (?, CASE WHEN {condition} THEN ? END, {rest})"
    )


# `model.follows` in SQL: the parameters are the run, and the range for its head.
_INSERT_NEXT: Final = _insert_if(
    "coalesce((SELECT max(seq) FROM holdfast_entries WHERE run = ?), -1) BETWEEN ? AND ?"
)
_INSERT_BEHIND: Final = _insert_if(
    f"(SELECT head.seq BETWEEN ? AND ? AND head.digest = ? FROM ({_HEAD}) AS head)"  # noqa: S608
)
# A loose index scan: two look-ups a run, however many entries it has.
_RUNS: Final = f"""
    WITH RECURSIVE found(run) AS (
        SELECT min(run) FROM holdfast_entries WHERE run > :after AND run >= :low AND run < :high
        UNION ALL
        SELECT (SELECT min(run) FROM holdfast_entries WHERE run > found.run AND run < :high)
        FROM found WHERE found.run IS NOT NULL
    )
    SELECT {NO_BODY}, x''
    FROM found CROSS JOIN holdfast_entries e
        ON e.run = found.run AND e.seq = (SELECT max(seq) FROM holdfast_entries WHERE run = found.run)
    WHERE (iif(:status IS NULL, e.status <> 'deleted', e.status = :status))
        AND (:flow IS NULL OR e.flow = :flow) AND (:thread IS NULL OR e.thread = :thread)
        AND (:owner IS NULL OR e.owner = :owner) AND (:type IS NULL OR e.type = :type)
    LIMIT :limit
"""  # noqa: S608 - constants only

# Rows are numbered in the order of their commits, and none is deleted before a newer one is there.
_NEW: Final = (
    "SELECT run, max(seq), status FROM holdfast_entries WHERE rowid > ? AND rowid <= ? GROUP BY run"
)
_LAST_ROW: Final = "SELECT coalesce(max(rowid), 0) FROM holdfast_entries"


class SQLiteStore(IndexedTableStore, Transactional):
    """Journals in one SQLite file, for one machine; any number of threads and processes.

    `survives="power-loss"` (the default) waits for the disk on every commit;
    `"process-crash"` leaves that to the operating system and is faster.

    The file may be that of a program, with tables of its own: the names of the store's tables begin
    with `holdfast_`, and nothing else in the file is touched, but that it is in WAL mode from then
    on. What is written to other tables in the transaction of an append (`append_with`) may take
    `work_seconds` at most: nobody else can write meanwhile.
    """

    _entries = ENTRIES
    _index = PREFIX
    lasting = "open it with survives=power-loss, on a disk that is not tmpfs"
    _stored = "length(e.body)"
    _unordered = " NOT INDEXED"
    _counted = (  # else it is damaged, and such a size may be more than a sum can hold
        " AND typeof(e.size) = 'integer' AND typeof(e.at) = 'integer' AND e.size < 1 << 62"
    )
    _hints = True

    def __init__(
        self,
        path: str | Path,
        *,
        survives: Literal["process-crash", "power-loss"] = "power-loss",
        busy_seconds: float = BUSY_SECONDS,
        work_seconds: float = WORK_SECONDS,
    ) -> None:
        self.path = Path(path).absolute()
        self.url = f"sqlite:///{self.path}"
        if survives not in _SYNCHRONOUS:
            raise ValueError(f"survives must be one of {', '.join(_SYNCHRONOUS)}, not {survives!r}")
        self._work_seconds = work_seconds
        self._heads: dict[str, Head] = {}
        self._heads_hold = (-1, -1)
        self._db = Connections(self.path, self.url, _SYNCHRONOUS[survives], busy_seconds)

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if len(entries) == 1:
            alone = self._db.block_of_thread is None and not changes(entries[0])
            append = self._append_one if alone else self._append_and_index
            return [append(entries[0], behind)]
        with self._db.transaction(entries[0].run if entries else "") as db:
            won = self._outcomes(db, entries, behind)
            winners = list(compress(entries, won))
            at = 0
            for rows in _BATCHES:
                while len(winners) - at >= rows:
                    db.execute(_INSERT[rows], list(chain.from_iterable(winners[at : at + rows])))
                    at += rows
            index.change(db, changes_of(winners))
            return won

    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        heads = dict(behind)
        with self._db.transaction(entries[0].run if entries else "") as db:
            for entry in entries:
                self._heads.pop(entry.run, None)
            place = lambda entry: _insert_next(db, entry, heads.pop(entry.run, None))  # noqa: E731
            if all(outcomes(entries, place)):
                index.change(db, changes_of(entries))
                run_guarded(db, work, self._work_seconds)
                return [True] * len(entries)
            db.execute("ROLLBACK")
            db.execute("BEGIN")  # there must be something to commit
            return [False] * len(entries)

    def _append_one(self, entry: Entry, behind: Behind) -> bool:
        """As one statement that is its own transaction, instead of four."""
        with self._db.write_lock, self._db.translated:
            db = self._db.writer()
            if db.in_transaction:
                roll_back(db)
            fault("sqlite.commit.before")
            self._heads.pop(entry.run, None)
            try:
                won = _insert_next(db, entry, behind.get(entry.run))
            except sqlite3.OperationalError as error:
                self._heads.clear()
                if code_of(error) in _NOTHING_WRITTEN:
                    raise
                raise self._db.distrusted(db, entry.run, error) from error
            self._db.committed(db, entry.run)
            if won:
                self._heads[entry.run] = entry.seq, entry.digest
            fault("sqlite.commit.after")
            return won

    def _append_and_index(self, entry: Entry, behind: Behind) -> bool:
        """One that changes its run's row in the index, too."""
        with self._db.transaction(entry.run) as db:
            self._heads.pop(entry.run, None)
            won = _insert_next(db, entry, behind.get(entry.run))
            if won:
                index.change_by(db, entry)
        return won

    def _outcomes(
        self, db: sqlite3.Connection, entries: Sequence[Entry], behind: Behind
    ) -> list[bool]:
        """The outcome of each entry.

        Heads are remembered until another connection writes, which SQLite counts: to look one up
        costs a third of an insert. The winners become the heads, so all are forgotten if the commit
        fails. Ctrl-C may prevent that, so an entry that would lose by them is looked up.
        """
        hold = (self._db.generation, db.execute("PRAGMA data_version").fetchone()[0])
        heads = self._heads
        if hold != self._heads_hold or len(heads) > _MAX_HEADS:
            heads.clear()
            self._heads_hold = hold
        first = {entry.run: entry for entry in reversed(entries)}
        for run, entry in first.items():
            seq, digest = heads.get(run, NO_HEAD)
            if run not in heads or not follows(entry, seq) or digest != behind.get(run, digest):
                heads[run] = db.execute(_HEAD, (run,)).fetchone() or NO_HEAD
        return outcomes_by_heads(entries, heads, behind)

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        wanted = fields_of(where) | bounds(where, after) | {"limit": limit}
        return [head_or_lost(head) for head in super()._found(_RUNS, wanted)]

    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        return self._mark_and(marker, "sqlite.trim.marked", self._trimming(marker, changes))

    def erase(self, tombstone: Entry) -> bool:
        return self._mark_and(tombstone, "sqlite.erase.marked", [self._erasing(tombstone)])

    def _mark_and(self, marker: Entry, point: str, statements: Iterable[Statement]) -> bool:
        with self._db.transaction(marker.run) as db:
            self._heads.pop(marker.run, None)
            if not _insert_next(db, marker):
                return False
            fault(point)
            for statement, rows in statements:
                db.executemany(statement, rows)
            index.change_by(db, marker)
        if self._db.block_of_thread is None:
            self._give_back()
        return True

    def together(self) -> AbstractContextManager[None]:
        return self._db.block()  # `scrub` gives the space back: pages would move several times

    def poll(self, mark: object = None) -> tuple[object, list[Change]]:
        newest = self._rows(_LAST_ROW, ())[0][0]
        if not isinstance(mark, int) or newest == mark:
            return newest, []
        if newest < mark:  # VACUUM numbered the rows anew, or the file was replaced
            return newest, [ANY_RUN]
        found = self._rows(_NEW, (mark, newest))
        return newest, [Change(*row) for row in found if not row[0].startswith(HIDDEN)]

    def rebuild(self, *, write: bool = True) -> int:
        with self._db.reader() as db:
            db.execute("BEGIN")  # one snapshot of journals and rows
            try:
                own = index.journals(db)
                wrong, counts = own.wrong(), own.wrong_counts()
            finally:
                db.execute("COMMIT")
        if write and (wrong or counts):
            for at in range(0, max(1, len(wrong)), PAGE):
                with self._db.transaction("") as db:
                    index.correct(db, wrong[at : at + PAGE])
        return len(wrong) + counts

    def scrub(self) -> None:
        """Give back what is free, and empty the log, unless others read.

        Deleted pages are overwritten in the database only.
        """
        self._give_back()
        with suppress(HoldfastError), self._db.write_lock, self._db.translated:
            self._db.shrink(self._db.writer())

    def survives(self) -> Survives:
        with self._db.write_lock, self._db.translated:
            full = self._db.writer().execute("PRAGMA synchronous").fetchone()[0] >= 2
        return "power-loss" if full and not volatile_file_system(self.path) else "process-crash"

    def exists(self) -> bool:
        return self.path.exists()

    def close(self) -> None:
        self._db.close()

    def _rows(self, query: str, parameters: Parameters) -> list[Row]:
        with self._db.reader() as db:
            return db.execute(query, parameters).fetchall()

    def listed(
        self, where: RunFilter = RunFilter(), *, before: Position | None = None, limit: int = PAGE
    ) -> list[tuple[RunHead, Entry]]:
        found = super().listed(where, before=before, limit=limit)
        return [(row, head_or_lost(head, row)) for row, head in found]

    def _found(self, query: str, parameters: Parameters) -> list[Entry]:
        return checked(super()._found(query, parameters))

    def _give_back(self) -> None:
        """Give freed pages back to the disk, a few at a time, so that others can write.

        If this fails, the next deletion continues with it.
        """
        before = None
        for _ in range(_VACUUM_BITES):
            try:
                with self._db.write_lock, self._db.translated:
                    db = self._db.writer()
                    free = db.execute("PRAGMA freelist_count").fetchone()[0]
                    if free in (0, before):  # nothing, or the file keeps what it has
                        return
                    before = free
                    # Not `execute`: it takes one step, and this pragma frees one page a step.
                    db.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
            except HoldfastError:
                return


def _insert_next(db: sqlite3.Connection, entry: Entry, behind: bytes | None = None) -> bool:
    """Insert the entry if it follows its run's head, in one statement; return whether it did.

    With `behind`, only if the head has this digest, or if there is none and this is empty.
    """
    lowest, highest = -1 if follows(entry, -1) else entry.seq - 1, entry.seq - 1
    if behind:
        row = (entry.run, lowest, highest, behind, entry.run, *entry[1:])
        return db.execute(_INSERT_BEHIND, row).rowcount == 1
    if behind is not None:
        highest = -1
    return (
        db.execute(_INSERT_NEXT, (entry.run, entry.run, lowest, highest, *entry[1:])).rowcount == 1
    )
