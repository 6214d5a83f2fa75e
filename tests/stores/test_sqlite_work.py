"""What a user's own SQL may do inside a transaction of a SQLite store."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StoreError
from holdfast.store import WorkFailedError
from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite import work as work_module
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.testing.contract import check_store, entry
from tests.waiting import PATIENCE, exit_code, in_time, join

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def work_seconds() -> float:
    return PATIENCE


HASTY = pytest.mark.parametrize("work_seconds", [0.2])


@pytest.fixture
def store(path: Path, work_seconds: float) -> Iterator[SQLiteStore]:
    with closing(SQLiteStore(path, work_seconds=work_seconds)) as store:
        store.append([entry("run", 0, b"kept"), entry("run", 1)])
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE mine (n INTEGER PRIMARY KEY, entries TEXT)")
        yield store
        assert store.append([entry("after", 0), entry("after", 1)]) == [True, True]
        assert store.append_with([entry("after", 2)], lambda cursor: None) == [True]
        assert check_store(store) == []


def mine(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute("SELECT n FROM mine ORDER BY n")]


def failure(store: SQLiteStore, work: Callable[[Any], None]) -> BaseException:
    """What the work failed with. Nothing of it or of the entry is there."""
    before = mine(store.path)
    with pytest.raises(WorkFailedError) as caught:
        store.append_with([entry("new", 0)], work)
    assert store.read("new") == []
    assert mine(store.path) == before
    return caught.value.error


DENIED = [
    "BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT s", "RELEASE s",
    "ATTACH ':memory:' AS other", "DETACH other", "VACUUM", "VACUUM INTO 'elsewhere.db'",
    "PRAGMA user_version = 7", "PRAGMA application_id = 0", "PRAGMA writable_schema = 1",
    "PRAGMA synchronous = OFF", "PRAGMA journal_mode = DELETE", "PRAGMA query_only = ON",
    "PRAGMA wal_checkpoint(TRUNCATE)", "SELECT * FROM pragma_user_version",
    "INSERT INTO holdfast_entries (run, seq) VALUES ('run', 2)", "UPDATE Holdfast_Entries SET body = x''",
    "DELETE FROM HOLDFAST_ENTRIES", "DELETE FROM main.holdfast_entries WHERE run = 'run'",
    "REPLACE INTO holdfast_entries SELECT * FROM holdfast_entries", "DROP TABLE holdfast_entries", "DROP VIEW holdfast_checkpoints",
    "ALTER TABLE holdfast_entries RENAME TO gone", "ALTER TABLE holdfast_entries ADD COLUMN mine",
    "CREATE INDEX slow ON holdfast_entries (body)",
    "CREATE TRIGGER spy AFTER INSERT ON holdfast_entries BEGIN INSERT INTO mine (n) VALUES (1); END",
    "CREATE TRIGGER t INSTEAD OF DELETE ON holdfast_checkpoints BEGIN SELECT 1; END",
    "CREATE TEMP TABLE holdfast_entries (run)", "CREATE TEMP VIEW holdfast_entries AS SELECT 1",
    "CREATE TEMP TRIGGER spy AFTER INSERT ON main.holdfast_entries BEGIN SELECT 1; END",
    "WITH old AS (SELECT 1) DELETE FROM holdfast_entries", "EXPLAIN DELETE FROM holdfast_entries",
]  # fmt: skip


@pytest.mark.parametrize("statement", DENIED)
def test_what_is_not_the_users_is_refused(store: SQLiteStore, statement: str) -> None:
    kept = store.read("run")

    def work(cursor: Any) -> None:
        cursor.execute("INSERT INTO mine (n) VALUES (1)")
        cursor.execute(statement)

    error = failure(store, work)
    assert isinstance(error, sqlite3.DatabaseError)
    if not statement.startswith("VACUUM"):  # SQLite's own word for that is clear
        assert "not authorized" in str(error)
        assert "it can't begin or end one" in error.__notes__[0]
    assert store.read("run") == kept


def test_a_users_trigger_does_not_write_to_what_is_ours_either(
    store: SQLiteStore, path: Path
) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TRIGGER t AFTER INSERT ON mine BEGIN DELETE FROM holdfast_entries; END")
    error = failure(store, lambda cursor: cursor.execute("INSERT INTO mine (n) VALUES (1)"))
    assert "not authorized" in str(error)


ALLOWED = [
    "INSERT INTO mine (n, entries) VALUES (5, 'x') RETURNING n",
    "UPDATE mine SET entries = 'a column of that name'",
    "CREATE TABLE more (n); ",
    "CREATE INDEX by_entries ON mine (entries)",
    "CREATE TRIGGER t AFTER INSERT ON mine BEGIN DELETE FROM mine; END",
    "ALTER TABLE mine ADD COLUMN extra",
    "ALTER TABLE mine RENAME TO ours",
    "DROP TABLE mine",
    "CREATE VIEW seen AS SELECT run FROM holdfast_entries",
    "CREATE TABLE copy AS SELECT * FROM holdfast_checkpoints",
    "CREATE VIRTUAL TABLE words USING fts5(text)",
    "PRAGMA table_info(mine)",
    "SELECT count(*) FROM holdfast_entries",
]


@pytest.mark.parametrize("statement", ALLOWED)
def test_what_is_the_users_is_theirs(store: SQLiteStore, statement: str) -> None:
    work: Callable[[Any], None] = lambda cursor: cursor.execute(statement)  # noqa: E731
    assert store.append_with([entry("new", 0)], work) == [True]


def test_a_statement_left_half_read_does_not_hinder_the_commit(
    store: SQLiteStore, path: Path
) -> None:
    def work(cursor: Any) -> None:
        cursor.executemany("INSERT INTO mine (n) VALUES (?)", [(n,) for n in range(9)])
        cursor.execute("INSERT INTO mine (n) VALUES (9), (10) RETURNING n")
        next(cursor.execute("SELECT n FROM mine"))

    assert store.append_with([entry("new", 0)], work) == [True]
    assert mine(path) == list(range(11))


def test_the_names_that_are_refused_are_all_there_is(path: Path) -> None:
    SQLiteStore(path).close()
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")
        assert {name for (name,) in found} == set(schema.NAMES)


def test_a_script_is_refused_before_it_commits(store: SQLiteStore) -> None:
    def work(cursor: Any) -> None:
        cursor.execute("INSERT INTO mine (n) VALUES (1)")
        cursor.executescript("INSERT INTO mine (n) VALUES (2); COMMIT")

    assert "one statement at a time" in str(failure(store, work))


def test_the_driver_itself_cannot_commit_by_a_script(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should a cursor of another make get there: SQLite itself says no."""
    monkeypatch.delattr(work_module._Cursor, "executescript")

    def work(cursor: Any) -> None:
        cursor.execute("INSERT INTO mine (n) VALUES (1)")
        cursor.executescript("INSERT INTO mine (n) VALUES (2)")

    assert "not authorized" in str(failure(store, work))


