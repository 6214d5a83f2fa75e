"""Reading one row from the host program's databases: SQLite, PostgreSQL, MySQL and DuckDB.

Names of tables and columns are looked up in the database's own catalogue with bound parameters,
and only what is found there is put into SQL, quoted. Everything is opened to be read only.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from holdfast.errors import EvidencePolicyError
from holdfast.evidence.context import Context
from holdfast.evidence.policy import Connection

_BUSY_SECONDS: Final = 1.0
_PROGRESS_STEPS: Final = 10_000
_BYTEA: Final = 17  # PostgreSQL's number of the type


class Dialect(NamedTuple):
    """What differs between databases."""

    name: str
    mark: str  # the placeholder of a bound value
    quotes: str  # around a name
    catalogue: str  # table and column of every column; takes the table's name and its schema
    begin: str  # opens a transaction that can't write; empty where the connection can't anyway
    folds_case: bool = False  # of names

    def quoted(self, name: str) -> str:
        """A name as SQL."""
        return self.quotes + name.replace(self.quotes, self.quotes * 2) + self.quotes


SQLITE: Final = Dialect(
    "sqlite",
    "?",
    '"',
    "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c"
    " WHERE m.type IN ('table', 'view') AND m.name = ? COLLATE NOCASE"
    " AND coalesce(?, 'main') = 'main' AND c.hidden <> 1",
    "",
    folds_case=True,
)
_INFORMATION: Final = (
    "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_name = {mark} AND table_schema = coalesce({mark}, {current})"
)
POSTGRES: Final = Dialect(
    "postgresql", "%s", '"', _INFORMATION.format(mark="%s", current="current_schema()"), ""
)
MYSQL: Final = Dialect(
    "mysql", "%s", "`", _INFORMATION.format(mark="%s", current="database()"),
    "START TRANSACTION READ ONLY",
)  # fmt: skip
DUCKDB: Final = Dialect(
    "duckdb", "?", '"', _INFORMATION.format(mark="?", current="current_schema()"),
    "BEGIN TRANSACTION READ ONLY",
)  # fmt: skip

_DRIVERS: Final = {  # by the package that a connection's class comes from
    "sqlite3": SQLITE,
    "psycopg": POSTGRES,
    "psycopg2": POSTGRES,
    "pymysql": MYSQL,
    "MySQLdb": MYSQL,
    "duckdb": DUCKDB,
    "_duckdb": DUCKDB,
}


@contextmanager
def connected(name: str, where: Connection, context: Context) -> Iterator[tuple[Any, Dialect]]:
    """A connection that reads only, and its dialect. It is closed again.

    Raises `EvidencePolicyError` if the program registered what can't be opened at all, and
    whatever the driver raises.
    """
    connection = where() if callable(where) else _open(name, where)
    try:
        dialect = _DRIVERS.get(type(connection).__module__.partition(".")[0])
        if dialect is None:
            raise EvidencePolicyError(
                name, f"{type(connection).__name__} is not a known connection"
            )
        _restrain(connection, dialect, context)
        yield connection, dialect
    finally:
        connection.close()


def described(problem: Exception) -> str:
    """A driver's error by its class and its code.

    Its message is not shown: it may quote the connection's URL, and values that were found.
    """
    for name in ("sqlstate", "pgcode", "sqlite_errorname"):
        code = getattr(problem, name, None)
        if isinstance(code, str):
            return f"{type(problem).__name__} ({code})"
    if isinstance(problem, OSError) and problem.strerror:
        return f"{type(problem).__name__}: {problem.strerror}"
    number = problem.args[0] if problem.args else None
    known = f" ({number})" if type(number) is int else ""
    return f"{type(problem).__name__}{known}"


def columns_of(
    connection: Any, dialect: Dialect, table: str, schema: str | None
) -> tuple[str, list[str]]:
    """The table's name as the catalogue has it, and its columns. No columns: no such table."""
    rows = run(connection, dialect.catalogue, (table, schema))
    names = {row[0] for row in rows}
    return (names.pop() if len(names) == 1 else table), [row[1] for row in rows]


