"""The embedded default: one SQLite file in WAL mode, one writing connection, many readers."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from holdfast.errors import (
    CheckpointCorruptedError,
    OutcomeUnknownError,
    SchemaError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.model import HIDDEN, Entry, stub
from holdfast.seams import fault, on_fork
from holdfast.store import PAGE, RunFilter, Store, StoreStats, Survives
from holdfast.stores._disk import volatile_file_system

APPLICATION_ID: Final = 0x686F6C64  # "hold"
BUSY_SECONDS: Final = 5.0
MAX_READERS: Final = 4
_VACUUM_PAGES: Final = 2000  # pages given back to the disk after each trim or erase, at the most
_BATCHES: Final = (64, 32, 16, 8, 4, 2, 1)

_COLUMNS: Final = ", ".join(Entry._fields)
_NO_BODY: Final = _COLUMNS.replace(", body", ", x'' AS body")

MIGRATIONS: Final[tuple[str, ...]] = (
    # 1: the journal, and the read-only view of it for people and other tools
    """
    CREATE TABLE entries (
        run TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, entry_id BLOB NOT NULL,
        parent INTEGER, digest BLOB NOT NULL, step TEXT, step_index INTEGER, type TEXT,
        status TEXT NOT NULL, at INTEGER NOT NULL, duration REAL, size INTEGER NOT NULL,
        flow TEXT, thread TEXT, owner TEXT, meta TEXT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (run, seq)
    );
    CREATE VIEW checkpoints AS SELECT
        run || '@' || seq AS checkpoint_id, thread AS thread_id, flow AS pipeline_id,
        iif(meta = '', NULL, json_extract(meta, '$.flow_version')) AS pipeline_version,
        step AS step_id, step_index,
        coalesce(iif(meta = '', NULL, json_extract(meta, '$.step_name')), step) AS step_name,
        strftime('%Y-%m-%dT%H:%M:%S', at / 1000000, 'unixepoch')
            || printf('.%06dZ', at % 1000000) AS timestamp,
        iif(meta = '', '{}', coalesce(json_extract(meta, '$.metadata'), '{}')) AS metadata,
        run || '@' || parent AS parent_checkpoint_id,
        iif(status IN ('failed', 'paused'), status, 'completed') AS status,
        run AS run_id, seq AS sequence, type AS checkpoint_type, owner AS owner_id, duration,
        size AS state_bytes, length(body) AS stored_bytes, lower(hex(digest)) AS digest
    FROM entries WHERE kind = 'checkpoint' AND size > 0;
    """,
)


def _insert(rows: int) -> str:
    # The guard costs one look at the page the row goes to anyway. Without it, erasing a run
    # would free its old seqs for a writer that slept through it.
    row = "(" + ", ".join("?" * len(Entry._fields)) + ")"
    return (
        f"INSERT OR IGNORE INTO entries ({_COLUMNS}) "  # noqa: S608 - constants only
        f"SELECT * FROM (VALUES {', '.join([row] * rows)}) AS new "
        "WHERE NOT EXISTS (SELECT 1 FROM entries e WHERE e.run = new.column1 AND e.seq > new.column2)"
    )


_INSERT: Final = {rows: _insert(rows) for rows in _BATCHES}
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
        self._synchronous = "FULL" if survives == "power-loss" else "NORMAL"
        self._busy_seconds = busy_seconds
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []  # those that rest; others are in use
        self._reading = 0
        self._closed = False
        self._make_locks()
        with self._translated():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._open_writer()
        on_fork(self._after_fork, before=self._before_fork, in_parent=self._release_locks)

    def append(self, entries: Sequence[Entry]) -> list[bool]:
        with self._transaction(entries[0].run if entries else "") as db:
            before = db.total_changes
            at = 0
            for rows in _BATCHES:
                while len(entries) - at >= rows:
                    flat = [field for entry in entries[at : at + rows] for field in entry]
                    db.execute(_INSERT[rows], flat)
                    at += rows
            if db.total_changes - before == len(entries):
                return [True] * len(entries)
            db.execute("ROLLBACK TO batch")
            return _append_singly(db, entries)

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
            "high": where.prefix + chr(0x10FFFF),
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
        self._write_lock = threading.Lock()  # held for a whole transaction
        self._pool = threading.Condition()  # guards the readers, never held during I/O

    def _before_fork(self) -> None:
        # SQLite keeps a process's locks in tables that fork() copies: a connection made in the
        # child would believe in locks that are the parent's, and write without any. So none may
        # be open at the fork. Both sides open theirs again when they need them.
        self._write_lock.acquire()
        self._pool.acquire()
        while self._reading:
            self._pool.wait()
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

    def _require_writer(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreClosedError(self.url)
        if self._writer is None:
            self._writer = self._open_writer()
        return self._writer

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
        )

    def _open_writer(self) -> sqlite3.Connection:
        db = self._connect()
        try:
            _prepare(db, self.url, self._synchronous)
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
                self._pool.notify_all()

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
            db.execute("BEGIN IMMEDIATE")
            try:
                db.execute("SAVEPOINT batch")
                yield db
                fault("sqlite.commit.before")
            except BaseException:
                _roll_back(db)
                raise
            try:
                db.execute("COMMIT")
            except sqlite3.Error as error:
                # The row may be on disk. This connection's view is no longer to be trusted.
                self._writer = None
                _roll_back(db)
                db.close()
                raise OutcomeUnknownError(run, str(error)) from error
            fault("sqlite.commit.after")

    def _give_back(self) -> None:
        """Hand freed pages back to the disk, in a bite that does not hold others up."""
        with self._write_lock, self._translated():
            # Not `execute`: it takes one step, and this pragma frees one page a step.
            self._require_writer().executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _translate(error, self.url) from error
        except OSError as error:
            raise StoreUnavailableError(f"{self.url}: {error}") from error
        except (OverflowError, UnicodeError) as error:  # a value that no column can hold
            raise StoreError(f"{self.url}: {error}") from error


def _prepare(db: sqlite3.Connection, url: str, synchronous: str) -> None:
    """Set the connection up and bring the schema up to date, once, whoever comes first."""
    db.execute("BEGIN")  # one snapshot: another process may be making the schema right now
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    application = db.execute("PRAGMA application_id").fetchone()[0]
    db.execute("COMMIT")
    if tables and application != APPLICATION_ID:
        raise SchemaError(url, "this SQLite file was not made by holdfast; name another one")
    if version > len(MIGRATIONS):
        raise SchemaError(
            url,
            f"it has schema {version}, newer than this holdfast knows ({len(MIGRATIONS)}); upgrade",
        )
    if not tables:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # must come before the first table
    mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreError(f"{url}: SQLite can't use WAL here ({mode}); use a local disk")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    if version == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    version = db.execute("PRAGMA user_version").fetchone()[
        0
    ]  # another process may have been faster
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        for statement in script.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {number}")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("COMMIT")


def _append_singly(db: sqlite3.Connection, entries: Sequence[Entry]) -> list[bool]:
    """Row by row, so that a run's entries after its first loser lose as well."""
    lost: set[str] = set()
    outcomes = []
    for entry in entries:
        won = entry.run not in lost and db.execute(_INSERT[1], entry).rowcount == 1
        if not won:
            lost.add(entry.run)
        outcomes.append(won)
    return outcomes


def _roll_back(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")


def _translate(error: sqlite3.Error, url: str) -> Exception:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return CheckpointCorruptedError(url, None, f"SQLite says: {error}")
    if isinstance(error, sqlite3.OperationalError):
        return StoreUnavailableError(f"{url}: {error}")
    return StoreError(f"{url}: {error}")
