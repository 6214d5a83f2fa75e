"""The files of a SQLite store are removed or replaced under a live process.

What was acknowledged must be where the next process looks for it: in the files of that name.
"""

from __future__ import annotations

import asyncio
import logging
import math
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import OutcomeUnknownError
from holdfast.stores import SQLiteStore
from holdfast.stores.sqlite import connections
from holdfast.testing.invariants import check_store, entry
from holdfast.workflow import step, workflow


@pytest.fixture(params=[0.0, math.inf], ids=["noticed before", "noticed after"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database whose files are looked at before a transaction, or only after it."""
    monkeypatch.setattr(connections, "LOOK_SECONDS", request.param)
    return tmp_path / "runs.db"


@pytest.fixture
def noticed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.0)


@pytest.fixture
def noticed_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LOOK_SECONDS", math.inf)


@pytest.fixture
def cp(path: Path) -> Iterator[hf.SyncCheckpointer]:
    with hf.SyncCheckpointer(path, deadline=0.5) as cp:
        yield cp


def states_after_a_crash(path: Path, run: str = "run") -> list[Any]:
    """What a process would find if all others were killed now."""
    with tempfile.TemporaryDirectory() as directory:
        for file in path.parent.glob(f"{path.name}*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, directory)
        with hf.SyncCheckpointer(Path(directory) / path.name) as cp:
            found = [one.state for one in cp.iter_states(run)] if cp.load(run) else []
            assert found == [] or cp.verify(run).ok
            return found


def backup(path: Path, target: Path) -> Path:
    with closing(sqlite3.connect(path)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)
    return target


def rename_over(path: Path, replacement: Path) -> None:
    replacement.rename(path)


def remove_and_recreate(path: Path, replacement: Path) -> None:
    path.unlink()
    shutil.copy(replacement, path)


def remove_all_and_recreate(path: Path, replacement: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    shutil.copy(replacement, path)


Replace = Callable[[Path, Path], None]
REPLACE = [rename_over, remove_and_recreate, remove_all_and_recreate]


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def test_what_is_saved_after_the_wal_was_deleted_is_not_lost(
    cp: hf.SyncCheckpointer, path: Path
) -> None:
    for n in range(5):
        cp.save("run", n)
    for n in range(5, 10):
        wal_of(path).unlink()
        cp.save("run", n)
        assert states_after_a_crash(path) == list(range(n + 1))
    assert check_store(cp.store) == []


def test_the_wal_may_be_deleted_under_two_stores(tmp_path: Path, noticed_before: None) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as one, hf.SyncCheckpointer(path) as other:
        for n in range(0, 10, 2):
            one.save("run", n)
            wal_of(path).unlink()
            other.save("run", n + 1)
            assert states_after_a_crash(path) == list(range(n + 2))
            assert one.load("run").state == n + 1  # type: ignore[union-attr]


@pytest.mark.parametrize("replace", REPLACE)
def test_saves_go_to_the_file_that_took_the_place_of_the_old_one(
    cp: hf.SyncCheckpointer, path: Path, tmp_path: Path, replace: Replace
) -> None:
    for n in range(3):
        cp.save("run", n)
    replace(path, backup(path, tmp_path / "copy"))
    for n in range(3, 6):
        cp.save("run", n)
        assert states_after_a_crash(path) == list(range(n + 1))
    assert check_store(cp.store) == []


@pytest.mark.parametrize("replace", REPLACE)
def test_behind_an_older_backup_a_save_continues_there_and_says_so(
    cp: hf.SyncCheckpointer,
    path: Path,
    tmp_path: Path,
    replace: Replace,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cp.save("run", 0)
    copy = backup(path, tmp_path / "copy")
    for n in range(1, 4):
        cp.save("run", n)
    replace(path, copy)
    with caplog.at_level(logging.WARNING, "holdfast"):
        cp.save("run", 4)
    assert states_after_a_crash(path) == [0, 4]
    assert "the store lost entries" in caplog.text
    assert cp.load("run").state == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("replace", REPLACE)
def test_nothing_of_the_old_file_is_read_after_it_was_replaced(
    tmp_path: Path, replace: Replace, noticed_before: None
) -> None:
    path = tmp_path / "runs.db"
    cp = hf.SyncCheckpointer(path)
    cp.save("run", 0)
    copy = backup(path, tmp_path / "copy")
    cp.save("run", 1)
    assert cp.load("run").state == 1  # type: ignore[union-attr]
    replace(path, copy)
    assert cp.load("run").state == 0  # type: ignore[union-attr]
    cp.close()


@pytest.mark.parametrize("replace", REPLACE)
def test_no_head_of_the_old_file_is_remembered(
    tmp_path: Path, replace: Replace, noticed_after: None
) -> None:
    path = tmp_path / "runs.db"
    with closing(SQLiteStore(path)) as store:
        store.append([entry("run", 0), entry("run", 1)])
        copy = backup(path, tmp_path / "copy")
        store.append([entry("run", 2), entry("run", 3)])
        replace(path, copy)
        with pytest.raises(OutcomeUnknownError, match="removed or replaced"):
            store.append([entry("run", 4), entry("run", 5)])
        assert store.append([entry("run", 4), entry("run", 5)]) == [False, False]
        assert store.append([entry("run", 2), entry("run", 3)]) == [True, True]
        assert check_store(store) == []


def test_a_file_that_was_moved_away_has_all_that_was_saved_to_it(
    cp: hf.SyncCheckpointer, path: Path, tmp_path: Path
) -> None:
    empty = backup(path, tmp_path / "empty")
    for n in range(3):
        cp.save("run", n)
    (tmp_path / "elsewhere").mkdir()
    moved = path.rename(tmp_path / "elsewhere" / "moved.db")
    empty.rename(path)
    cp.save("run", 3)
    assert states_after_a_crash(path) == [3]
    assert states_after_a_crash(moved)[:3] == [0, 1, 2]


def test_a_missing_file_is_an_outage_and_not_an_empty_store(
    cp: hf.SyncCheckpointer, path: Path, tmp_path: Path
) -> None:
    cp.save("run", 0)
    moved = path.rename(tmp_path / "moved")
    with pytest.raises(hf.CheckpointSaveError, match="removed"):
        cp.save("run", 1)
    with pytest.raises(hf.CheckpointLoadError, match="removed"):
        cp.load("run")
    assert not path.exists()
    moved.rename(path)
    cp.save("run", 2)
    assert states_after_a_crash(path)[-1] == 2


def test_an_empty_file_in_its_place_is_a_new_store(
    cp: hf.SyncCheckpointer, path: Path, tmp_path: Path
) -> None:
    cp.save("run", 0)
    (tmp_path / "empty").touch()
    (tmp_path / "empty").rename(path)
    cp.save("run", 1)
    assert states_after_a_crash(path) == [1]


@pytest.mark.parametrize("replace", REPLACE)
def test_a_flow_stops_when_its_store_is_replaced_by_an_older_one(
    path: Path, tmp_path: Path, replace: Replace
) -> None:
    done: list[str] = []

    def first() -> None:
        backup(path, tmp_path / "copy")

    def second() -> None:
        replace(path, tmp_path / "copy")

    @workflow
    def flow() -> Generator[Any, Any, None]:
        yield step("first").python(first)
        yield step("second").python(second)
        yield step("third").python(done.append, ("third",))

    with closing(SQLiteStore(path)) as store:
        engine = hf.Engine(hf.Checkpointer(store, deadline=5))
        with pytest.raises(hf.EntriesLostError):
            asyncio.run(engine.run(flow(), run_id="run"))
    assert done == []


def test_commit_is_not_acknowledged_in_a_file_that_was_replaced(
    tmp_path: Path, noticed_after: None
) -> None:
    """The user's own tables are in the same file."""
    path = tmp_path / "runs.db"
    with closing(SQLiteStore(path)) as store:
        store.append_with([], lambda cursor: cursor.execute("CREATE TABLE mine (n)"))
        rename_over(path, backup(path, tmp_path / "copy"))
        with pytest.raises(OutcomeUnknownError, match="removed or replaced"):
            store.append_with([entry("run", 0)], lambda c: c.execute("INSERT INTO mine VALUES (1)"))
        assert store.read("run") == []
        store.append_with([entry("run", 0)], lambda c: c.execute("INSERT INTO mine VALUES (2)"))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT n FROM mine").fetchall() == [(2,)]


def test_a_symbolic_link_that_leads_elsewhere_is_noticed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "a")
    path = link / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", 0)
        shutil.copy(backup(path, tmp_path / "copy"), tmp_path / "b" / "runs.db")
        link.unlink()
        link.symlink_to(tmp_path / "b")
        cp.save("run", 1)
        assert states_after_a_crash(tmp_path / "b" / "runs.db") == [0, 1]


def test_no_descriptor_is_left_behind(cp: hf.SyncCheckpointer, path: Path, tmp_path: Path) -> None:
    def descriptors() -> int:
        found = 0
        for fd in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # that of the listing itself
                found += str(path) in str(fd.readlink())
        return found

    cp.save("run", 0)
    for _ in range(20):
        cp.load("run")  # by then with a connection of its own
    before = descriptors()
    for n in range(1, 6):
        wal_of(path).unlink()
        cp.save("run", n)
        rename_over(path, backup(path, tmp_path / "copy"))
        cp.save("run", n)
        cp.load("run")
    assert descriptors() <= before
