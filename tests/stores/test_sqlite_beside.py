"""The journal in a program's own SQLite file, beside its tables."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.model import Entry
from holdfast.store import Transactional
from holdfast.stores.sqlite import connections, schema
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.testing.contract import PersistentStoreContract, TransactionalContract, entry
from holdfast.testing.invariants import check_store, tombstone
from tests.faults import at, raising
from tests.waiting import in_time, join, run_process

PROGRAM = 0x1234


def sql(path: Path, *statements: str) -> list[Any]:
    """What the last of these statements gives the program."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        return [db.execute(statement).fetchall() for statement in statements][-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file whose program has its own tables of names that holdfast might have liked, too."""
    path = tmp_path / "registry.sqlite"
    sql(
        path,
        f"PRAGMA application_id = {PROGRAM}",
        "PRAGMA user_version = 30",
        "CREATE TABLE tasks (task_id TEXT PRIMARY KEY, status TEXT)",
        "CREATE TABLE checkpoints (id INTEGER PRIMARY KEY, task_id TEXT REFERENCES tasks)",
        "CREATE TABLE entries (n INTEGER)",
        "CREATE VIEW run_heads AS SELECT task_id FROM tasks",
        "INSERT INTO tasks VALUES ('task-123', 'running')",
        "INSERT INTO checkpoints VALUES (1, 'task-123')",
    )
    return path


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    with closing(SQLiteStore(path)) as store:
        yield store


class TestInTheFileOfAProgram(PersistentStoreContract, TransactionalContract):
    @pytest.fixture
    def opener(self, path: Path) -> Any:
        return partial(SQLiteStore, path)


def test_nothing_of_the_programs_is_changed(path: Path) -> None:
    theirs = "SELECT * FROM sqlite_schema WHERE name NOT LIKE '%holdfast%' ORDER BY name"
    before = [
        [row[:3] + row[4:] for row in sql(path, theirs)],  # but for where on the disk they begin
        sql(path, "SELECT * FROM tasks"),
        sql(path, "SELECT * FROM checkpoints"),
    ]
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", {"n": 1}, step="fetch")
        assert check_store(cp.store) == []
        cp.clear("run")
    assert before == [
        [row[:3] + row[4:] for row in sql(path, theirs)],
        sql(path, "SELECT * FROM tasks"),
        sql(path, "SELECT * FROM checkpoints"),
    ]
    assert sql(path, "PRAGMA application_id") == [(PROGRAM,)]
    assert sql(path, "PRAGMA user_version") == [(30,)]
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]


def test_the_names_of_all_that_is_ours_begin_with_holdfast(path: Path) -> None:
    before = set(sql(path, "SELECT name FROM sqlite_schema"))
    SQLiteStore(path).close()
    added = {name for (name,) in set(sql(path, "SELECT name FROM sqlite_schema")) - before}
    assert added
    assert all(name.removeprefix("sqlite_autoindex_").startswith("holdfast_") for name in added)


