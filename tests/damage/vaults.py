"""Where entries are stored, for those who alter them behind the store's back."""

from __future__ import annotations

import copy
import os
import sqlite3
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from holdfast.model import Entry
from holdfast.store import Store
from holdfast.stores.files import format as files
from holdfast.stores.files.store import FileStore
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite.store import SQLiteStore


class Vault(ABC):
    """A store's own place, which its tests may alter and put back as it was."""

    @abstractmethod
    def open(self) -> Store:
        """The store, as one who has just opened it."""

    @abstractmethod
    def keep(self) -> None:
        """Remember all that is stored now."""

    @abstractmethod
    def restore(self) -> None:
        """Put back what was remembered."""

    @abstractmethod
    def put(self, entry: Entry) -> None:
        """Put these fields in the place of the stored entry with that run and seq."""

    @abstractmethod
    def remove(self, run: str, seq: int) -> None:
        """Take an entry away."""

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """The store, closed in the end."""
        with closing(self.open()) as store:
            yield store


class MemoryVault(Vault):
    """The lists of a store in memory: there is one, and nobody may close it."""

    class _Unclosed(MemoryStore):
        def close(self) -> None:
            """Who opens it again finds what was there."""

    def __init__(self, place: Path) -> None:
        self.store = self._Unclosed()
        self._kept: Any = None

    def open(self) -> Store:
        return self.store

    def keep(self) -> None:
        self._kept = self._copied((self.store._journals, self.store._names, self.store._rows))

    def restore(self) -> None:
        self.store._journals, self.store._names, self.store._rows = self._copied(self._kept)

    def put(self, entry: Entry) -> None:
        journal = self.store._journals[entry.run]
        journal[self._place(entry.run, entry.seq)] = entry

    def remove(self, run: str, seq: int) -> None:
        del self.store._journals[run][self._place(run, seq)]

    def _place(self, run: str, seq: int) -> int:
        return [entry.seq for entry in self.store._journals[run]].index(seq)

    @staticmethod
    def _copied(kept: Any) -> Any:
        journals, names, rows = kept
        return {run: list(found) for run, found in journals.items()}, [*names], copy.deepcopy(rows)


class TableVault(Vault):
    """Rows of SQL tables."""

    entries: str
    tables: Sequence[str]
    mark: ClassVar[str] = "?"

    def __init__(self) -> None:
        self._kept: dict[str, list[tuple[Any, ...]]] = {}

    @abstractmethod
    def execute(self, *statements: tuple[str, Sequence[Sequence[Any]]]) -> list[Any]:
        """Run statements, each once for every row of parameters; the rows that the last finds."""

    def keep(self) -> None:
        self._kept = {
            table: self.execute((f"SELECT {self.columns(table)} FROM {table}", [()]))
            for table in self.tables
        }

    def restore(self) -> None:
        statements: list[tuple[str, Sequence[Sequence[Any]]]] = []
        for table, rows in self._kept.items():
            statements.append((f"DELETE FROM {table}", [()]))
            if rows:
                marks = ", ".join([self.mark] * len(rows[0]))
                names = self.columns(table)
                into = table if names == "*" else f"{table} ({names})"
                statements.append((f"INSERT INTO {into} VALUES ({marks})", rows))
        self.execute(*statements)

    def columns(self, table: str) -> str:
        """Those of a table that can be written."""
        return "*"

    def put(self, entry: Entry) -> None:
        cells = ", ".join(f"{self.quoted(name)} = {self.mark}" for name in Entry._fields[2:])
        where = f"WHERE run = {self.mark} AND seq = {self.mark}"
        update = f"UPDATE {self.entries} SET {cells} {where}"
        self.execute((update, [(*entry[2:], entry.run, entry.seq)]))

    def quoted(self, name: str) -> str:
        """The name of a column."""
        return name

    def remove(self, run: str, seq: int) -> None:
        where = f"WHERE run = {self.mark} AND seq = {self.mark}"
        self.execute((f"DELETE FROM {self.entries} {where}", [(run, seq)]))


class SQLiteVault(TableVault):
    """The tables of a SQLite file, changed by another connection."""

    entries = "holdfast_entries"
    tables = (entries, "holdfast_run_heads", "holdfast_run_labels", "holdfast_run_tally")

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.path = place / "runs.db"
        self._store = SQLiteStore(self.path)
        self._store.append([])
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA synchronous = OFF")
        for opened in (self._db, self._store):
            weakref.finalize(self, opened.close)

    def open(self) -> Store:
        return SQLiteStore(self.path)

    def execute(self, *statements: tuple[str, Sequence[Sequence[Any]]]) -> list[Any]:
        found: list[Any] = []
        self._db.execute("BEGIN IMMEDIATE")
        for statement, rows in statements:
            for row in rows:
                found = self._db.execute(statement, row).fetchall()
        self._db.execute("COMMIT")
        return found


class FileVault(Vault):
    """A directory of files."""

    def __init__(self, place: Path) -> None:
        self.root = place / "runs"
        self._kept: dict[Path, tuple[bytes, int]] = {}

    def open(self) -> Store:
        return FileStore(self.root)

    def keep(self) -> None:
        self._kept = {
            path: (path.read_bytes(), path.stat().st_mtime_ns)
            for path in self.root.rglob("*")
            if path.is_file()
        }

    def restore(self) -> None:
        for path in [*self.root.rglob("*")]:
            if path not in self._kept and path.is_file():
                path.unlink()
        for directory in [path for path in self.root.rglob("*") if path.is_dir()][::-1]:
            if not any(directory.iterdir()):
                directory.rmdir()
        for path, (content, changed) in self._kept.items():
            if not path.exists() or path.stat().st_mtime_ns != changed:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
                os.utime(path, ns=(changed, changed))

    def path(self, run: str, seq: int) -> Path:
        """The file of an entry."""
        return self.root / files.directory_name(run) / files.file_name(seq)

    def put(self, entry: Entry) -> None:
        self.path(entry.run, entry.seq).write_bytes(files.encode(entry))

    def remove(self, run: str, seq: int) -> None:
        self.path(run, seq).unlink()
