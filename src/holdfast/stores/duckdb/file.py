"""A DuckDB file: one connection, shared by all stores of this process that name the file."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

import duckdb

from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    OutcomeUnknownError,
    SchemaError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.model import Entry
from holdfast.seams import fault, on_fork
from holdfast.store import Head
from holdfast.stores._shared.errors import Translated
from holdfast.stores._shared.local_watch import LocalWatches
from holdfast.stores._shared.schema import refuse_newer
from holdfast.stores.duckdb.index import Index
from holdfast.stores.duckdb.making import make_file, make_log, rewritten

COLUMNS: Final = ", ".join(f'"{name}"' for name in Entry._fields)

_TYPES: Final = {"seq": "BIGINT", "parent": "BIGINT", "term": "BIGINT", "step_index": "BIGINT", "at": "BIGINT",
                 "size": "BIGINT", "duration": "DOUBLE", "entry_id": "BLOB", "digest": "BLOB",
                 "body": "BLOB"}  # fmt: skip
_OPTIONAL: Final = ("parent", "step", "step_index", "type", "duration", "flow", "thread", "owner")
_JOURNAL: Final = f"""
    CREATE TABLE holdfast (version INTEGER);
    INSERT INTO holdfast VALUES (0);
    CREATE TABLE entries ({
    ", ".join(
        f'"{name}" {_TYPES.get(name, "VARCHAR")}{"" if name in _OPTIONAL else " NOT NULL"}'
        for name in Entry._fields
    )
});
    CREATE VIEW checkpoints AS SELECT
        run || '@' || seq AS checkpoint_id, thread AS thread_id, flow AS pipeline_id,
        nullif(meta, '')::JSON ->> '$.flow_version' AS pipeline_version,
        step AS step_id, step_index,
        coalesce(nullif(meta, '')::JSON ->> '$.step_name', step) AS step_name,
        make_timestamp("at") AS timestamp,
        coalesce(nullif(meta, '')::JSON -> '$.metadata', '{{}}'::JSON) AS metadata,
        run || '@' || parent AS parent_checkpoint_id,
        CASE WHEN status IN ('failed', 'paused') THEN status ELSE 'completed' END AS status,
        run AS run_id, seq AS sequence, type AS checkpoint_type, owner AS owner_id, duration,
        size AS state_bytes, octet_length(body) AS stored_bytes, lower(hex(digest)) AS digest
    FROM entries WHERE kind IN ('checkpoint', 'result') AND size > 0;
