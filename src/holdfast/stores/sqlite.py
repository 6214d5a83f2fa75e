"""The embedded default: one SQLite file in WAL mode, one writing connection, many readers."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Final, Literal

from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    OutcomeUnknownError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.model import HIDDEN, MAX_ID_BYTES, Entry, stub
from holdfast.seams import fault, on_fork
from holdfast.store import PAGE, RunFilter, Store, StoreStats, Survives
from holdfast.stores._disk import volatile_file_system
from holdfast.stores._sqlite_schema import make_file, prepare

BUSY_SECONDS: Final = 0.5  # the writer asks again until a save's deadline
MAX_READERS: Final = 4
_VACUUM_PAGES: Final = 2000  # given back to the disk at once
_VACUUM_BITES: Final = 100  # after one trim or erase, at the most; the next goes on from there
_SYNCHRONOUS: Final = {"process-crash": "NORMAL", "power-loss": "FULL"}
_OPENING_MILLISECONDS: Final = 10_000  # many may come to make the schema at once
_NOTHING_WRITTEN: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY)
_FOR_GOOD: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_IDENTIFY_SECONDS: Final = 0.05  # a look at the file costs as much as a tenth of a small commit
_MAX_HEADS: Final = 50_000
_BATCHES: Final = (64, 32, 16, 8, 4, 2, 1)

_COLUMNS: Final = ", ".join(Entry._fields)
_WIDTH: Final = len(Entry._fields)
_NO_BODY: Final = _COLUMNS.replace(", body", ", x'' AS body")


def _insert(rows: int, *, guarded: bool) -> str:
    """Insert so many rows where their place is free.

    A seq below the run's head is not, even if nothing stands there any more: else erasing a run
    would free its old seqs for a writer that slept through it. The guard sees to that. It costs a
    third of an insert, and rows that are known to follow their run's head do without it.
    """
    values = ", ".join("?" * _WIDTH)
    row = f"({values})"
    if guarded:  # its parameters are the run and seq again
        row = (
            f"SELECT {values} "  # noqa: S608 - constants only
            "WHERE NOT EXISTS (SELECT 1 FROM entries WHERE run = ? AND seq > ?)"
        )
    rest = " UNION ALL ".join([row] * rows) if guarded else f"VALUES {', '.join([row] * rows)}"
    return f"INSERT OR IGNORE INTO entries ({_COLUMNS}) {rest}"


_GUARDED: Final = {rows: _insert(rows, guarded=True) for rows in _BATCHES}
_PLAIN: Final = {rows: _insert(rows, guarded=False) for rows in _BATCHES}
_STUB: Final = (
    "UPDATE entries SET (" + _COLUMNS + ") = (" + ", ".join("?" * len(Entry._fields)) + ") "  # noqa: S608
    "WHERE run = ? AND seq = ?"
)
# A loose index scan: two look-ups a run, however many entries it has.
_RUNS: Final = f"""
    WITH RECURSIVE found(run) AS (
        SELECT min(run) FROM entries WHERE run > :after AND run >= :low AND run < :high
        UNION ALL
        SELECT (SELECT min(run) FROM entries WHERE run > found.run AND run < :high)
        FROM found WHERE found.run IS NOT NULL
    )
    SELECT {", ".join("e." + name for name in Entry._fields[:-1])}, x'' AS body
    FROM found CROSS JOIN entries e
        ON e.run = found.run AND e.seq = (SELECT max(seq) FROM entries WHERE run = found.run)
    WHERE (iif(:status IS NULL, e.status <> 'deleted', e.status = :status))
        AND (:flow IS NULL OR e.flow = :flow) AND (:thread IS NULL OR e.thread = :thread)
        AND (:owner IS NULL OR e.owner = :owner) AND (:type IS NULL OR e.type = :type)
    LIMIT :limit
"""  # noqa: S608 - constants only
_STATS: Final = """
    SELECT count(DISTINCT run), count(*), coalesce(sum(size), 0), coalesce(sum(length(body)), 0),
        min(at), max(at) FROM entries WHERE size > 0 AND
