from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, settings

import holdfast as hf
from holdfast.errors import OutcomeUnknownError
from holdfast.store import Store
from holdfast.stores.duckdb import file
from holdfast.stores.duckdb.store import DuckDBStore
from holdfast.testing.contract import StoreContract, entry
from holdfast.testing.invariants import tombstone
from holdfast.testing.machine import make_store_machine
from tests.effort import examples
from tests.waiting import exit_code, run_process, wait_until


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that was opened once: to make one takes longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "runs.duckdb"
    DuckDBStore(path).close()
    return path


class TestDuckDBStore(StoreContract):
    @pytest.fixture
    def open_store(self, empty: Path, path: Path) -> Callable[[], Store]:
        shutil.copy(empty, path)
        return partial(DuckDBStore, path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.duckdb"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(hf.open_store(f"duckdb:///{path}")) as store:
        yield store


def elsewhere(program: str, path: Path) -> str:
    """What a program prints in another process."""
    program = f"import sys; from holdfast import *; path = {str(path)!r}; " + program
    run = run_process([sys.executable, "-c", program], capture_output=True, check=False)
    return run.stdout + run.stderr


def test_what_was_appended_is_there_for_the_next_process(path: Path, store: Store) -> None:
    store.append([entry("run", seq, b"%d" % seq) for seq in range(3)])
    store.close()
    program = "print([e.body for e in open_store(f'duckdb:///{path}').read('run')])"
    assert elsewhere(program, path) == "[b'0', b'1', b'2']\n"
    with closing(DuckDBStore(path)) as again:
        assert again.append([entry("run", 1), entry("run", 3)]) == [False, False]
        assert again.append([entry("run", 3)]) == [True]


def test_a_second_process_is_told_that_there_may_be_only_one(path: Path, store: Store) -> None:
    said = elsewhere("open_store(f'duckdb:///{path}')", path)
    assert "StoreUnavailableError" in said
    assert "another process has this file open" in said
    assert str(os.getpid()) in said
    store.append([entry("run", 0)])


def test_a_child_made_by_fork_may_have_the_file_only_when_the_parent_lets_it_go(
    path: Path, store: Store
) -> None:
    store.append([entry("run", 0)])
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if store.append([entry("run", 1)]) == [True] else 1)
        finally:
            os._exit(2)
    assert exit_code(child) == 0
    assert store.append([entry("run", 1)]) == [False]
    assert store.append([entry("run", 2)]) == [True]


def test_two_stores_of_one_process_share_the_file(path: Path, store: Store) -> None:
    with closing(DuckDBStore(path.parent / "." / path.name)) as other:
        assert store.append([entry("run", 0)]) == [True]
        assert other.append([entry("run", 0)]) == [False]
        store.close()
        assert other.append([entry("run", 1)]) == [True]
    with closing(DuckDBStore(path)) as again:
        assert len(again.read("run")) == 2


def test_an_engine_that_is_collected_while_its_file_is_in_use_is_closed_afterwards(
    path: Path,
) -> None:
    """The collector strikes anywhere: here in a thread that holds the file's lock."""
    engine: Any = hf.Engine(f"duckdb:///{path}")
    assert engine.checkpointer.core
    engine.itself = engine
    shared = file.shared(path)
    shared.join()
    del engine
    with shared.using():
        gc.collect()
    wait_until(lambda: shared.users == 1)
    shared.leave()


def test_other_files_are_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"not a database " * 1000)
    with pytest.raises(hf.SchemaError, match="not a DuckDB database"):
        DuckDBStore(path)
    path.unlink()
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE theirs (x INTEGER)")
    with pytest.raises(hf.SchemaError, match="not made by holdfast"):
        DuckDBStore(path)
    path.unlink()
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE holdfast (x INTEGER)")
    with pytest.raises(hf.SchemaError, match="that is not ours"):
        DuckDBStore(path)
    path.unlink()
    DuckDBStore(path).close()
    with duckdb.connect(str(path)) as db:
        db.execute("UPDATE holdfast SET version = 99")
    with pytest.raises(hf.SchemaError, match=r"schema 99.*upgrade"):
        DuckDBStore(path)


def test_a_directory_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(hf.StoreUnavailableError):
        DuckDBStore(tmp_path / "file" / "runs.duckdb")


def test_an_entry_that_no_column_can_hold_leaves_nothing(store: Store) -> None:
    for wrong in (entry("run", 1, at=1 << 70), entry("run", 1, step="\ud800")):
        with pytest.raises(hf.StoreError):
            store.append([entry("run", 0), wrong])
        assert store.read("run") == []


