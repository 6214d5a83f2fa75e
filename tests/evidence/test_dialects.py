"""What is asked of servers, on a SQLite that pretends to be one: an `information_schema`, `%s`."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from .support import FAILED, VERIFIED, claim, status, verifier

SCHEMAS = {"psycopg": "public", "pymysql": "app", "duckdb": "main"}


class Cursor:
    def __init__(self, cursor: sqlite3.Cursor, log: list[str]) -> None:
        self._cursor, self._log = cursor, log

    def execute(self, sql: str, values: tuple[Any, ...] = ()) -> None:
        self._log.append(sql)
        if "TRANSACTION" not in sql:
            for schema in ("public", "app"):
                sql = sql.replace(f'"{schema}".', "").replace(f"`{schema}`.", "")
            self._cursor.execute(sql.replace("%s", "?"), values)

    def fetchmany(self, size: int) -> list[Any]:
        return self._cursor.fetchmany(size)

    def close(self) -> None:
        self._cursor.close()


class Connection:
    def __init__(self, path: Path, log: list[str], schema: str) -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute("ATTACH ':memory:' AS information_schema")
        self._connection.execute(
            "CREATE TABLE information_schema.columns (table_schema, table_name, column_name)"
        )
        rows = [(schema, "tasks", name) for name in ("id", "status", "done_at")]
        rows.append(("other", "secrets", "token"))
        self._connection.executemany(
            "INSERT INTO information_schema.columns VALUES (?, ?, ?)", rows
        )
        self._connection.create_function("current_schema", 0, lambda: schema)
        self._connection.create_function("database", 0, lambda: schema)
        self._log = log
        self.autocommit = True
        self.read_only = False

    def cursor(self) -> Cursor:
        return Cursor(self._connection.cursor(), self._log)

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        self._log.append(f"closed, read_only={self.read_only}")
        self._connection.close()


@pytest.mark.parametrize("driver", ["psycopg", "pymysql", "duckdb"])
def test_a_row_of_a_server_is_checked(driver: str, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE tasks (id, status, done_at); CREATE TABLE secrets (token);"
            "INSERT INTO tasks VALUES (1, 'done', NULL), (2, 'twin', 1), (2, 'twin', 1);"
        )
    connection.close()
    log: list[str] = []
    made = type("Connection", (Connection,), {"__module__": f"{driver}.connection"})
    checker = verifier(connections={"default": lambda: made(path, log, SCHEMAS[driver])})

    def row(where: dict[str, Any], table: str = "tasks", **more: Any) -> str:
        return status(checker, claim("db_row", table=table, where=where, **more))

    assert row({"id": 1, "done_at": None}, values={"status": "done"}) == VERIFIED
    assert row({"id": 1}, values={"status": "open"}) == FAILED
    assert row({"id": 2}) == FAILED
    assert row({"id": 3}) == FAILED
    assert row({"gone": 1}) == FAILED
    assert row({"ID": 1}) == FAILED, "names are the catalogue's own"
    assert row({"token": 1}, table="secrets") == FAILED, "of another schema"
    assert row({"id": 1}, table="(SELECT 1 AS id)") == FAILED
    assert row({"id": 1}, schema="other") == FAILED
    if driver != "duckdb":
        assert row({"id": 1}, schema=SCHEMAS[driver]) == VERIFIED
    assert any("READ ONLY" in sql for sql in log) or "closed, read_only=True" in log
    assert all("tasks" not in sql or "LIMIT 2" in sql for sql in log)
