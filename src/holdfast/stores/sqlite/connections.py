"""The connections of a SQLite store: one that writes, and a few that read."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    OutcomeUnknownError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.seams import fault, on_fork
from holdfast.stores._shared.errors import Translated
from holdfast.stores.sqlite.schema import check_version, make_file, prepare

MAX_READERS: Final = 4
_OPENING_MILLISECONDS: Final = 10_000  # many processes may create the schema at once
_FOR_GOOD: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_FORK_SECONDS: Final = 60.0  # longer than a commit= may take
_IDENTIFY_SECONDS: Final = 0.05  # a look at the file costs as much as a tenth of a small commit


_inherited: list[object] = []
"""Connections of the parent process, which this one must neither use nor close."""


class Connections:
    """Connections that threads share, opened on first use; errors are translated."""

    def __init__(self, path: Path, url: str, synchronous: str, busy_seconds: float) -> None:
        self.path = path
        self.url = url
        self.translated = Translated(url, sqlite3.Error, self._translate)
        self.generation = 0  # grows whenever what was known of the writer's work may be wrong
        self._synchronous = synchronous
        self._busy_seconds = busy_seconds
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []  # those that rest; others are in use
        self._reading = 0
        self._closed = False
        self._held_by = 0  # the thread that is in a transaction
        self._at_rest = True  # no connection was open at the last fork
        self._torn = False  # of this process by a fork
        self._make_locks()
        with self.translated:
            make_file(self.path)
            self._opened = self._identity()
            self._identified = time.monotonic()
            self._writer = self._open_writer()
        on_fork(self._in_child, before=self._before_fork, in_parent=self._release_locks)

    def close(self) -> None:
        """Close them all, permanently."""
        with self.write_lock, self._pool, self.translated:
            self._closed = True
            self._close_connections()

    def _make_locks(self) -> None:
        # Plain locks, taken by `with`: Ctrl-C can't leave them held, as it can a Condition.
        self.write_lock = threading.Lock()  # held for a whole transaction
        self._pool = threading.Lock()  # guards the readers, never held during I/O

    def _before_fork(self) -> None:
        # SQLite keeps a process's locks in memory, which fork() copies: a connection made in the
        # child would take the parent's locks for its own. So none may be open at the fork. Both
        # processes open theirs again when they need them.
        self._at_rest = self._held_by != threading.get_ident() and self._take_locks()
        if self._at_rest:
            self._close_connections()

    def _take_locks(self) -> bool:
        """Wait until nobody uses a connection, but not for one who may wait for this thread."""
        until = time.monotonic() + _FORK_SECONDS
        if not self.write_lock.acquire(timeout=_FORK_SECONDS):
            return False
        while self._pool.acquire(timeout=max(0.0, until - time.monotonic())):
            if not self._reading:
                return True
            self._pool.release()
            time.sleep(0.001)
        self.write_lock.release()
        return False

    def _release_locks(self) -> None:
        if self._at_rest:
            self._pool.release()
            self.write_lock.release()

    def _in_child(self) -> None:
        self._make_locks()
        if not self._at_rest:  # even to close them would be to act for the parent
            _inherited.extend(self._readers)
            _inherited.append(self._writer)
            self._readers, self._writer, self._reading = [], None, 0
            self._torn = True

    def _refuse_unusable(self) -> None:
        if self._closed:
            raise StoreClosedError(self.url)
        if self._torn:
            raise StoreError(
                f"{self.url}: this process was forked in the middle of a transaction, and can't "
                "use the file; fork before it or after it, or spawn a process"
            )

    def _close_connections(self) -> None:
        for connection in (*self._readers, self._writer):
            if connection is not None:
                connection.close()
        self._readers, self._writer = [], None
        self.generation += 1

    def writer(self) -> sqlite3.Connection:
        """The writing connection; the caller holds `write_lock`."""
        self._refuse_unusable()
        if self._writer is None:
            self._writer = self._open_writer()
        now = time.monotonic()
        if now - self._identified > _IDENTIFY_SECONDS:
            if self._identity() != self._opened:
                raise StoreError(
                    f"{self.url}: the file was removed or replaced; open the store again"
                )
            self._identified = now
        return self._writer

    def _identity(self) -> tuple[int, int] | None:
        """Which file the path names; a file that was removed would still take writes."""
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
    def reader(self) -> Iterator[sqlite3.Connection]:
        """Lend a reading connection."""
        with self._pool:
            self._refuse_unusable()
            db = self._readers.pop() if self._readers else None
            self._reading += 1
        try:
            with self.translated:
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

    @contextmanager
    def transaction(self, run: str) -> Iterator[sqlite3.Connection]:
        """The writing connection in a transaction, committed at the end or rolled back."""
        with self.write_lock, self.translated:
            db = self.writer()
            roll_back(db)  # Ctrl-C may have come right after an earlier BEGIN
            db.execute("BEGIN IMMEDIATE")
            try:
                self._held_by = threading.get_ident()
                yield db
                fault("sqlite.commit.before")
            except BaseException:
                self.generation += 1
                lift_guard(db)
                roll_back(db)
                raise
            finally:
                self._held_by = 0
            try:
                db.execute("COMMIT")
            except sqlite3.Error as error:
                raise self.distrusted(db, run, error) from error
            fault("sqlite.commit.after")

    def distrusted(self, db: sqlite3.Connection, run: str, error: sqlite3.Error) -> Exception:
        """The error for a failed commit: the rows may be there, so use another connection."""
        self.generation += 1
        self._writer = None
        with suppress(sqlite3.Error):
            roll_back(db)
            db.close()
        return OutcomeUnknownError(run, str(error))

    def _translate(self, error: sqlite3.Error) -> HoldfastError:
        code = code_of(error)
        if code == sqlite3.SQLITE_ERROR:
            self._refuse_newer()
        undecodable = str(error).startswith("Could not decode")
        if undecodable or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return CheckpointCorruptedError(self.url, None, f"SQLite says: {error}")
        if isinstance(error, sqlite3.OperationalError) and code not in _FOR_GOOD:
            return StoreUnavailableError(f"{self.url}: {error}")
        return StoreError(f"{self.url}: {error}")

    def _refuse_newer(self) -> None:
        """Raise `SchemaError` if our statements failed because a newer holdfast changed the schema."""
        with suppress(sqlite3.Error), closing(self._connect()) as db:
            check_version(db, self.url)


def roll_back(db: sqlite3.Connection) -> None:
    """Roll back a transaction that was left open."""
    if db.in_transaction:
        lift_guard(db)
        db.execute("ROLLBACK")


def lift_guard(db: sqlite3.Connection) -> None:
    """Lift the restrictions of `commit=` (see `work`)."""
    db.set_progress_handler(None, 0)
    db.set_authorizer(None)


def code_of(error: sqlite3.Error) -> int:
    """The primary result code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
