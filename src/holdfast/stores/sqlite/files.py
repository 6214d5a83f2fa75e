"""The files of a SQLite database: whether their names still lead to those that are open.

A file that was removed or replaced still takes what is written to it, and nobody finds it there.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

Identity = tuple[int, int]  # device and inode


class Files(NamedTuple):
    """Files by name: the database, its write-ahead log and its shared memory; None if missing."""

    database: Identity | None
    wal: Identity | None
    shm: Identity | None


class OpenFiles:
    """What the connections to a database have open."""

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        self._real = ""
        self._opened = Files(None, None, None)
        self._names = ("", "")
        self._found = (0, 0, 0, 0)
        self.wal_size = 0  # when it was last looked at

    def exists(self) -> bool:
        """Whether there is a database of that name."""
        return identity(self._path) is not None

    def opening(self) -> Identity | None:
        """The database that will be opened. SQLite puts the other files beside it."""
        self._real = os.path.realpath(self._path)
        return identity(self._path)

    def opened(self, database: Identity | None) -> bool:
        """Note what a first connection has just opened; False if it may not be `database`."""
        found = self._now()
        if database is None or found.database != database or found.wal is None:
            return False
        self._opened = found
        self._names = self._path, self._real + "-wal"
        self._found = (*database, *found.wal)
        return True

    def unchanged(self) -> bool:
        """Whether the names still lead to what is open. Two system calls, after every commit."""
        try:
            database, wal = map(os.stat, self._names)
        except OSError:
            return False
        self.wal_size = wal.st_size
        return (database.st_dev, database.st_ino, wal.st_dev, wal.st_ino) == self._found

    @property
    def log_was_replaced(self) -> bool:
        """Whether the same database has another log with something in it."""
        found = self._now()
        if found.database != self._opened.database or found.wal in (None, self._opened.wal):
            return False
        return _size(self._real + "-wal") > 0

    def leave(self, writer: sqlite3.Connection) -> bool:
        """Move what the open log has to the open database; False if others read there right now.

        If another database took the name, the log must not keep its own: SQLite would take what it
        has for pages of that database.
        """
        with suppress(sqlite3.Error):  # where even that is gone
            if writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                return False
        if identity(self._path) == self._opened.database:
            return True
        wal, shm = self._real + "-wal", self._real + "-shm"
        if identity(wal) == self._opened.wal:
            if _size(wal) > 0:
                return False
            _unlink(wal)
        if identity(shm) == self._opened.shm:
            _unlink(shm)
        return True

    def _now(self) -> Files:
        return Files(
            identity(self._path), identity(self._real + "-wal"), identity(self._real + "-shm")
        )


def identity(name: str) -> Identity | None:
    """Which file has the name; None if none has."""
    try:
        found = os.stat(name)  # noqa: PTH116 - half the time of a Path's
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _size(name: str) -> int:
    try:
        return Path(name).stat().st_size
    except FileNotFoundError:
        return 0


def _unlink(name: str) -> None:
    Path(name).unlink(missing_ok=True)