"""  # noqa: S608 - constants only
MIGRATIONS: Final[tuple[str, ...]] = (_JOURNAL,)  # 1: the journal, and the view for people
_FRESH: Final = '"holdfast fresh"'
_MAX_HEADS: Final = 50_000
_MAX_STATEMENTS: Final = 100
_BEFORE_COMMIT: Final = (duckdb.DataError, duckdb.ProgrammingError, duckdb.NotSupportedError)
"""Errors about a statement or its values: raised before the commit."""
_UNBINDABLE: Final = "Unable to cast Python instance"
"""What DuckDB 1 says, in a RuntimeError, of a value that no column can hold."""


class File:
    """The connection, its lock, and the heads of runs.

    This process has the file for itself and writes through this object only, so the heads that
    it remembers are always right.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"duckdb:///{path}"
        self.translated = Translated(self.url, (duckdb.Error, RuntimeError), self._translate)
        self.heads: dict[str, Head] = {}
        self.index = Index()
        self.watches = LocalWatches()
        self.users = 0
        self._db: Any = None
        self._parsed: Any = None  # texts of statements, to statements of the connection
        self._begun = False  # a transaction, which Ctrl-C may have left open
        self._renew_lock()
        on_fork(self._renew_lock, before=self._before_fork, in_parent=self._release)

    def _renew_lock(self) -> None:
        self._lock = Lock()

    def _before_fork(self) -> None:
        # Otherwise two processes would write to the file. The next to use it gets it.
        self._lock.acquire()
        self._disconnect()

    def _release(self) -> None:
        self._lock.release()

    def join(self) -> None:
        """One more store uses it."""
        with self._lock:
            self._connection()
            self.users += 1

    def leave(self) -> None:
        """One store less; after the last, other processes may open the file."""
        with self._lock:
            self.users -= 1
            if self.users <= 0:
                self._disconnect()

    def query(self, text: str, parameters: Any) -> list[tuple[Any, ...]]:
        """The rows that a query finds."""
        with self._lock, self.translated:
            found: list[tuple[Any, ...]] = self._connection().execute(text, parameters).fetchall()
            return found

    def insert(self, entries: Sequence[Entry]) -> None:
        """Insert the entries in one statement, inside `using` or `transaction`.

        Lists and parsing are slow: a value that all entries share is not a list, a column of NULLs
        is skipped, and each statement is parsed once. The inner SELECT halves the time.
        """
        columns, parameters = {}, []
        for name, values in zip(Entry._fields, zip(*entries, strict=True), strict=True):
            alike = name not in ("run", "body") and values.count(values[0]) == len(values)
            if alike and values[0] is None:
                continue
            of = _TYPES.get(name, "VARCHAR")
            columns[f'"{name}"'] = f"?::{of}" if alike else f"unnest(?::{of}[])"
            parameters.append(values[0] if alike else list(values))
        names = ", ".join(columns)
        rows = ", ".join(f"{value} AS {name}" for name, value in columns.items())
        text = f"INSERT INTO entries ({names}) SELECT {names} FROM (SELECT {rows})"  # noqa: S608
        self._db.execute(self._parsed(text)[0], parameters)

    @contextmanager
    def using(self) -> Iterator[Any]:
        """Lend the connection. Each statement is its own transaction."""
        with self._lock, self.translated:
            db = self._connection()
            if len(self.heads) > _MAX_HEADS:
                self.heads.clear()
            try:
                yield db
            except BaseException:
                self.heads.clear()
                self.index.forget()
                raise

    @contextmanager
    def transaction(self, run: str) -> Iterator[Any]:
        """Lend the connection in a transaction, which is committed at the end or rolled back."""
        with self.using() as db:
            try:
                self._begun = True
                db.execute("BEGIN")
                yield db
            except BaseException:
                with suppress(duckdb.Error):
                    db.execute("ROLLBACK")
                    self._begun = False
                raise
            with self.committing(run):
                db.execute("COMMIT")
                self._begun = False

    @contextmanager
    def committing(self, run: str) -> Iterator[None]:
        """Around a statement that commits: if it fails, the outcome may be unknown."""
        make_log(self.path)
        try:
            yield
        except BaseException as error:
            self._disconnect()  # its memory may differ from the disk
            before = isinstance(error, _BEFORE_COMMIT) or _UNBINDABLE in str(error)
            if isinstance(error, Exception) and not before:
                raise OutcomeUnknownError(run, f"{self.url}: {error}") from error
            raise

    def rewrite(self) -> None:
        """Replace the file by a copy of it that holds only what is there, all or nothing."""
        try:
            with self._lock, self.translated:
                db = self._connection()
                with rewritten(self.path) as fresh:
                    db.execute("CHECKPOINT")
                    (name,) = db.execute("SELECT current_database()").fetchone()
                    here = '"{}"'.format(name.replace('"', '""'))
                    path = str(fresh).replace("'", "''")
                    db.execute(f"ATTACH '{path}' AS {_FRESH}")
                    try:
                        db.execute(f"COPY FROM DATABASE {here} TO {_FRESH}")
                    finally:
                        db.execute(f"DETACH {_FRESH}")
                self._disconnect()  # only now: nobody could open the old file meanwhile
        except OSError as error:
            raise StoreError(f"{self.url}: the file can't be written anew: {error}") from error

    def _connection(self) -> Any:
        if self._begun:
            self._disconnect()
        if self._db is None:
            with self.translated:
                make_file(self.path, self.url)
                db = duckdb.connect(str(self.path))
                try:
                    self._prepare(db)
                except BaseException:
                    db.close()
                    raise
            self._db = db
            self._parsed = lru_cache(_MAX_STATEMENTS)(db.extract_statements)
        return self._db

    def _prepare(self, db: Any) -> None:
        version = self._version(db)
        refuse_newer(self.url, version, len(MIGRATIONS))
        if version < len(MIGRATIONS):
            db.execute("BEGIN")
            for script in MIGRATIONS[version:]:
                db.execute(script)
                fault("schema.migrate")
            db.execute("UPDATE holdfast SET version = ?", [len(MIGRATIONS)])
            make_log(self.path)
            db.execute("COMMIT")

    def _version(self, db: Any) -> int:
        """The version of the schema; 0 if the file is new."""
        tables = {
            name for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        }
        if not tables:
            return 0
        if "holdfast" not in tables:
            raise SchemaError(
                self.url, "this DuckDB file was not made by holdfast; name another file"
            )
        try:
            (version,) = db.execute("SELECT version FROM holdfast").fetchone() or (0,)
        except duckdb.BinderException as error:
            text = "this DuckDB file has a table named holdfast that is not ours; name another file"
            raise SchemaError(self.url, text) from error
        return int(version)

    def _disconnect(self) -> None:
        self.heads.clear()
        self.index.forget()
        if self._db is not None:
            with suppress(duckdb.Error):
                self._db.close()
            self._db = self._parsed = None
        self._begun = False

    def _translate(self, error: Exception) -> HoldfastError:
        if isinstance(error, duckdb.FatalException | duckdb.InternalException):
            self._disconnect()
        said = " ".join(str(error).split())
        if "Could not set lock" in said:
            return StoreUnavailableError(
                f"{self.url}: another process has this file open, and DuckDB allows only one; "
                f"close it there, or use SQLite or a server, which several processes can use, and "
                f"watch ({said})"
            )
        if "not a valid DuckDB database" in said:
            return SchemaError(self.url, "this is not a DuckDB database; name another file")
        if isinstance(error, duckdb.SerializationException):
            return CheckpointCorruptedError(self.url, None, said)
        if isinstance(error, duckdb.OperationalError | duckdb.FatalException):
            return StoreUnavailableError(f"{self.url}: {said}")
        return StoreError(f"{self.url}: {said}")


@contextmanager
def connect(path: Path) -> Iterator[Any]:
    """A plain connection to a file, with translated errors."""
    file = File(path)
    with file.translated, duckdb.connect(str(path)) as db:
        yield db


_files: weakref.WeakValueDictionary[Path, File] = weakref.WeakValueDictionary()
_files_lock = Lock()


def shared(path: Path) -> File:
    """The one `File` of this process for a path."""
    with _files_lock:
        path = path.resolve()
        file = _files.get(path)
        if file is None:
            file = _files[path] = File(path)
        return file
