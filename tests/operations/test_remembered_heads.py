"""A program that remembers heads outside of its store notices when the store is rewound."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.operations.remembered import accept_history
from holdfast.workflow import step, workflow
from tests.operations.test_anchors import (
    ATTACKS,
    KINDS,
    a_cut_tail,
    an_older_copy,
    copy_of,
    statement,
    swapped_histories,
    url_of,
)
from tests.waiting import wait_until

HEADS = "heads.db"


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def filled(kind: str, tmp_path: Path) -> str:
    """A store with some life in it, an older copy of it, and heads that are remembered."""
    url = url_of(kind, tmp_path)
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        for run in ("left", "right", "other"):
            for n in range(4):
                cp.save(run, {"run": run, "n": n}, step=f"s{n}", thread_id="t")
    copy_of(kind, tmp_path, "runs", "older")
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        for run in ("left", "right"):
            cp.save(run, {"run": run, "n": 4}, step="s4")
        cp.save("late", {"n": 0})
    return url


@pytest.mark.parametrize(
    "attack",
    [attack for attack in ATTACKS if attack is not swapped_histories],
    ids=lambda attack: attack.__name__,
)
def test_a_rewound_run_is_neither_loaded_nor_saved_to(
    attack: Callable[[str, Path], dict[str, str]], kind: str, tmp_path: Path
) -> None:
    url = filled(kind, tmp_path)
    expected = attack(kind, tmp_path)
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        assert {one.run_id for one in cp.check_remembered()} == expected.keys()
        for run in expected:
            if not run.isprintable():
                continue
            with pytest.raises(hf.HistoryRewoundError, match=f"--accept={run}"):
                cp.load(run)
            with pytest.raises(hf.HistoryRewoundError):
                cp.load(run, seq=1)
            with pytest.raises(hf.HistoryRewoundError):
                cp.save(run, {"n": 9})
        cp.accept_history()
        assert cp.check_remembered() == []
        for run in expected:
            if run.isprintable():
                cp.save(run, {"n": 9})
                assert cp.load(run).state == {"n": 9}  # type: ignore[union-attr]


def test_what_an_import_brings_back_is_no_alarm(kind: str, tmp_path: Path) -> None:
    url, export = filled(kind, tmp_path), tmp_path / "left.jsonl"
    with hf.SyncCheckpointer(url) as cp:
        cp.export_run("left", export)
    a_cut_tail(kind, tmp_path)
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        with pytest.raises(hf.HistoryRewoundError, match="newer entries were cut off"):
            cp.load("left")
        cp.import_run(export)
        assert cp.load("left").state["n"] == 4  # type: ignore[union-attr]


def test_another_store_at_the_same_place_is_refused_until_it_is_accepted(tmp_path: Path) -> None:
    url = filled("sqlite", tmp_path)
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"runs.db{suffix}").unlink(missing_ok=True)
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        with pytest.raises(hf.HistoryRewoundError, match="not the store that was here before"):
            cp.save("left", {"n": 0})
        assert cp.run("left") is None, "nothing was written"
        cp.accept_history()
        cp.save("left", {"n": 0})
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        assert cp.load("left").state == {"n": 0}  # type: ignore[union-attr]


def test_a_store_that_moved_is_known_by_its_id(tmp_path: Path) -> None:
    filled("sqlite", tmp_path)
    (tmp_path / "runs.db").rename(tmp_path / "moved.db")
    statement(tmp_path, "DELETE FROM holdfast_entries WHERE run = 'left' AND seq = 5", name="moved")
    with (
        hf.SyncCheckpointer(tmp_path / "moved.db", remember=tmp_path / HEADS) as cp,
        pytest.raises(hf.HistoryRewoundError),
    ):
        cp.load("left")


def test_deleting_pruning_and_clearing_are_no_alarm(kind: str, tmp_path: Path) -> None:
    url = filled(kind, tmp_path)
    with hf.SyncCheckpointer(url) as cp:  # by a program that remembers nothing
        cp.prune("left", keep_latest=1)
        cp.delete("right", seq=5)
        cp.clear("other")
        cp.forget(run_id="late")
        cp.save("late", {"n": "again"})
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        assert cp.check_remembered() == []
        assert cp.load("left").state["n"] == 4  # type: ignore[union-attr]
        assert cp.load("right").state["n"] == 3  # type: ignore[union-attr]
        assert cp.load("other") is None
        assert cp.save("other", {"n": 1}).seq == 7
        assert cp.load("late").state == {"n": "again"}  # type: ignore[union-attr]
        cp.delete_thread("t")
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        assert cp.check_remembered() == []
        assert cp.load("left") is None


def test_what_one_process_saved_another_remembers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    process = multiprocessing.get_context("spawn").Process(target=_save, args=(url, tmp_path))
    process.start()
    process.join()
    assert process.exitcode == 0
    statement(tmp_path, "DELETE FROM holdfast_entries WHERE run = 'run' AND seq = 3")
    with (
        hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp,
        pytest.raises(hf.HistoryRewoundError, match="it ends at seq 2, and seq 3 was saved"),
    ):
        cp.load("run")


def _save(url: str, tmp_path: Path) -> None:
    cp = hf.SyncCheckpointer(url, remember=tmp_path / HEADS)
    for n in range(3):
        cp.save("run", {"n": n})
    # It is not closed: what is new is written when the process ends.


def test_heads_are_written_in_the_background_and_a_child_process_starts_afresh(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        cp.save("run", {"n": 1})
        wait_until(lambda: remembered(tmp_path).get("run") == 1)
        child = os.fork()
        if not child:
            with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as own:
                own.save("run", {"n": 2})
                cp.save("of child", {"n": 1})
                cp.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert remembered(tmp_path)["run"] == 2
        assert cp.load("run").state == {"n": 2}  # type: ignore[union-attr]


def remembered(tmp_path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(tmp_path / HEADS)) as db:
        return dict(db.execute("SELECT run, seq FROM heads"))


def test_a_crash_loses_what_was_remembered_last_and_alarms_nobody(tmp_path: Path) -> None:
    url = filled("sqlite", tmp_path)
    with closing(sqlite3.connect(tmp_path / HEADS)) as db, db:
        db.execute("UPDATE heads SET seq = 3, digest = zeroblob(32) WHERE run = 'none'")
        db.execute("DELETE FROM heads WHERE run = 'left'")
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        assert cp.load("left").state["n"] == 4  # type: ignore[union-attr]
    assert remembered(tmp_path)["left"] == 5


def test_a_missing_file_is_made_anew_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = filled("sqlite", tmp_path)
    assert stat.S_IMODE((tmp_path / HEADS).stat().st_mode) == 0o600
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"{HEADS}{suffix}").unlink(missing_ok=True)
    caplog.clear()
    with (
        caplog.at_level(logging.WARNING, "holdfast"),
        hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp,
    ):
        assert f"{HEADS} is new: heads are remembered from now on" in caplog.text
        assert cp.load("left") is not None
        cp.core.journals.remembered.flush()  # type: ignore[union-attr]
        for suffix in ("", "-wal", "-shm"):
            (tmp_path / f"{HEADS}{suffix}").unlink(missing_ok=True)
        assert cp.load("right") is not None
        assert "was removed or replaced while it was in use" in caplog.text
    assert remembered(tmp_path)["right"] == 5


@pytest.mark.parametrize("content", [b"not a database, but long enough to be looked at" * 40, None])
def test_a_damaged_file_or_one_of_something_else_is_refused(
    content: bytes | None, tmp_path: Path
) -> None:
    url, heads = filled("sqlite", tmp_path), tmp_path / "other-heads.db"
    if content is None:
        heads = tmp_path / "runs.db"
    else:
        heads.write_bytes(content)
    with pytest.raises(hf.HeadsFileError, match=r"is damaged|something else"):
        hf.SyncCheckpointer(url, remember=heads)
    assert content is None or heads.read_bytes() == content


def test_a_store_in_memory_has_nothing_to_remember(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="in memory"):
        hf.SyncCheckpointer("memory://", remember=tmp_path / HEADS)


def test_an_owner_is_told_nothing_of_the_runs_of_others(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        cp.save("secret", {"n": 1}, owner="ben")
    with hf.SyncCheckpointer(url, owner="ann", remember=tmp_path / HEADS) as cp:
        assert cp.load("secret") is None
        cp.save("own", {"n": 1})
        assert cp.load("own") is not None


@step
def first() -> int:
    return 1


@step
def second() -> int:
    if not Path("let-me").exists():
        raise RuntimeError("not yet")
    return 2


@workflow
async def counting() -> int:
    return await first() + await second()


def test_a_rewound_run_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/runs.db"
    with hf.Engine(url, remember=tmp_path / HEADS) as engine, pytest.raises(hf.StepFailedError):
        engine.run_sync(counting(), run_id="run")
    Path("let-me").touch()
    with closing(sqlite3.connect("runs.db")) as db, db:
        ((newest,),) = db.execute("SELECT max(seq) FROM holdfast_entries WHERE run = 'run'")
        db.execute("DELETE FROM holdfast_entries WHERE run = 'run' AND seq >= ?", (newest - 1,))
    with hf.Engine(url, remember=tmp_path / HEADS) as engine:
        with pytest.raises(hf.HistoryRewoundError):
            engine.run_sync(counting(), run_id="run", resume=True)
        cp = engine.checkpointer
        assert isinstance(cp, hf.Checkpointer)
        accept_history(cp.core, ["run"])
        assert engine.run_sync(counting(), run_id="run", resume=True) == 3


def test_an_older_copy_is_told_run_by_run(tmp_path: Path) -> None:
    url = filled("sqlite", tmp_path)
    an_older_copy("sqlite", tmp_path)
    with hf.SyncCheckpointer(url, remember=tmp_path / HEADS) as cp:
        assert cp.load("other") is not None, "nothing was saved to it since"
        assert sorted(one.run_id for one in cp.check_remembered()) == ["late", "left", "right"]
        cp.accept_history(["left"])
        assert cp.load("left").state["n"] == 3  # type: ignore[union-attr]
        with pytest.raises(hf.HistoryRewoundError):
            cp.load("late")
        cp.accept_history(["late"])
        assert cp.load("late") is None


def test_a_file_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    heads = tmp_path / "heads.db"
    with hf.SyncCheckpointer(tmp_path / "runs.db", remember=heads) as cp:
        cp.save("run", 1)
    with closing(sqlite3.connect(heads)) as db:
        db.execute("PRAGMA user_version = 2")
    with pytest.raises(hf.HeadsFileError, match="newer holdfast"):
        hf.SyncCheckpointer(tmp_path / "runs.db", remember=heads)