class Failing:
    """A connection that raises once, before or after a statement that begins with a word."""

    def __init__(self, db: Any, word: str, error: BaseException, *, after: bool) -> None:
        self._db = db
        self._word = word
        self._errors = [error]
        self._after = after

    def execute(self, query: Any, *parameters: Any) -> Any:
        text = query if isinstance(query, str) else query.query
        fails = text.startswith(self._word) and self._errors
        if fails and not self._after:
            raise self._errors.pop()
        found = self._db.execute(query, *parameters)
        if fails:
            raise self._errors.pop()
        return found

    def close(self) -> None:
        self._db.close()


def test_an_interrupt_just_after_a_transaction_began_leaves_the_store_usable(path: Path) -> None:
    with closing(DuckDBStore(path)) as store:
        store.append([entry("run", 0)])
        assert store._file is not None
        store._file._db = Failing(store._file._db, "BEGIN", KeyboardInterrupt(), after=True)
        with pytest.raises(KeyboardInterrupt):
            store.erase(tombstone("run", 1))
        assert store.append([entry("run", 1)]) == [True]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("error", "raised"),
    [  # made by the test: an error that outlives it keeps the connection in its traceback
        (KeyboardInterrupt, KeyboardInterrupt),
        (partial(duckdb.IOException, "no space left"), OutcomeUnknownError),
        (partial(duckdb.TransactionException, "failed to commit"), OutcomeUnknownError),
        (partial(RuntimeError, "std::system_error"), OutcomeUnknownError),
        (partial(MemoryError, "std::bad_alloc"), OutcomeUnknownError),
    ],
    ids=["ctrl-c", "io", "commit", "system", "memory"],
)
def test_an_append_that_broke_off_is_there_or_not_and_the_store_knows(
    path: Path, error: Callable[[], BaseException], raised: type[BaseException], after: bool
) -> None:
    with closing(DuckDBStore(path)) as store:
        store.append([entry("run", 0)])
        assert store._file is not None
        store._file._db = Failing(store._file._db, "INSERT", error(), after=after)
        with pytest.raises(raised):
            store.append([entry("run", 1)])
        assert len(store.read("run")) == 1 + after
        assert store.append([entry("run", 1)]) == [not after]


def test_a_value_that_cannot_be_bound_is_known_not_to_be_written(path: Path) -> None:
    """DuckDB 1 has no error of its own for it."""
    error = RuntimeError("Unable to cast Python instance of type <class 'str'> to C++ type '?'")
    with closing(DuckDBStore(path)) as store:
        assert store._file is not None
        store._file._db = Failing(store._file._db, "INSERT", error, after=False)
        with pytest.raises(hf.StoreError, match="Unable to cast"):
            store.append([entry("run", 0)])
        assert store.append([entry("run", 0)]) == [True]


def test_the_view_shows_checkpoints_by_the_words_of_pipelines(path: Path) -> None:
    meta = '{"flow_version":"2","metadata":{"user":"ann"},"step_name":"Fetch it"}'
    with closing(DuckDBStore(path)) as store:
        store.append([entry("run", 0, kind="open", size=0)])
        store.append([entry("run", 1, b"x", at=1_700_000_000_000_042, meta=meta, flow="etl")])
        store.append([entry("run", 2, b"xy", parent=1, status="paused", step="fetch")])
    with duckdb.connect(str(path), read_only=True) as db:
        rows = db.execute(
            "SELECT checkpoint_id, timestamp::VARCHAR, pipeline_version, step_name, metadata, "
            "parent_checkpoint_id, status, stored_bytes FROM checkpoints ORDER BY sequence"
        ).fetchall()
    assert rows == [
        ("run@1", "2023-11-14 22:13:20.000042", "2", "Fetch it", '{"user":"ann"}', "run@0",
         "completed", 1),
        ("run@2", rows[1][1], None, "fetch", "{}", "run@1", "paused", 2),
    ]  # fmt: skip


def _new_file() -> Callable[[], Store]:
    return partial(DuckDBStore, Path(tempfile.mkdtemp(prefix="holdfast-")) / "runs.duckdb")


TestDuckDBAgainstADict = make_store_machine(_new_file, derived=True).TestCase
TestDuckDBAgainstADict.settings = settings(
    max_examples=examples(3),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_ctrl_c_before_a_commit_takes_nothing_with_it_that_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(DuckDBStore(tmp_path / "runs.duckdb")) as store:
        store.append([entry("run", 0)])

        def strike(*_: object) -> Any:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(file.File, "committing", strike)
            store.trim(entry("run", 1, kind="trim"), {})
        assert store.append([entry("run", 1)]) == [True]
        assert store.trim(entry("run", 2, kind="trim"), {})
    with closing(DuckDBStore(tmp_path / "runs.duckdb")) as again:
        assert [item.seq for item in again.read("run")] == [0, 1, 2]