def run(connection: Any, sql: str, values: Sequence[object], limit: int = 5000) -> list[Any]:
    """The first rows of a query."""
    cursor = connection.cursor()
    try:
        cursor.execute(sql, tuple(values))
        rows = cursor.fetchmany(limit)  # a program's own connection may make dicts of them
        rows = [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]
        return [_decoded(row, cursor) for row in rows] if _is_undecoded(connection) else rows
    finally:
        with suppress(Exception):
            cursor.close()


def _is_undecoded(connection: Any) -> bool:
    """Whether texts come as bytes: psycopg does that for a server that knows no encoding."""
    return getattr(getattr(connection, "info", None), "encoding", None) == "ascii"


def _decoded(row: tuple[Any, ...], cursor: Any) -> tuple[Any, ...]:
    """The row with its texts as texts. What is not UTF-8 becomes a text that nobody can claim."""
    return tuple(
        value.decode(errors="surrogateescape")
        if isinstance(value, bytes) and column[1] != _BYTEA
        else value
        for value, column in zip(row, cursor.description, strict=True)
    )


def _restrain(connection: Any, dialect: Dialect, context: Context) -> None:
    """Make the connection unable to write, and to outlast the deadline."""
    if isinstance(connection, sqlite3.Connection):

        def is_late() -> bool:
            return context.expired or context.clock.monotonic() >= context.deadline

        connection.set_progress_handler(is_late, _PROGRESS_STEPS)
        connection.row_factory = None
        connection.text_factory = lambda text: text.decode(errors="surrogateescape")
        for pragma in ("query_only = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {pragma}").close()
        return
    if dialect is POSTGRES and hasattr(connection, "read_only"):
        connection.autocommit = False
        connection.read_only = True
    elif dialect is POSTGRES:
        connection.set_session(readonly=True, autocommit=False)
    for wake in ("interrupt", "cancel", "cancel_safe"):
        if hasattr(connection, wake):
            context.at_deadline(getattr(connection, wake))
            break
    if dialect is MYSQL:
        seconds = context.remaining()
        for setting in (
            f"max_statement_time = {seconds}",
            f"max_execution_time = {seconds * 1000:.0f}",
        ):
            with suppress(Exception):  # MariaDB knows the one, MySQL the other
                _execute(connection, f"SET SESSION {setting}")
    if dialect.begin:
        _execute(connection, dialect.begin)


def _execute(connection: Any, statement: str) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute(statement)
    finally:
        cursor.close()


def _open(name: str, where: str | Path) -> Any:
    text = str(where)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _sqlite(text)
    if scheme == "sqlite":
        return _sqlite(rest.removeprefix("/"))
    if scheme in ("postgresql", "postgres"):
        return _driver("psycopg", "postgres").connect(text, connect_timeout=5)
    if scheme in ("mysql", "mariadb"):
        parts = urlsplit(text)
        return _driver("pymysql", "mysql").connect(
            host=parts.hostname or "localhost",
            port=parts.port or 3306,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            database=unquote(parts.path.lstrip("/")),
            connect_timeout=5,
            read_timeout=30,
        )
    if scheme == "duckdb":
        return _driver("duckdb", "duckdb").connect(rest.removeprefix("/"), read_only=True)
    raise EvidencePolicyError(name, "its URL does not name a database that can be queried")


def _sqlite(path: str) -> sqlite3.Connection:
    # isolation_level=None: no transaction is begun behind our back. Never creates a file.
    return sqlite3.connect(
        f"file:{quote(str(Path(path).absolute()))}?mode=ro",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
    )


def _driver(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise EvidencePolicyError(module, f"holdfast's extra {extra!r} is not installed") from None
