from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

import holdfast as hf
from holdfast.changes import ANY_RUN, Change
from holdfast.errors import (
    CheckpointCorruptedError,
    SchemaError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.model import Entry
from holdfast.store import RunFilter, Store
from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite import store as sqlite
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.testing.contract import PersistentStoreContract, TransactionalContract, entry
from holdfast.testing.invariants import check_store, tombstone
from holdfast.testing.machine import make_store_machine
from tests.effort import examples


class TestSQLiteStore(PersistentStoreContract, TransactionalContract):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Callable[[], Store]:
        return partial(SQLiteStore, tmp_path / "runs.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.mark.on_disk
def test_the_file_is_in_wal_mode_and_every_commit_waits_for_the_disk(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        assert store.survives() == "power-loss"
    with closing(SQLiteStore(path, survives="process-crash")) as store:
        assert store.survives() == "process-crash"
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_schema_from_the_future_is_refused_and_left_alone(path: Path) -> None:
    SQLiteStore(path).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE holdfast_schema SET version = 99")
    with pytest.raises(SchemaError, match=r"schema 99.*upgrade"):
        SQLiteStore(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT version FROM holdfast_schema").fetchall() == [(99,)]


def test_a_file_that_is_no_database_is_reported_as_such(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(SchemaError, match="not a SQLite database"):
        SQLiteStore(path)


def test_a_newer_program_that_was_faster_is_not_overruled(path: Path) -> None:
    """It migrates the file after an older one looked, and before that has its turn."""

    class Late(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql == "BEGIN IMMEDIATE":
                with closing(sqlite3.connect(path)) as other, other:
                    other.execute("CREATE TABLE holdfast_schema (version INTEGER)")
                    other.execute("INSERT INTO holdfast_schema VALUES (99)")
            return super().execute(sql, *parameters)

    db = sqlite3.connect(path, isolation_level=None, factory=Late)
    with closing(db), pytest.raises(SchemaError, match=r"schema 99.*upgrade"):
        schema.prepare(db, "url", "FULL")


def test_a_locked_database_is_unavailable_and_works_again_afterwards(path: Path) -> None:
    with closing(SQLiteStore(path, busy_seconds=0.05)) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailableError, match="locked"):
                store.append([entry("run", 0)])
            assert store.read("run") == []
        assert store.append([entry("run", 0)]) == [True]


def test_a_directory_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailableError):
        SQLiteStore(tmp_path / "file" / "runs.db")


def test_an_entry_no_driver_can_bind_is_an_error_of_the_store_and_leaves_nothing(
    path: Path,
) -> None:
    with closing(SQLiteStore(path)) as store:
        with pytest.raises(StoreError):
            store.append([entry("run", 0), entry("run", 1, at=1 << 70)])
        assert store.read("run") == []


def test_erasing_gives_the_disk_back(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        for seq in range(100):
            store.append([entry("run", seq, bytes(50_000))])
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        full = path.stat().st_size
        store.erase(tombstone("run", 100))
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert path.stat().st_size < full / 10


def test_the_view_shows_checkpoints_by_the_words_of_pipelines(path: Path) -> None:
    fields = {"kind": "checkpoint", "size": 9, "step": "fetch", "flow": "etl", "thread": "t-1"}
    meta = '{"flow_version":"2","metadata":{"user":"ann"},"step_name":"Fetch it"}'
    with closing(SQLiteStore(path)) as store:
        store.append([entry("run", 0, kind="open", size=0)])
        store.append([entry("run", 1, b"x", at=1_700_000_000_000_042, meta=meta, **fields)])
        store.append([entry("run", 2, b"xy", parent=1, status="paused", **fields)])
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        first, second = db.execute(
            "SELECT * FROM holdfast_checkpoints ORDER BY sequence"
        ).fetchall()
    assert first["checkpoint_id"] == "run@1"
    assert first["timestamp"] == "2023-11-14T22:13:20.000042Z"
    assert (first["pipeline_id"], first["pipeline_version"]) == ("etl", "2")
    assert (first["step_id"], first["step_name"], second["step_name"]) == (
        "fetch",
        "Fetch it",
        "fetch",
    )
    assert (first["metadata"], second["metadata"]) == ('{"user":"ann"}', "{}")
    assert (first["status"], second["status"]) == ("completed", "paused")
    assert second["parent_checkpoint_id"] == "run@1"
    assert (second["thread_id"], second["stored_bytes"]) == ("t-1", 2)


def _new_file() -> Callable[[], Store]:
    return partial(SQLiteStore, Path(tempfile.mkdtemp(prefix="holdfast-")) / "runs.db")


TestSQLiteAgainstADict = make_store_machine(_new_file).TestCase
TestSQLiteAgainstADict.settings = settings(
    max_examples=examples(12),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_ctrl_c_behind_an_insert_leaves_no_wrong_head_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = sqlite._insert_next

    def strike(db: sqlite3.Connection, item: Entry, behind: bytes | None) -> bool:
        insert(db, item, behind)
        raise KeyboardInterrupt

    with closing(SQLiteStore(tmp_path / "runs.db")) as store:
        store.append([entry("run", 0), entry("run", 1)])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(sqlite, "_insert_next", strike)
            store.append([entry("run", 2, term=1)])
        assert store.append([entry("run", 2), entry("run", 3)]) == [False, False]


def test_a_file_without_the_index_gets_it_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(SQLiteStore(path)) as store:
        facts = '{"labels":{"team":"blue"},"due":7}'
        store.append([entry("a", 0, kind="open", status="running", flow="f", meta=facts)])
        store.append([entry("a", 1, b"x", term=0, status="running", flow="f")])
        store.append([entry("b", 0), entry("b", 1, status="failed"), entry("gone", 0)])
        store.erase(tombstone("gone", 1))
        store.trim(entry("b", 2, kind="trim", term=1, status="failed"), {1: None})
        expected = store.listed(), store.counts(), store.due(9), store.tally(0, 1 << 62)
    with closing(sqlite3.connect(path)) as db:
        for name in ("holdfast_run_heads", "holdfast_run_labels", "holdfast_run_tally"):
            db.execute(f"DROP TABLE {name}")
        db.execute("UPDATE holdfast_schema SET version = 1")
        db.commit()
    with closing(SQLiteStore(path)) as store:
        assert (store.listed(), store.counts(), store.due(9)) == expected[:3]
        assert {each.what for each in store.tally(0, 1 << 62)} == {"started", "saves"}
        assert store.rebuild() == 0
        assert check_store(store) == []


def test_a_damaged_index_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(SQLiteStore(path)) as store:
        store.append(
            [entry(f"r{n}", 0, kind="open", meta='{"labels":{"a":"b"}}') for n in range(9)]
        )
        expected = store.listed()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM holdfast_run_heads WHERE run = 'r1'")
        db.execute("DELETE FROM holdfast_run_labels WHERE run = 'r1'")
        db.execute(
            "UPDATE holdfast_run_heads SET status = 'failed', labels = '[]' WHERE run = 'r2'"
        )
        db.execute("UPDATE holdfast_run_heads SET run = 'nobody' WHERE run = 'r3'")
        db.execute("UPDATE holdfast_run_tally SET n = 77 WHERE hour = -1")
    with closing(SQLiteStore(path)) as store:
        assert store.rebuild(write=False) > 4
        assert store.listed() != expected
        assert store.rebuild() > 4
        assert store.rebuild() == 0
        assert store.listed() == expected == store.listed(RunFilter(labels=("a=b",)))
        assert store.counts() == {"open": 9}


def test_a_size_that_was_altered_stops_no_statistics(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(SQLiteStore(path)) as store:
        store.append([entry("a", 0, b"x"), entry("b", 0, b"x"), entry("c", 0, b"x")])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE holdfast_entries SET size = {(1 << 63) - 1} WHERE run < 'c'")
    with closing(SQLiteStore(path)) as store:
        assert store.stats().checkpoints == 1
        assert store.stats("a").checkpoints == 0


@pytest.mark.parametrize(
    "altered",
    ["labels = 'no'", "labels = '[1]'", """labels = '["no"]'""", "opened = 'no'", "due = x'00'"],
)
def test_one_row_of_the_index_that_was_altered_stops_no_list_and_no_repair(
    tmp_path: Path, altered: str
) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        for n in range(3):
            cp.save(f"r{n}", {"n": n})
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE holdfast_run_heads SET {altered} WHERE run = 'r1'")
    with hf.SyncCheckpointer(path) as cp:
        assert cp.run("r1").status == "open"  # type: ignore[union-attr]
        first = [cp.runs(limit=1)[0].run_id]
        while page := cp.runs(limit=1, after=first[-1]):
            first += [run.run_id for run in page]
        assert sorted(first) == ["r0", "r1", "r2"]
        cp.save("r1", {"n": 7})
        assert cp.store.rebuild() >= 1
        assert cp.store.rebuild() == 0
        assert cp.run("r1").labels == {}  # type: ignore[union-attr]


def test_in_a_restored_backup_any_run_may_have_changed(tmp_path: Path) -> None:
    """VACUUM may number the rows anew, too."""
    with closing(SQLiteStore(tmp_path / "newer.db")) as store:
        store.append([entry("a", seq) for seq in range(5)])
        mark, found = store.poll()
        assert found == []
    with closing(SQLiteStore(tmp_path / "backup.db")) as store:
        store.append([entry("a", 0)])
        mark, found = store.poll(mark)
        assert found == [ANY_RUN]
        store.append([entry("b", 0), entry("b", 1, status="paused")])
        assert store.poll(mark)[1] == [Change("b", 1, "paused")]


def test_a_program_that_reads_little_opens_one_connection(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        store.append([entry("run", 0)])
    with closing(SQLiteStore(path)) as store, _counted_connections(store) as opened:
        assert len(store.read("run")) == len(store.read("run")) == 1
        assert not opened
        for _ in range(20):
            store.read("run")
        assert len(opened) == 1, "one that reads on gets one that no save waits for"


def test_nobody_waits_for_a_transaction_to_read(path: Path) -> None:
    with closing(SQLiteStore(path)) as store, _counted_connections(store) as opened:
        store.append([entry("run", 0)])
        with ThreadPoolExecutor(1) as others, store.together():
            store.append([entry("run", 1)])
            assert len(others.submit(store.read, "run").result(timeout=60)) == 1
        assert len(opened) == 1
        assert len(store.read("run")) == 2


def test_a_read_that_fails_leaves_nothing_open_in_the_way_of_saves(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        store.append([entry("run", seq) for seq in range(3)])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE holdfast_entries SET step = CAST(x'ff' AS TEXT) WHERE seq = 1")
    with closing(SQLiteStore(path)) as store:
        with pytest.raises(CheckpointCorruptedError):
            store.read("run")
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE holdfast_entries SET step = NULL WHERE seq = 1")
        assert store.append([entry("run", 3)]) == [True]
        assert len(store.read("run")) == 4


@contextmanager
def _counted_connections(store: SQLiteStore) -> Iterator[list[sqlite3.Connection]]:
    opened: list[sqlite3.Connection] = []
    connect = store._db._connect

    def counted() -> sqlite3.Connection:
        opened.append(connect())
        return opened[-1]

    with patch.object(store._db, "_connect", counted):
        yield opened


WRONG = ("seq = 'xx'", "digest = 'text'", "term = 'a'", "at = 1.5", "meta = x'00'", "body = 'text'")


@pytest.mark.parametrize("wrong", WRONG)
def test_a_value_of_the_wrong_type_is_damage_of_its_run_and_of_no_other(
    tmp_path: Path, wrong: str
) -> None:
    """SQLite keeps any value in any column."""
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        for n in range(1, 5):
            cp.save("run", {"n": n}, step=f"s{n}")
        cp.save("other", 1)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"UPDATE holdfast_entries SET {wrong} WHERE run = 'run' AND seq = 4")
        db.commit()
    with hf.SyncCheckpointer(path) as cp:
        with pytest.raises(hf.CheckpointCorruptedError):
            cp.load("run")
        assert cp.load("other").state == 1  # type: ignore[union-attr]
        assert {run.run_id: run.status for run in cp.runs()} == {"run": "open", "other": "open"}
        assert not cp.verify("run").ok
        assert cp.verify("other").ok
        assert len(cp.verify_chain().problems) == 1
        assert cp.store.rebuild(write=False) in (0, 1)
        if wrong.startswith("seq"):  # where the next entry goes, nobody can tell
            with pytest.raises(hf.CheckpointCorruptedError, match="its seq can't be 'xx'"):
                cp.save("run", {"n": 5})
        else:
            assert cp.save("run", {"n": 5}).seq == 5
            assert cp.load("run").state == {"n": 5}  # type: ignore[union-attr]


@pytest.mark.parametrize("wrong", ["at = 'x'", "size = 9e999", "run = x'ff'", "meta = x'ff'"])
def test_a_run_with_a_value_of_the_wrong_type_is_counted_checked_and_deleted(
    tmp_path: Path, wrong: str
) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", 1)
        cp.save("run", 2)
        cp.save("other", 1)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"UPDATE holdfast_entries SET {wrong} WHERE run = 'run' AND seq < 2")
        db.commit()
    with hf.SyncCheckpointer(path) as cp:
        assert cp.stats().checkpoints in (2, 3)
        assert cp.stats().newest is not None
        assert not cp.verify_chain().ok
        cp.clear("run", force=True)
        assert [run.run_id for run in cp.runs()] == ["other"]
