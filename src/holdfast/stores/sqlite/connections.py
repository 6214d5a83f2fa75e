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
    HoldfastError,
    OutcomeUnknownError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.seams import fault, on_fork
from holdfast.stores._shared.errors import Translated
from holdfast.stores.sqlite.errors import code_of, translated
from holdfast.stores.sqlite.files import OpenFiles
from holdfast.stores.sqlite.schema import check_version, make_file, prepare

MAX_READERS: Final = 4
_FIRST_READS: Final = 8  # that have no connection of their own
_OPENING_MILLISECONDS: Final = 10_000  # many processes may create the schema at once
_FORK_SECONDS: Final = 60.0  # longer than a commit= may take
_OPENING_TRIES: Final = 3
LOOK_SECONDS = 0.05  # before a transaction or a read; after a commit always
LARGE_WAL: Final = 16 << 20  # bytes; SQLite itself begins to empty it at 4 MB
_SHRINKING_MILLISECONDS: Final = 20  # that readers may hold it up, and saves with it

_BLOCK_CACHE: Final = 32 << 10  # KB of pages: blocks write all over the file and its index

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
        self._first_reads = _FIRST_READS
        self._reading = 0
        self._epoch = 0  # which files the readers have open
        self._closed = False
        self._held_by = 0  # the thread that is in a transaction
        self._block: sqlite3.Connection | None = None  # where it does several things in one
        self._at_rest = True  # no connection was open at the last fork
        self._torn = False  # of this process by a fork
        self._make_locks()
        self._files = OpenFiles(path)
        self._look_at = 0.0  # when to look again whether they are still there
        self._shrink_at = LARGE_WAL
        with self.translated:
            make_file(self.path, self.url)
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
        connections = (*self._readers, self._writer)
        self._readers, self._writer = [], None  # first: Ctrl-C may come in between
        self.generation += 1
        for connection in connections:
            if connection is not None:
                connection.close()

    def writer(self) -> sqlite3.Connection:
        """The writing connection; the caller holds `write_lock`."""
        self._refuse_unusable()
        if self._writer is not None and time.monotonic() >= self._look_at:
            self._look()
        if self._writer is None:
            self._writer = self._open_writer()
        return self._writer

    def committed(self, db: sqlite3.Connection, run: str) -> None:
        """Raise `OutcomeUnknownError` if what was just committed may be in a file that is gone."""
        if self._files.unchanged():
            self._look_at = time.monotonic() + LOOK_SECONDS
            if self._files.wal_size < LARGE_WAL:
                self._shrink_at = LARGE_WAL
            elif self._files.wal_size >= self._shrink_at:
                self.shrink(db)
            return
        self.generation += 1
        self._look_at = 0.0
        raise OutcomeUnknownError(
            run, f"{self.url}: one of its files was removed or replaced while it was open"
        )

    def shrink(self, db: sqlite3.Connection) -> None:
        """Empty a log that others kept from being emptied, if they let us, and cut it off.

        What SQLite does by itself never comes to the end where each reader begins before the one
        before it ends. If readers are in the way for longer, try again when it has grown.
        """
        self._shrink_at = self._files.wal_size + LARGE_WAL
        with suppress(sqlite3.Error):
            fault("sqlite.wal.shrink")
            db.execute(f"PRAGMA busy_timeout = {_SHRINKING_MILLISECONDS}")
            try:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                db.execute(f"PRAGMA busy_timeout = {round(self._busy_seconds * 1000)}")

    def _look(self) -> None:
        """Close all connections if a file was removed or replaced; needs `write_lock`."""
        if self._writer is None or self._files.unchanged():
            self._look_at = time.monotonic() + LOOK_SECONDS
            return
        if not self._files.exists():
            raise self._removed()
        self._drop_readers()
        old = self._writer
        if self._files.log_was_replaced:
            # The new one first: if ours is the last to close, SQLite applies its log and removes
            # the other.
            self._writer = self._open_writer()
            old.close()
            self.generation += 1
        elif self._files.leave(old):
            self._close_connections()
        else:
            raise StoreUnavailableError(
                f"{self.url}: the file was replaced, but others still use the old one; end them, "
                f"and remove {self.path.name}-wal and {self.path.name}-shm if they are left"
            )

    def _drop_readers(self) -> None:
        with self._pool:
            resting, self._readers = self._readers, []
            self._epoch += 1  # those in use are closed when they come back
        for reader in resting:
            reader.close()

    def _look_for_readers(self) -> None:
        if self._held_by == threading.get_ident():  # it reads inside its own transaction
            return
        if self._writer is not None and self._files.unchanged():
            self._look_at = time.monotonic() + LOOK_SECONDS
            return
        with self.write_lock, self.translated:
            self.writer()

    def _removed(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"{self.url}: the file was removed while the store was open; put it back, or open the "
            "store again"
        )

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",  # never make a new file: this one may come back
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )

    def _open_writer(self) -> sqlite3.Connection:
        for _ in range(_OPENING_TRIES):
            database = self._files.opening()
            if database is None:
                raise self._removed()
            db = self._connect()
            try:
                db.execute(f"PRAGMA busy_timeout = {_OPENING_MILLISECONDS}")
                prepare(db, self.url, self._synchronous)
                db.execute(f"PRAGMA busy_timeout = {round(self._busy_seconds * 1000)}")
                if self._files.opened(database):
                    self._look_at = time.monotonic() + LOOK_SECONDS
                    return db
            except BaseException:
                db.close()
                raise
            db.close()
        raise StoreUnavailableError(f"{self.url}: the file is being replaced; try again")

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """Lend a reading connection: at first the writing one, as to open another takes longer."""
        if (own := self.block_of_thread) is not None:
            with self.translated:
                yield own
            return
        if self._first_reads > 0 and not self.write_lock.locked():
            self._first_reads -= 1
            with self.write_lock, self.translated:
                yield from self._lent_writer()
            return
        if time.monotonic() >= self._look_at:
            self._look_for_readers()
        with self._pool:
            self._refuse_unusable()
            db = self._readers.pop() if self._readers else None
            self._reading += 1
            epoch = self._epoch
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
                    self._rest(db, epoch)

    def _lent_writer(self) -> Iterator[sqlite3.Connection]:
        db = self.writer()
        roll_back(db)
        try:
            yield db
        except BaseException:
            self._discard(db)  # its statement may still hold a snapshot
            raise

    def _rest(self, reader: sqlite3.Connection, epoch: int) -> None:
        if self._closed or epoch != self._epoch or len(self._readers) >= MAX_READERS:
            reader.close()
        else:
            self._readers.append(reader)

    @property
    def block_of_thread(self) -> sqlite3.Connection | None:
        """The writing connection, if this thread is in a `block`."""
        return self._block if self._held_by == threading.get_ident() else None

    @contextmanager
    def block(self) -> Iterator[None]:
        """One transaction for everything that this thread does: it reads with the writer, too."""
        with self.transaction("") as self._block:
            try:
                self._block.execute(f"PRAGMA cache_size = -{_BLOCK_CACHE}")
                yield
            finally:
                self._block = None

    @contextmanager
    def _part(self, db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        """A part of a block: if it raises, it alone is undone."""
        with self.translated:
            db.execute("SAVEPOINT part")
            try:
                yield db
            except BaseException:
                self.generation += 1
                db.execute("ROLLBACK TO part")
                raise
            finally:
                db.execute("RELEASE part")

    @contextmanager
    def transaction(self, run: str) -> Iterator[sqlite3.Connection]:
        """The writing connection in a transaction, committed at the end or rolled back."""
        if (own := self.block_of_thread) is not None:
            with self._part(own) as db:
                yield db
            return
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
            self.committed(db, run)
            fault("sqlite.commit.after")

    def distrusted(self, db: sqlite3.Connection, run: str, error: sqlite3.Error) -> Exception:
        """The error for a failed commit: the rows may be there, so use another connection."""
        self._discard(db)
        return OutcomeUnknownError(run, str(error))

    def _discard(self, db: sqlite3.Connection) -> None:
        """Have the next use open other connections."""
        self.generation += 1
        self._look_at = 0.0
        with suppress(sqlite3.Error):
            roll_back(db)
        if self._files.unchanged():  # else `_look` does more than to close it
            self._writer = None
            self._drop_readers()
            db.close()

    def _translate(self, error: sqlite3.Error) -> HoldfastError:
        self._look_at = 0.0
        if code_of(error) == sqlite3.SQLITE_ERROR:
            self._refuse_newer()
        return translated(error, self.url)

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
