"""Many runs are written to with few commits, and nothing is lost that way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.operations import blocks
from holdfast.operations.blocks import in_blocks
from holdfast.stores import SQLiteStore
from holdfast.testing.invariants import entry, tombstone
from holdfast.views import pruning
from tests import faults

RUNS = 120


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        cp.save_many(
            {"run_id": f"run-{n:03}", "state": {"n": step}}
            for n in range(RUNS)
            for step in range(4)
        )
    return path


def kinds(store: SQLiteStore, run: str) -> list[str]:
    return [found.kind for found in store.read(run)]


def commits(points: list[str]) -> int:
    return points.count("sqlite.commit.before")


@pytest.mark.parametrize("policy", [{"keep_latest": 1}, {"run_ttl": timedelta(microseconds=1)}])
def test_pruning_many_runs_takes_few_commits(path: Path, policy: dict[str, object]) -> None:
    with hf.SyncCheckpointer(path, retention=hf.Retention(**policy)) as cp:  # type: ignore[arg-type]
        with faults.record() as points:
            swept = list(pruning.sweep_all(cp, dry_run=False))
        assert len(swept) == RUNS
        assert all(one.checkpoints == (4 if one.whole else 3) for one in swept)
        assert commits(points) <= RUNS // 50 + 2
        assert all(cp.verify(run.run_id).ok for run in cp.runs())
        assert cp.store.rebuild(write=False) == 0


def test_copying_and_importing_many_runs_takes_few_commits(path: Path, tmp_path: Path) -> None:
    names = [f"run-{n:03}" for n in range(RUNS)]
    with hf.SyncCheckpointer(path) as cp:
        with faults.record() as points:
            assert cp.copy_to(f"sqlite:///{tmp_path}/copy.db") == RUNS
        assert commits(points) <= RUNS // 50 + 2
        cp.export_runs(names, tmp_path / "runs.jsonl")
        before = {name: cp.store.read(name) for name in names}
    with hf.SyncCheckpointer(tmp_path / "import.db") as imported:
        with faults.record() as points:
            imported.import_runs(tmp_path / "runs.jsonl")
        assert commits(points) <= RUNS // 50 + 2
        assert {name: imported.store.read(name) for name in names} == before
    with hf.SyncCheckpointer(tmp_path / "copy.db") as copy:
        assert {name: copy.store.read(name) for name in names} == before


def test_others_see_a_block_when_it_is_done(tmp_path: Path) -> None:
    store, other = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
    store.append([entry("run", 0)])
    beside: list[int] = []
    with store.together():
        store.erase(tombstone("run", 1))
        reader = threading.Thread(target=lambda: beside.append(len(store.read("run"))))
        reader.start()
        reader.join()
        assert kinds(other, "run") == ["checkpoint"]
    assert beside == [1]
    assert kinds(other, "run") == ["tombstone"]
    for each in (store, other):
        each.close()


def test_a_block_that_raises_did_nothing(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    store.append([entry("run", 0)])
    with pytest.raises(KeyboardInterrupt), store.together():
        store.erase(tombstone("run", 1))
        store.append([entry("new", 0)])
        raise KeyboardInterrupt
    assert kinds(store, "run") == ["checkpoint"]
    assert store.read("new") == []
    assert store.append([entry("run", 1), entry("new", 0)]) == [True, True]
    assert store.rebuild(write=False) == 0
    store.close()


def test_a_part_of_a_block_that_fails_is_undone_alone(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    for run in ("a", "b"):
        store.append([entry(run, 0)])

    def fail() -> None:
        raise hf.StoreUnavailableError("the disk is full")

    with store.together():
        store.erase(tombstone("a", 1))
        with pytest.raises(hf.StoreUnavailableError), faults.at("sqlite.erase.marked", fail):
            store.erase(tombstone("b", 1))
        assert kinds(store, "b") == ["checkpoint"]
    assert kinds(store, "a") == ["tombstone"]
    assert kinds(store, "b") == ["checkpoint"]
    store.close()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_was_done_before_an_error_stays_done(
    tmp_path: Path, error: type[BaseException]
) -> None:
    store = SQLiteStore(tmp_path / "runs.db")

    def work(run: str) -> str:
        if run == "bad":
            raise error(run)
        store.append([entry(run, 0)])
        return run

    done = []
    with pytest.raises(error, match="bad"):
        for run in in_blocks(store, ["a", "b", "bad", "c"], work):
            done.append(run)  # noqa: PERF402 - what came before the error
    assert done == ["a", "b"]
    assert [head.run for head in store.runs()] == ["a", "b"]
    store.close()


@pytest.mark.parametrize(("seconds", "expected"), [(-1.0, [50, 50, 20]), (3600.0, [120])])
def test_a_block_ends_when_others_waited_long_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, expected: list[int]
) -> None:
    monkeypatch.setattr(blocks, "_SECONDS", seconds)
    with closing(SQLiteStore(tmp_path / "runs.db")) as store:
        sizes: list[int] = []
        together = store.together

        @contextmanager
        def counted() -> Iterator[None]:
            sizes.append(0)
            with together():
                yield

        def work(_: int) -> None:
            sizes[-1] += 1

        monkeypatch.setattr(store, "together", counted)
        list(in_blocks(store, range(RUNS), work))
        assert [size for size in sizes if size] == expected


def test_a_block_reads_what_is_stored_however_it_is_asked_for(tmp_path: Path) -> None:
    with closing(SQLiteStore(tmp_path / "runs.db")) as store:
        store.append([entry("short", seq, b"%d" % seq) for seq in range(5)])
        store.append([entry("long", seq) for seq in range(40)])
        store.append([entry("large", 0), entry("large", 1, bytes(100_000))])
        asked = [
            (run, {"after": after, "limit": limit, "newest_first": newest_first, "bodies": bodies})
            for run in ("short", "long", "large", "none")
            for after in (None, -1, 0, 2, 4, 100)
            for limit in (1, 3, 100)
            for newest_first in (True, False)
            for bodies in (True, False)
        ]
        expected = [store.read(run, **how) for run, how in asked]  # type: ignore[arg-type]
        with store.together():
            assert [store.read(run, **how) for run, how in asked] == expected  # type: ignore[arg-type]


def test_a_block_reads_what_it_wrote(tmp_path: Path) -> None:
    with closing(SQLiteStore(tmp_path / "runs.db")) as store:
        store.append([entry("run", 0), entry("run", 1)])
        with store.together():
            assert len(store.read("run")) == 2
            store.erase(tombstone("run", 2))
            assert kinds(store, "run") == ["tombstone"]
        store.append([entry("run", 3)])
        assert len(store.read("run")) == 2
