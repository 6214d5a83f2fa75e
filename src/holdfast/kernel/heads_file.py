"""The file in which heads are remembered: for each run of each store, its newest known entry.

It is an SQLite database, outside of the stores, and may be shared by processes. Only the newest
entry of a run counts, whoever wrote it. What a crash loses of it is the last second: then an older
entry is remembered, which is no less true.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from holdfast.errors import HeadsFileError
from holdfast.kernel.known_heads import KnownHead
from holdfast.logs import logger
from holdfast.seams import on_fork
from holdfast.stores._shared.access import refuse_planted

log: Final = logger()

_APPLICATION: Final = 0x68666864  # "hfhd"
_VERSION: Final = 1
_PAGE: Final = 500
_WAIT: Final = 10.0  # seconds, for another process that writes to it
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS stores (address TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS heads (
    store TEXT NOT NULL, run TEXT NOT NULL, seq INTEGER NOT NULL, digest BLOB NOT NULL,
    at INTEGER NOT NULL, PRIMARY KEY (store, run)
) WITHOUT ROWID;
"""
_PUT: Final = (
    "INSERT INTO heads VALUES (?, ?, ?, ?, ?) ON CONFLICT (store, run) DO UPDATE "
    "SET seq = excluded.seq, digest = excluded.digest, at = excluded.at "
)
_IF_NEWER: Final = "WHERE excluded.seq > heads.seq"


class HeadsFile:
    """Reads and writes the file. Blocks; may be shared by threads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser().absolute()
        self._inherited: list[sqlite3.Connection] = []  # must not be closed here, after a fork
        self._reset()
        on_fork(self._reset)
        with self._opened():
            pass

    def _reset(self) -> None:
        self._lock = threading.Lock()
        inherited: sqlite3.Connection | None = getattr(self, "_db", None)
        if inherited is not None:
            self._inherited.append(inherited)
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def store_at(self, address: str) -> str | None:
        """The id that the store at this address had."""
        with self._opened() as db:
            found = db.execute("SELECT id FROM stores WHERE address = ?", (address,)).fetchone()
            return None if found is None else str(found[0])

    def put_store(self, address: str, store: str) -> None:
        """Remember which store is at this address."""
        with self._opened() as db:
            db.execute("INSERT OR REPLACE INTO stores VALUES (?, ?)", (address, store))

    def head(self, store: str, run: str) -> KnownHead | None:
        """What is remembered of a run."""
        query = "SELECT run, seq, digest, at FROM heads WHERE store = ? AND run = ?"
        with self._opened() as db:
            found = db.execute(query, (store, run)).fetchone()
            return None if found is None else KnownHead._make(found)

    def heads(self, store: str) -> Iterator[KnownHead]:
        """All that is remembered of a store, by name."""
        query = "SELECT run, seq, digest, at FROM heads WHERE store = ? AND run > ? ORDER BY run LIMIT ?"
        after = ""
        while True:
            with self._opened() as db:
                page = db.execute(query, (store, after, _PAGE)).fetchall()
            yield from map(KnownHead._make, page)
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def put(self, store: str, heads: Iterable[KnownHead], *, newer_only: bool = True) -> None:
        """Remember heads, as far as they are newer than what is; or in any case."""
        rows = [(store, *head) for head in heads]
        with self._opened() as db, _transaction(db):
            db.executemany(_PUT + (_IF_NEWER if newer_only else ""), rows)

    def remove(self, store: str, runs: Iterable[str]) -> None:
        """Forget these runs."""
        with self._opened() as db, _transaction(db):
            db.executemany(
                "DELETE FROM heads WHERE store = ? AND run = ?", [(store, run) for run in runs]
            )

    def close(self) -> None:
        """Close it; the next call opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The database. Raises `HeadsFileError`."""
        with self._lock:
            try:
                if self._db is not None and self._file != self._now():
                    log.warning(
                        "%s was removed or replaced while it was in use: what it remembered of "
                        "heads is lost, and they are remembered anew from now on",
                        self.path,
                    )
                    self._close()
                if self._db is None:
                    self._db = self._open()
                yield self._db
            except sqlite3.Error as error:
                raise HeadsFileError(str(self.path), _reason(error)) from error
            except OSError as error:
                raise HeadsFileError(str(self.path), error.strerror or str(error)) from error

    def _now(self) -> tuple[int, int] | None:
        """Which file is at the path."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _open(self) -> sqlite3.Connection:
        refuse_planted(str(self.path), self.path)
        new = not self.path.exists()
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(
            self.path, timeout=_WAIT, isolation_level=None, check_same_thread=False
        )
        try:
            with closing(db.cursor()) as cursor:
                (known,) = cursor.execute("PRAGMA application_id").fetchone()
                (tables,) = cursor.execute("SELECT count(*) FROM sqlite_master").fetchone()
                if known != _APPLICATION and (known or tables):
                    raise HeadsFileError(
                        str(self.path), "it is a database of something else; name another file"
                    )
                (version,) = cursor.execute("PRAGMA user_version").fetchone()
                if known == _APPLICATION and version > _VERSION:
                    raise HeadsFileError(
                        str(self.path),
                        f"a newer holdfast wrote it (version {version}); use that, or another file",
                    )
                cursor.execute("PRAGMA journal_mode = WAL")
                cursor.execute("PRAGMA synchronous = NORMAL")
                if known != _APPLICATION:
                    cursor.execute(f"PRAGMA application_id = {_APPLICATION}")
                    cursor.execute(f"PRAGMA user_version = {_VERSION}")
                cursor.executescript(_SCHEMA)
        except BaseException:
            db.close()
            raise
        self._file = self._now()
        if new:
            log.warning(
                "%s is new: heads are remembered from now on, and nothing that was saved before "
                "can be compared",
                self.path,
            )
        return db


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _reason(error: sqlite3.Error) -> str:
    if isinstance(error, sqlite3.OperationalError):  # locked, full, read-only
        return str(error)
    return (
        f"it is damaged ({error}); move it away, and heads are remembered anew. What was remembered "
        "is lost: compare the store with an anchor first, if there is one"
    )