def test_a_program_may_migrate_its_own_tables_in_a_file_that_holdfast_made(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", 1)
        assert sql(path, "PRAGMA user_version") == [(0,)]  # the program's migrations begin at 0
        sql(path, "PRAGMA user_version = 7", f"PRAGMA application_id = {PROGRAM}")
        sql(path, "CREATE TABLE entries (n)", "CREATE TABLE checkpoints (n)")
        cp.save("run", 2)
    with hf.SyncCheckpointer(path) as cp:
        assert [one.state for one in cp.iter_states("run")] == [1, 2]
    assert sql(path, "PRAGMA user_version") == [(7,)]


def test_a_migration_of_ours_leaves_the_programs_version_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", 1)
    newer = (*schema.MIGRATIONS, "ALTER TABLE holdfast_entries ADD COLUMN extra TEXT")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", newer)
        with hf.SyncCheckpointer(path) as cp:
            assert [one.state for one in cp.iter_states("run")] == [1]
    with pytest.raises(hf.SchemaError, match=rf"schema {len(newer)} is newer.*upgrade"):
        SQLiteStore(path)
    assert sql(path, "PRAGMA user_version") == [(30,)]


@pytest.mark.parametrize("statement", range(1, 18, 4))
def test_a_crash_while_the_tables_are_added_leaves_the_file_as_it_was(
    path: Path, statement: int
) -> None:
    before = sql(path, "SELECT name FROM sqlite_schema ORDER BY name")
    code = f"""
        import sys
        from holdfast.stores.sqlite.store import SQLiteStore
        from tests.faults import at, kill
        with at("schema.migrate", kill, nth={statement}):
            SQLiteStore(sys.argv[1])
    """
    done = run_process([sys.executable, "-c", _dedented(code), str(path)], check=False)
    assert done.returncode == -9
    assert sql(path, "SELECT name FROM sqlite_schema ORDER BY name") == before
    assert sql(path, "SELECT * FROM tasks") == [("task-123", "running")]
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", 1)
        assert check_store(cp.store) == []


def _dedented(code: str) -> str:
    return "\n".join(line[8:] for line in code.splitlines())


def test_a_kill_loses_neither_a_save_nor_a_row_that_was_committed(path: Path) -> None:
    """The program writes its rows, and saves a checkpoint after each; both say how far they got."""
    code = """
        import sqlite3, sys
        import holdfast as hf
        from tests.faults import at, kill
        db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
        with hf.SyncCheckpointer(sys.argv[1]) as cp, at("sqlite.commit.before", kill, nth=20):
            for n in range(100):
                db.execute("BEGIN IMMEDIATE")
                db.execute("INSERT INTO entries VALUES (?)", (n,))
                db.execute("COMMIT")
                cp.save("run", n)
                print(n, flush=True)
    """
    command = [sys.executable, "-c", _dedented(code), str(path)]
    done = run_process(command, check=False, capture_output=True)
    assert done.returncode == -9
    told = [int(line) for line in done.stdout.split()]
    assert told
    rows = [n for (n,) in sql(path, "SELECT n FROM entries ORDER BY n")]
    with hf.SyncCheckpointer(path) as cp:
        assert [one.state for one in cp.iter_states("run")] == told == rows[:-1]
        assert cp.verify("run").ok
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]


def test_an_error_while_the_tables_are_added_leaves_the_file_as_it_was(path: Path) -> None:
    before = sql(path, "SELECT name FROM sqlite_schema ORDER BY name")
    failing = at("schema.migrate", raising(sqlite3.OperationalError("disk I/O error")), nth=5)
    with failing, pytest.raises(hf.StoreError):
        SQLiteStore(path)
    assert sql(path, "SELECT name FROM sqlite_schema ORDER BY name") == before