"""


class SQLiteStore(Store):
    """Journals in one SQLite file, for one machine; any number of threads and processes.

    `survives="power-loss"` (the default) waits for the disk on every commit;
    `"process-crash"` leaves that to the operating system and is faster.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        survives: Literal["process-crash", "power-loss"] = "power-loss",
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.path = Path(path).absolute()
        self.url = f"sqlite:///{self.path}"
        if survives not in _SYNCHRONOUS:
            raise ValueError(f"survives must be one of {', '.join(_SYNCHRONOUS)}, not {survives!r}")
        self._synchronous = _SYNCHRONOUS[survives]
        self._busy_seconds = float(busy_seconds)
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []  # those that rest; others are in use
        self._reading = 0
        self._heads: dict[str, int] = {}
        self._heads_version = -1
        self._closed = False
        self._make_locks()
        with self._translated():
            make_file(self.path)
            self._opened = self._identity()
            self._identified = time.monotonic()
            self._writer = self._open_writer()
        on_fork(self._after_fork, before=self._before_fork, in_parent=self._release_locks)

    def append(self, entries: Sequence[Entry]) -> list[bool]:
        if len(entries) == 1:
            return [self._append_one(entries[0])]
        with self._transaction(entries[0].run if entries else "") as db:
            known = self._follow_known_heads(db, entries)
            insert = _PLAIN if known else _GUARDED
            rows_of: Sequence[tuple[object, ...]] = (
                entries if known else [(*entry, entry.run, entry.seq) for entry in entries]
            )
            before = db.total_changes
            at = 0
            for rows in _BATCHES:
                while len(entries) - at >= rows:
                    db.execute(insert[rows], list(chain.from_iterable(rows_of[at : at + rows])))
                    at += rows
            if db.total_changes - before == len(entries):
                return [True] * len(entries)
            self._heads.clear()
            db.execute("ROLLBACK")
            db.execute("BEGIN IMMEDIATE")
            return _append_singly(db, entries)

    def _append_one(self, entry: Entry) -> bool:
        """One statement that is its own transaction: a lone save need not pay for four."""
        with self._write_lock, self._translated():
            db = self._require_writer()
            _roll_back(db)
            fault("sqlite.commit.before")
            try:
                won = db.execute(_GUARDED[1], (*entry, entry.run, entry.seq)).rowcount == 1
            except sqlite3.OperationalError as error:
                self._heads.clear()
                if _code(error) in _NOTHING_WRITTEN:
                    raise
                raise self._distrusted(db, entry.run, error) from error
            self._heads.pop(entry.run, None)
            if won:
                self._heads[entry.run] = entry.seq
            fault("sqlite.commit.after")
            return won

    def _follow_known_heads(self, db: sqlite3.Connection, entries: Sequence[Entry]) -> bool:
        """Whether each entry comes right after its run's head as this connection left it.

        What it remembers holds until another connection writes, which SQLite counts. The entries
        are remembered as heads: whoever fails to commit them must forget all.
        """
        (version,) = db.execute("PRAGMA data_version").fetchone()
        heads = self._heads
        if version != self._heads_version or len(heads) > _MAX_HEADS:
            heads.clear()
            self._heads_version = version
        known = True
        for entry in entries:
            known = known and heads.get(entry.run) == entry.seq - 1
            heads[entry.run] = entry.seq
        return known

    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        beyond, order = ("<", "DESC") if newest_first else (">", "ASC")
        if after is None:
            after = 1 << 62 if newest_first else -1
        query = (
            f"SELECT {_COLUMNS if bodies else _NO_BODY} FROM entries "  # noqa: S608 - constants only
            f"WHERE run = ? AND seq {beyond} ? ORDER BY seq {order} LIMIT ?"
        )
        return self._query(query, (run, after, limit))

    def last(self, run: str) -> Entry | None:
        found = self.read(run, newest_first=True, limit=1)
        return found[0] if found else None

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        hidden = where.prefix.startswith(HIDDEN)
        bounds = {
            "after": after,
            "low": where.prefix if hidden else max(where.prefix, " "),
            "high": where.prefix + chr(0x10FFFF) * MAX_ID_BYTES,
            "limit": limit,
        }
        return self._query(_RUNS, where._asdict() | bounds)

    def trim(
        self,
        marker: Entry,
        *,
        rewrite: Mapping[int, bytes] | None = None,
        drop: Collection[int] = (),
    ) -> bool:
        with self._transaction(marker.run) as db:
            self._heads.pop(marker.run, None)
            if not _append_singly(db, [marker])[0]:
                return False
            fault("sqlite.trim.marked")
            db.executemany(
                "UPDATE entries SET body = ? WHERE run = ? AND seq = ? AND seq < ?",
                [(body, marker.run, seq, marker.seq) for seq, body in (rewrite or {}).items()],
            )
            for seq in drop:
                found = db.execute(
                    f"SELECT {_NO_BODY} FROM entries WHERE run = ? AND seq = ? AND seq < ?",  # noqa: S608
                    (marker.run, seq, marker.seq),
                ).fetchone()
                if found:
                    db.execute(_STUB, (*stub(Entry(*found)), marker.run, seq))
        self._give_back()
        return True

    def erase(self, tombstone: Entry) -> bool:
        with self._transaction(tombstone.run) as db:
            self._heads.pop(tombstone.run, None)
            if not _append_singly(db, [tombstone])[0]:
                return False
            fault("sqlite.erase.marked")
            db.execute(
                "DELETE FROM entries WHERE run = ? AND seq < ?", (tombstone.run, tombstone.seq)
            )
        self._give_back()
        return True

    def stats(self, run: str | None = None) -> StoreStats:
        with self._reader() as db:
            if run is None:
                row = db.execute(_STATS + "run >= ' '").fetchone()
            else:
                row = db.execute(_STATS + "run = ?", (run,)).fetchone()
        return StoreStats(*row)

    def survives(self) -> Survives:
        with self._write_lock, self._translated():
            full = self._require_writer().execute("PRAGMA synchronous").fetchone()[0] >= 2
        return "power-loss" if full and not volatile_file_system(self.path) else "process-crash"

    def close(self) -> None:
        with self._write_lock, self._pool, self._translated():
            self._closed = True
            self._close_connections()

    # --- connections

    def _make_locks(self) -> None:
        # Plain locks, taken by `with`: Ctrl-C can't leave them held, as it can a Condition.
        self._write_lock = threading.Lock()  # held for a whole transaction
        self._pool = threading.Lock()  # guards the readers, never held during I/O

    def _before_fork(self) -> None:
        # SQLite keeps a process's locks in tables that fork() copies: a connection made in the
        # child would believe in locks that are the parent's, and write without any. So none may
        # be open at the fork. Both sides open theirs again when they need them.
        self._write_lock.acquire()
        self._pool.acquire()
        while self._reading:
            self._pool.release()
            time.sleep(0.001)
            self._pool.acquire()
        self._close_connections()

    def _after_fork(self) -> None:
        self._make_locks()

    def _release_locks(self) -> None:
        self._pool.release()
        self._write_lock.release()

    def _close_connections(self) -> None:
        for connection in (*self._readers, self._writer):
            if connection is not None:
                connection.close()
        self._readers, self._writer = [], None
        self._heads.clear()

    def _require_writer(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreClosedError(self.url)
        if self._writer is None:
            self._writer = self._open_writer()
        now = time.monotonic()
        if now - self._identified > _IDENTIFY_SECONDS:
            if self._identity() != self._opened:
                raise StoreError(f"{self.url}: the file was removed or replaced; open it anew")
            self._identified = now
        return self._writer

    def _identity(self) -> tuple[int, int] | None:
        """Which file the path names: what goes to one that lost its name goes nowhere."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
        )

    def _open_writer(self) -> sqlite3.Connection:
        db = self._connect()
        try:
            db.execute(f"PRAGMA busy_timeout = {_OPENING_MILLISECONDS}")
            prepare(db, self.url, self._synchronous)
            db.execute(f"PRAGMA busy_timeout = {round(self._busy_seconds * 1000)}")
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        with self._pool:
            if self._closed:
                raise StoreClosedError(self.url)
            db = self._readers.pop() if self._readers else None
            self._reading += 1
        try:
            with self._translated():
                if db is None:
                    db = self._connect()
                    db.execute("PRAGMA query_only = ON")
                yield db
        except BaseException:
            if db is not None:
                db.close()
            db = None
            raise
        finally:
            with self._pool:
                self._reading -= 1
                if db is not None:
                    self._rest(db)

    def _rest(self, reader: sqlite3.Connection) -> None:
        if self._closed or len(self._readers) >= MAX_READERS:
            reader.close()
        else:
            self._readers.append(reader)

    def _query(
        self, query: str, parameters: Mapping[str, object] | Sequence[object]
    ) -> list[Entry]:
        with self._reader() as db:
            return list(map(Entry._make, db.execute(query, parameters)))

    @contextmanager
    def _transaction(self, run: str) -> Iterator[sqlite3.Connection]:
        with self._write_lock, self._translated():
            db = self._require_writer()
            _roll_back(db)  # Ctrl-C may have struck right after an earlier BEGIN
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                fault("sqlite.commit.before")
            except BaseException:
                self._heads.clear()
                _roll_back(db)
                raise
            try:
                db.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._distrusted(db, run, error) from error
            fault("sqlite.commit.after")

    def _distrusted(self, db: sqlite3.Connection, run: str, error: sqlite3.Error) -> Exception:
        """What to raise when a commit failed: the rows may be there, so look with other eyes."""
        self._heads.clear()
        self._writer = None
        with suppress(sqlite3.Error):
            _roll_back(db)
            db.close()
        return OutcomeUnknownError(run, str(error))

    def _give_back(self) -> None:
        """Hand freed pages back to the disk, in bites that do not hold others up.

        What was asked for is done already: if this fails, the next deletion goes on with it.
        """
        for _ in range(_VACUUM_BITES):
            try:
                with self._write_lock, self._translated():
                    db = self._require_writer()
                    if not db.execute("PRAGMA freelist_count").fetchone()[0]:
                        return
                    # Not `execute`: it takes one step, and this pragma frees one page a step.
                    db.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
            except HoldfastError:
                return

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except HoldfastError:
            raise  # some are an OSError too
        except sqlite3.Error as error:
            raise _translate(error, self.url) from error
        except OSError as error:
            raise StoreUnavailableError(f"{self.url}: {error}") from error
        except (OverflowError, UnicodeError) as error:  # a value that no column can hold
            raise StoreError(f"{self.url}: {error}") from error


def _append_singly(db: sqlite3.Connection, entries: Sequence[Entry]) -> list[bool]:
    """Row by row, so that a run's entries after its first loser lose as well."""
    lost: set[str] = set()
    outcomes = []
    for entry in entries:
        won = (
            entry.run not in lost
            and db.execute(_GUARDED[1], (*entry, entry.run, entry.seq)).rowcount == 1
        )
        if not won:
            lost.add(entry.run)
        outcomes.append(won)
    return outcomes


def _roll_back(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code of an extended one


def _translate(error: sqlite3.Error, url: str) -> Exception:
    code = _code(error)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return CheckpointCorruptedError(url, None, f"SQLite says: {error}")
    if str(error).startswith("Could not decode"):
        return CheckpointCorruptedError(url, None, f"SQLite says: {error}")
    if isinstance(error, sqlite3.OperationalError) and code not in _FOR_GOOD:
        return StoreUnavailableError(f"{url}: {error}")
    return StoreError(f"{url}: {error}")