def test_the_connection_is_not_handed_out(store: SQLiteStore) -> None:
    assert isinstance(failure(store, lambda cursor: cursor.connection.commit()), AttributeError)


@HASTY
@pytest.mark.parametrize(
    "fatal",
    [
        "INSERT OR ROLLBACK INTO mine (n) VALUES (1)",
        "INSERT INTO mine (n) " + ENDLESS + "SELECT x + 9 FROM c",
    ],
    ids=["rollback", "interrupt"],
)
def test_nothing_is_written_after_a_statement_that_took_the_transaction_down(
    store: SQLiteStore, fatal: str
) -> None:
    """It would be committed at once, by itself."""

    def work(cursor: Any) -> None:
        cursor.execute("INSERT OR IGNORE INTO mine (n) VALUES (1)")
        with suppress(sqlite3.Error):
            cursor.execute(fatal)
        for _ in range(2):
            with suppress(sqlite3.Error, TimeoutError):
                cursor.execute("INSERT OR IGNORE INTO mine (n) VALUES (1)")

    error = failure(store, work)
    assert isinstance(error, sqlite3.OperationalError | TimeoutError)


@HASTY
@pytest.mark.parametrize(
    "work",
    [
        lambda cursor: cursor.execute(ENDLESS + "SELECT count(*) FROM c"),
        lambda cursor: cursor.execute(ENDLESS + "SELECT x FROM c").fetchall(),
        lambda cursor: cursor.execute("INSERT INTO mine (n) " + ENDLESS + "SELECT x FROM c"),
        lambda cursor: time.sleep(0.25),
        lambda cursor: [cursor.execute("SELECT 1") for _ in range(10_000_000)],
    ],
    ids=["a statement", "its rows", "a write", "Python", "many statements"],
)
def test_work_that_takes_too_long_is_undone(
    store: SQLiteStore, work: Callable[[Any], None]
) -> None:
    with in_time():
        error = failure(store, work)
    assert isinstance(error, TimeoutError)
    assert "keep commit= short" in str(error)


@HASTY
def test_its_own_error_counts_even_if_it_is_late(store: SQLiteStore) -> None:
    def work(cursor: Any) -> None:
        time.sleep(0.25)
        raise KeyError("mine")

    assert isinstance(failure(store, work), KeyError)


def test_ctrl_c_in_work_is_ctrl_c_and_leaves_nothing(store: SQLiteStore, path: Path) -> None:
    def work(cursor: Any) -> None:
        cursor.execute("INSERT INTO mine (n) VALUES (1)")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.append_with([entry("new", 0)], work)
    assert store.read("new") == []
    assert mine(path) == []


def test_ctrl_c_while_sqlite_asks_what_is_allowed_is_not_lost(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def struck(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(work_module._Guard, "__call__", struck)
    with pytest.raises(KeyboardInterrupt):
        store.append_with([entry("new", 0)], lambda cursor: cursor.execute("SELECT 1"))
    monkeypatch.undo()
    assert store.read("new") == []


def test_in_another_thread_it_is_an_error_like_any_other(store: SQLiteStore) -> None:
    """No Ctrl-C reaches that: whoever raised it meant the work."""
    found: list[BaseException] = []

    def work(cursor: Any) -> None:
        raise KeyboardInterrupt

    thread = threading.Thread(target=lambda: found.append(failure(store, work)))
    thread.start()
    join(thread)
    assert isinstance(found[0], KeyboardInterrupt)


def test_a_process_that_is_forked_in_the_middle_does_not_hang_and_leaves_the_file_alone(
    path: Path,
) -> None:
    ended: list[int] = []

    with closing(SQLiteStore(path)) as store:

        def work(cursor: Any) -> None:
            child = os.fork()
            if not child:
                status = 1
                try:
                    store.read("run")
                except StoreError as error:
                    status = 0 if "forked in the middle of a transaction" in str(error) else 2
                finally:
                    os._exit(status)
            ended.append(exit_code(child))

        assert store.append_with([entry("run", 0)], work) == [True]
        assert ended == [0]
        assert store.append([entry("run", 1)]) == [True]
        assert check_store(store) == []