def test_saves_and_the_programs_own_transactions_take_turns(path: Path) -> None:
    """Neither sees half of the other's, and none is lost."""
    rounds = 50

    def program() -> None:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as db:
            for n in range(rounds):
                db.execute("BEGIN IMMEDIATE")
                db.execute("INSERT INTO entries VALUES (?)", (n,))
                db.execute("UPDATE tasks SET status = ?", (f"{n}",))
                db.execute("COMMIT" if n % 2 else "ROLLBACK")

    with hf.SyncCheckpointer(path) as cp, in_time():
        thread = threading.Thread(target=program)
        thread.start()
        for n in range(rounds):
            cp.save("run", n)
        join(thread)
        assert [one.state for one in cp.iter_states("run")] == list(range(rounds))
        assert cp.verify("run").ok
    assert sql(path, "SELECT count(*) FROM entries") == [(rounds // 2,)]


def test_a_save_waits_for_a_transaction_of_the_program_and_gives_up_at_its_deadline(
    path: Path,
) -> None:
    with (
        hf.SyncCheckpointer(SQLiteStore(path, busy_seconds=0.01), deadline=0.2) as cp,
        closing(sqlite3.connect(path, isolation_level=None)) as db,
    ):
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO entries VALUES (1)")
        with pytest.raises(hf.CheckpointSaveError, match="locked"):
            cp.save("run", 1)
        db.execute("COMMIT")
        cp.save("run", 2)
        assert [one.state for one in cp.iter_states("run")] == [2]
        cp.store.close()


def test_a_step_and_a_row_of_the_program_are_committed_together(store: SQLiteStore) -> None:
    def work(cursor: Any) -> None:
        cursor.execute("UPDATE tasks SET status = 'done'")
        cursor.execute("INSERT INTO checkpoints VALUES (2, 'task-123')")

    assert isinstance(store, Transactional)
    assert store.append_with([entry("run", 0)], work) == [True]
    assert sql(store.path, "SELECT status FROM tasks") == [("done",)]
    assert store.append_with([entry("run", 0)], work) == [False]
    assert sql(store.path, "SELECT count(*) FROM checkpoints") == [(2,)]


def test_deleting_ends_where_the_file_gives_nothing_back(store: SQLiteStore) -> None:
    """The program's file keeps its free pages: it was made without auto_vacuum."""
    big = entry("run", 0, b"x" * 100_000)
    store.append([big])
    assert store.erase(tombstone("run", 1))
    assert sql(store.path, "PRAGMA freelist_count")[0][0] > 0
    store.append([entry("other", 0)])
    assert [each.run for each in store.runs()] == ["other"]


def test_a_file_that_cant_be_switched_to_wal_now_is_refused_and_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_OPENING_MILLISECONDS", 10)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN")
        db.execute("SELECT * FROM tasks").fetchall()
        with pytest.raises(hf.StoreUnavailableError, match=r"not in WAL mode.*journal_mode = WAL"):
            SQLiteStore(path)
        db.execute("COMMIT")
    assert sql(path, "PRAGMA journal_mode") == [("delete",)]
    assert sql(path, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'holdfast%'") == [(0,)]
    SQLiteStore(path).close()
    assert sql(path, "PRAGMA journal_mode") == [("wal",)]


def test_a_connection_that_the_program_has_open_already_goes_on(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        with hf.SyncCheckpointer(path) as cp:
            cp.save("run", 1)
            db.execute("UPDATE tasks SET status = 'done'")
            assert db.execute("SELECT run_id FROM holdfast_checkpoints").fetchall() == [("run",)]
            cp.save("run", 2)
        assert db.execute("SELECT status FROM tasks").fetchall() == [("done",)]
    with hf.SyncCheckpointer(path) as cp:
        assert [one.state for one in cp.iter_states("run")] == [1, 2]


def test_a_program_that_leaves_wal_mode_between_two_openings_is_met_again(path: Path) -> None:
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", 1)
    assert sql(path, "PRAGMA journal_mode = DELETE") == [("delete",)]
    with hf.SyncCheckpointer(path) as cp:
        assert [one.state for one in cp.iter_states("run")] == [1]
    assert sql(path, "PRAGMA journal_mode") == [("wal",)]


def test_a_program_cant_leave_wal_mode_while_the_store_is_open(store: SQLiteStore) -> None:
    program = closing(sqlite3.connect(store.path, timeout=0.01))
    with program as db, pytest.raises(sqlite3.OperationalError, match="locked"):
        db.execute("PRAGMA journal_mode = DELETE")
    assert store.append([entry("run", 0)]) == [True]


def test_a_file_in_utf_16_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "wide.db"
    sql(path, "PRAGMA encoding = 'UTF-16'", "CREATE TABLE tasks (n)")
    with pytest.raises(hf.SchemaError, match="UTF-16"):
        SQLiteStore(path)
    assert sql(path, "SELECT name FROM sqlite_schema") == [("tasks",)]


@pytest.mark.parametrize("name", [*schema.NAMES, "Holdfast_Entries"])
def test_a_table_of_another_program_with_a_name_of_ours_is_refused(path: Path, name: str) -> None:
    sql(path, f"CREATE TABLE {name} (n)")
    with pytest.raises(hf.SchemaError, match=r"table 'holdfast_\w+' that is not holdfast's"):
        SQLiteStore(path)
    assert sql(path, "PRAGMA journal_mode") == [("delete",)]


def test_a_file_from_before_the_first_release_is_refused_and_not_taken_for_empty(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    sql(path, f"PRAGMA application_id = {schema.APPLICATION_ID}", "CREATE TABLE entries (run)")
    with pytest.raises(hf.SchemaError, match="before its first release"):
        SQLiteStore(path)


def test_an_entry_reads_the_same_whichever_file_it_is_in(path: Path, tmp_path: Path) -> None:
    wanted: Entry = entry("run", 0, b"body", step="fetch", flow="f", owner="ann")
    found = []
    for file in (path, tmp_path / "own.db"):
        with closing(SQLiteStore(file)) as store:
            store.append([wanted])
            found.append(store.read("run"))
    assert found[0] == found[1] == [wanted]
