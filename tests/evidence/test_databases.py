from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import EvidencePack, EvidenceVerifier, Policy, refuse_unverifiable
from tests.waiting import in_time

from .support import ERROR, FAILED, INCONCLUSIVE, VERIFIED, claim, status, verifier

SCHEMA = """
CREATE TABLE tasks (id INTEGER PRIMARY KEY, name TEXT, status TEXT, done_at TEXT, ok INTEGER, data BLOB);
INSERT INTO tasks VALUES (1, 'one', 'completed', NULL, 1, x'00ff');
INSERT INTO tasks VALUES (2, 'two', 'open', NULL, 0, NULL);
INSERT INTO tasks VALUES (3, 'twins', 'completed', 'now', 1, NULL);
INSERT INTO tasks VALUES (4, 'twins', 'completed', 'now', 1, NULL);
CREATE TABLE "we""ird; -- [name]" ("co l""umn" TEXT, 'select' TEXT);
INSERT INTO "we""ird; -- [name]" VALUES ('v', 's');
CREATE VIEW finished AS SELECT id, name FROM tasks WHERE status = 'completed';
CREATE VIEW endless AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c;
CREATE TABLE secrets (token TEXT);
INSERT INTO secrets VALUES ('t0k3n');
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "store.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
    return path


@pytest.fixture
def checker(database: Path) -> EvidenceVerifier:
    return verifier(connections={"default": database}, check_seconds=2)


def row(table: Any = "tasks", where: Any = None, values: Any = None, **metadata: Any) -> Any:
    where = {"id": 1} if where is None else where
    return claim("db_row", metadata, table=table, where=where, values=values or {})


@pytest.mark.parametrize(
    ("where", "values", "found"),
    [
        ({"id": 1}, {"status": "completed"}, VERIFIED),
        ({"id": 1}, {"STATUS": "completed"}, VERIFIED),
        ({"id": 1}, {}, VERIFIED),
        ({"id": 1, "name": "one"}, {"status": "completed", "ok": 1}, VERIFIED),
        ({"id": 1}, {"ok": True}, VERIFIED),
        ({"id": 2}, {"ok": False}, VERIFIED),
        ({"id": 2}, {"ok": True}, FAILED),
        ({"id": 1}, {"ok": 1.0}, VERIFIED),
        ({"id": 1}, {"ok": "1"}, FAILED),
        ({"id": 1}, {"data": b"\x00\xff"}, VERIFIED),
        ({"id": 1, "done_at": None}, {"status": "completed"}, VERIFIED),
        ({"id": 3, "done_at": None}, {}, FAILED),
        ({"id": 1}, {"done_at": None}, VERIFIED),
        ({"id": 3}, {"done_at": None}, FAILED),
        ({"id": 1}, {"status": None}, FAILED),
        ({"id": 2}, {"status": "completed"}, FAILED),
        ({"id": 99}, {}, FAILED),
        ({"name": "twins"}, {"status": "completed"}, FAILED),
        ({"name": "' OR 1=1 --"}, {}, FAILED),
        ({"id": 1 << 70}, {}, ERROR),
        ({}, {}, ERROR),
        ({"id": [1]}, {}, ERROR),
        ({"id": float("nan")}, {}, ERROR),
        ({1: 1}, {}, ERROR),
        ("id = 1", {}, ERROR),
    ],
)  # fmt: skip
def test_exactly_one_row_has_these_values(
    checker: EvidenceVerifier, where: Any, values: Any, found: str
) -> None:
    assert status(checker, row("tasks", where, values)) == found


@pytest.mark.parametrize(
    "table",
    [
        "(SELECT 1 AS id)",
        "(SELECT 1 AS id) AS t",
        "tasks; DROP TABLE tasks",
        "tasks WHERE 1=1 --",
        'tasks" UNION SELECT token FROM secrets --',
        "tasks, secrets",
        "main.tasks",
        "",
        "gone",
        "sqlite_master",
        "pragma_table_info('tasks')",
        "x" * 5000,
    ],
)
def test_a_name_that_is_no_table_is_never_sql(
    checker: EvidenceVerifier, database: Path, table: str
) -> None:
    before = database.read_bytes()
    assert status(checker, row(table)) == FAILED
    assert database.read_bytes() == before


@pytest.mark.parametrize(
    "column",
    ["gone", "1", "id = id OR 1", 'id" = "id" OR "1', "completed", "(SELECT token FROM secrets)",
     "rowid", "", "*", "tasks.id"],
)  # fmt: skip
def test_a_name_that_is_no_column_is_never_sql(checker: EvidenceVerifier, column: str) -> None:
    """SQLite takes an unknown name in quotes for text: "completed" would equal 'completed'."""
    assert status(checker, row("tasks", {column: column})) == FAILED
    assert status(checker, row("tasks", {"id": 1}, {column: column})) == FAILED


def test_hostile_names_that_exist_are_quoted(checker: EvidenceVerifier) -> None:
    table = 'we"ird; -- [name]'
    assert status(checker, row(table, {'co l"umn': "v"}, {"select": "s"})) == VERIFIED
    assert status(checker, row(table, {'co l"umn': "v"}, {"select": "t"})) == FAILED


def test_views_are_tables_too(checker: EvidenceVerifier) -> None:
    assert status(checker, row("finished", {"id": 1}, {"name": "one"})) == VERIFIED
    assert status(checker, row("finished", {"id": 2})) == FAILED


def test_a_query_that_does_not_end_is_stopped(checker: EvidenceVerifier) -> None:
    hurried = verifier(connections=checker.policy.connections, check_seconds=0.3)
    with in_time():
        assert status(hurried, row("endless", {"x": -1})) == INCONCLUSIVE


def test_only_registered_connections_are_asked(checker: EvidenceVerifier, database: Path) -> None:
    for metadata in ({"connection": "other"}, {"connection": str(database)}, {"connection": 7}):
        evidence = row(**metadata)
        assert status(checker, evidence) == ERROR
        with pytest.raises(hf.EvidenceError):
            refuse_unverifiable(EvidencePack([evidence]), checker.policy)
    assert status(EvidenceVerifier(), row()) == ERROR
    named = verifier(connections={"main": f"sqlite:///{database}"})
    assert status(named, row(connection="main")) == VERIFIED
    assert status(named, row()) == ERROR


def test_a_connection_may_be_opened_by_the_program(database: Path) -> None:
    opened: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        opened.append(sqlite3.connect(database, check_same_thread=False))
        return opened[-1]

    checker = verifier(connections={"default": connect})
    assert status(checker, row()) == VERIFIED
    assert status(checker, row(where={"id": 99})) == FAILED
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


@pytest.mark.parametrize("where", [object(), "ftp://x", "postgresql://127.0.0.1:1/x"])
def test_what_is_no_database_is_no_verdict_on_the_row(where: Any) -> None:
    known = where if isinstance(where, str) else lambda: Unknown()
    assert status(verifier(connections={"default": known}), row()) in (ERROR, INCONCLUSIVE)


class Unknown:
    def close(self) -> None:
        pass


def test_a_database_named_by_evidence_must_be_inside_a_root(database: Path, tmp_path: Path) -> None:
    inside = verifier(base_path=tmp_path)
    assert status(inside, row(db_path="store.sqlite")) == VERIFIED
    assert status(inside, row(db_path=str(database))) == VERIFIED
    assert status(inside, row(where={"id": 9}, db_path="store.sqlite")) == FAILED
    assert status(inside, row(db_path="gone.sqlite")) == FAILED
    (tmp_path / "sub").mkdir()
    elsewhere = verifier(base_path=tmp_path / "sub")
    (tmp_path / "sub" / "link").symlink_to(database)
    for path in (str(database), "../store.sqlite", "link", 7, ""):
        assert status(elsewhere, row(db_path=path)) == ERROR
    assert status(EvidenceVerifier(), row(db_path=str(database))) == ERROR
    assert status(inside, row(db_path="store.sqlite", connection="default")) == ERROR


def test_a_path_is_no_way_to_change_how_the_file_is_opened(tmp_path: Path, database: Path) -> None:
    odd = tmp_path / "a?mode=rwc&x=#%41.sqlite"
    odd.write_bytes(database.read_bytes())
    assert status(verifier(base_path=tmp_path), row(db_path=odd.name)) == VERIFIED
    assert status(verifier(connections={"default": odd}), row()) == VERIFIED
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"store.sqlite", odd.name}


def test_what_is_no_database_file_is_an_error_and_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"hello, I am no database at all" * 100)
    (tmp_path / "dir").mkdir()
    checker = verifier(base_path=tmp_path, connections={"default": tmp_path / "gone"})
    assert status(checker, row(db_path="text")) == ERROR
    assert status(checker, row(db_path="dir")) == INCONCLUSIVE
    assert status(checker, row()) == INCONCLUSIVE
    assert not (tmp_path / "gone").exists()


def test_nothing_can_be_written(database: Path) -> None:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(database)
        connection.create_function(
            "spend", 0, lambda: connection.execute("DELETE FROM tasks").rowcount
        )
        return connection

    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE VIEW trap AS SELECT spend() AS id")
        connection.commit()
    before = database.read_bytes()
    assert status(verifier(connections={"default": connect}), row("trap")) != VERIFIED
    assert database.read_bytes() == before


@pytest.fixture
def locked(database: Path) -> Iterator[Path]:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield database
        connection.execute("ROLLBACK")


def test_a_locked_database_is_inconclusive(locked: Path) -> None:
    checker = EvidenceVerifier(
        policy=Policy(connections={"default": locked}, check_seconds=10), attempts=2, backoff=0.01
    )
    evidence = row()
    assert status(checker, evidence) == INCONCLUSIVE
    assert evidence.verdict is not None
    assert evidence.verdict.attempts == 2


def test_a_database_in_wal_with_a_writer_is_read(database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        assert writer.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE tasks SET status = 'lost' WHERE id = 1")
        checker = verifier(connections={"default": database})
        assert status(checker, row(values={"status": "completed"})) == VERIFIED
        writer.execute("COMMIT")
        assert status(checker, row(values={"status": "completed"})) == FAILED


def test_duckdb_rows_are_checked(tmp_path: Path) -> None:
    duckdb = importlib.import_module("duckdb")
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE tasks (id INTEGER, status TEXT, done_at TEXT)")
        connection.execute(
            "INSERT INTO tasks VALUES (1, 'completed', NULL), (2, 'a', 'b'), (2, 'a', 'b')"
        )
    checker = verifier(connections={"default": f"duckdb:///{path}"})
    assert (
        status(checker, row(where={"id": 1, "done_at": None}, values={"status": "completed"}))
        == VERIFIED
    )
    assert status(checker, row(where={"id": 2})) == FAILED
    assert status(checker, row(where={"gone": 2})) == FAILED
    assert status(checker, row("(SELECT 1 AS id)")) == FAILED


# --- the database's idea of equality is not ours


@pytest.fixture
def loose(tmp_path: Path) -> EvidenceVerifier:
    """A table whose columns take different texts for equal."""
    path = tmp_path / "loose.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE users (id INTEGER, name TEXT COLLATE NOCASE, pad TEXT COLLATE RTRIM, any);"
            "INSERT INTO users VALUES (1, 'alice', 'x', '7'), (2, 'ALICE', 'x  ', 7), (3, 'bob', 'y', 1);"
            "CREATE TABLE crowd (name TEXT COLLATE NOCASE);"
        )
        connection.executemany(
            "INSERT INTO crowd VALUES (?)", [("Eve" if n % 2 else "eVe",) for n in range(500)]
        )
        connection.execute("CREATE TABLE bytes (id INTEGER, name TEXT)")
        connection.execute("INSERT INTO bytes VALUES (1, CAST(x'ff41' AS TEXT)), (1, 'A')")
        connection.commit()
    return verifier(connections={"default": path})


@pytest.mark.parametrize(
    ("where", "values", "found"),
    [
        ({"name": "alice"}, {"id": 1}, VERIFIED),
        ({"name": "ALICE"}, {"id": 2}, VERIFIED),
        ({"name": "Alice"}, {}, FAILED),
        ({"id": 1}, {"name": "ALICE"}, FAILED),
        ({"pad": "x"}, {"id": 1}, VERIFIED),
        ({"pad": "x  "}, {"id": 2}, VERIFIED),
        ({"pad": "x "}, {}, FAILED),
        ({"id": "1"}, {}, FAILED),
        ({"id": 1}, {"any": 7}, FAILED),
        ({"id": 1}, {"any": "7"}, VERIFIED),
        ({"id": 2}, {"any": "7"}, FAILED),
        ({"id": 2}, {"any": 7.0}, VERIFIED),
        ({"id": 3, "any": True}, {}, VERIFIED),
        ({"id": True}, {}, VERIFIED),
    ],
)  # fmt: skip
def test_a_row_is_compared_by_the_letter_whatever_the_collation(
    loose: EvidenceVerifier, where: Any, values: Any, found: str
) -> None:
    assert status(loose, row("users", where, values)) == found


def test_too_many_rows_that_look_alike_are_inconclusive(loose: EvidenceVerifier) -> None:
    evidence = row("crowd", {"name": "EVE"})
    assert status(loose, evidence) == INCONCLUSIVE
    assert "too many rows" in (evidence.verification_error or "")
    assert status(loose, row("crowd", {"name": "Eve"})) == FAILED, "more than one, by the letter"


def test_text_that_is_no_text_is_only_not_equal(loose: EvidenceVerifier) -> None:
    assert status(loose, row("bytes", {"id": 1, "name": "A"})) == VERIFIED
    assert status(loose, row("bytes", {"id": 1})) == FAILED


def test_duckdb_compares_by_the_letter_too(tmp_path: Path) -> None:
    duckdb = importlib.import_module("duckdb")
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE users (id INTEGER, name TEXT COLLATE NOCASE, price DECIMAL(9, 2), f REAL,"
            " done TIMESTAMP, u UUID, tags INTEGER[])"
        )
        connection.execute(
            "INSERT INTO users VALUES (1, 'alice', 0.10, 0.1, '2024-02-29 12:00:00',"
            " '00000000-0000-0000-0000-00000000000a', [1, 2]), (2, 'ALICE', 2, 2, NULL, NULL, NULL)"
        )
    checker = verifier(connections={"default": f"duckdb:///{path}"})
    for where, values, found in (
        ({"name": "alice"}, {"id": 1}, VERIFIED),
        ({"name": "Alice"}, {}, FAILED),
        ({"id": 1}, {"name": "ALICE"}, FAILED),
        ({"id": "1"}, {}, FAILED),
        ({"price": 0.1}, {"id": 1}, VERIFIED),
        ({"id": 1}, {"price": 0.1, "tags": [1, 2]}, VERIFIED),
        ({"id": 1}, {"price": "0.10"}, FAILED),
        ({"done": "2024-02-29 12:00:00"}, {"id": 1}, VERIFIED),
        ({"id": 1}, {"done": "2024-02-29T12:00:00"}, VERIFIED),
        ({"id": 1}, {"done": "2024-02-29"}, FAILED),
        ({"id": 1}, {"u": "00000000-0000-0000-0000-00000000000a"}, VERIFIED),
        ({"id": 1}, {"u": "00000000-0000-0000-0000-00000000000b"}, FAILED),
    ):
        assert status(checker, row("users", where, values)) == found, (where, values)
