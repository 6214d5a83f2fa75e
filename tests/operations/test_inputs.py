"""Bad input gets a clear error, and nothing is lost or half done."""

from __future__ import annotations

import math
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.stores.sqlite.store import SQLiteStore


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"duration": math.nan}, "duration must be a finite"),
        ({"duration": 10**400}, "duration must be a finite"),
        ({"duration": "2"}, "duration must be a finite"),
        ({"step_index": "3"}, "step_index must be an int"),
        ({"iteration": 1.5}, "iteration must be an int"),
        ({"step_name": 5}, "step_name must be a str"),
        ({"next_steps": "abc"}, "next_steps must be a list"),
        ({"next_steps": [1]}, "next_steps must be a str"),
        ({"metadata": {"f": print}}, r"metadata\.f: .*function"),
        ({"metadata": {"big": "x" * 100_000}}, "keep large data in the state"),
        ({"type": "a\nb"}, "type"),
        ({"colour": "red"}, r"save\(\) got an unexpected keyword argument 'colour'"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_by_name(
    cp: hf.SyncCheckpointer, wrong: dict[str, Any], hint: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=hint):
        cp.save_many([{"run_id": "run", "state": 1} | wrong])
    assert cp.load("run") is None


def test_whole_numbers_and_bools_come_back_as_the_store_keeps_them(kept_url: str) -> None:
    with hf.SyncCheckpointer(kept_url) as cp:
        cp.save("run", 1, duration=1, step_index=True)
    with hf.SyncCheckpointer(kept_url) as cp:
        loaded = cp.load("run")
        assert loaded is not None
        assert (loaded.duration, loaded.step_index) == (1.0, 1)


def test_a_small_limit_on_states_holds() -> None:
    small = hf.SyncCheckpointer("memory://", max_state_bytes=100)
    with pytest.raises(hf.StateTooLargeError):
        small.save("run", "x" * 200)


@pytest.mark.parametrize("wrong", [{"durability": "asynch"}, {"on_save_failure": "warning"}])
def test_a_misspelt_setting_is_refused_rather_than_taken_for_a_weaker_one(
    wrong: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        hf.SyncCheckpointer("memory://", **wrong)


def test_a_misspelt_survival_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="power-loss"):
        hf.open_store(f"sqlite:///{tmp_path}/a.db?survives=powerloss")


def test_numbers_in_a_url_are_understood(tmp_path: Path) -> None:
    hf.open_store(f"sqlite:///{tmp_path}/a.db?busy_seconds=2").close()


@pytest.mark.on_disk
def test_your_own_scheme_is_not_bothered_with_what_it_must_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast import urls

    monkeypatch.setattr(urls, "_openers", dict(urls._openers))
    hf.register_store("mine", lambda url: SQLiteStore(tmp_path / "mine.db"))
    hf.SyncCheckpointer("mine://", survives="power-loss").close()


def test_a_relative_store_of_a_project_is_beside_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    for given in ("sqlite:///runs.db", "runs.db"):
        (tmp_path / "pyproject.toml").write_text(f'[tool.holdfast]\nstore = "{given}"\n')
        with hf.SyncCheckpointer() as cp:
            assert cp.store.url == f"sqlite:///{tmp_path}/runs.db"


def test_expecting_a_checkpoint_of_another_run_is_a_mistake(cp: hf.SyncCheckpointer) -> None:
    other = cp.save("other", 1)
    cp.save("run", 1)
    with pytest.raises(ValueError, match="another run"):
        cp.save("run", 2, expect=other)


def test_an_error_in_a_batch_leaves_those_before_it_saved_and_nothing_hanging(
    cp: hf.SyncCheckpointer,
) -> None:
    cp.save("owned", 1, owner="ann")
    with pytest.raises(hf.RunMismatchError):
        cp.save_many(
            [
                {"run_id": "first", "state": 1},
                {"run_id": "owned", "state": 2, "owner": "bob"},
                {"run_id": "third", "state": 3},
            ]
        )
    assert cp.load("first") is not None
    assert cp.load("third") is None


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_what_comes_after_a_save_that_was_let_go_sees_it(url: str, durability: Any) -> None:
    with hf.SyncCheckpointer(url, durability=durability) as cp:
        for n in range(5):
            cp.save("run", n)
        loaded = cp.load("run")
        assert loaded is not None
        assert loaded.state == 4
        first = cp.list_checkpoints("run", oldest_first=True)[0]
        cp.save("run", 5)
        cp.rollback("run", seq=first.seq)
        cp.flush()
        back = cp.load("run")
        assert back == first
        cp.save("run", 6)
        cp.save("run", 7)
        cp.clear("run")
        cp.flush()
        assert cp.load("run") is None


def test_a_closed_checkpointer_is_closed_even_if_its_store_is_not() -> None:
    store = hf.open_store("memory://")
    cp = hf.SyncCheckpointer(store)
    cp.close()
    with pytest.raises(hf.StoreClosedError):
        cp.save("run", 1)
    with pytest.raises(hf.StoreClosedError):
        cp.load("run")


def test_completing_a_run_tells_it_from_those_that_are_not(cp: hf.SyncCheckpointer) -> None:
    cp.save("done", {"n": 1}, step="last", type="iteration_end")
    cp.save("open", {"n": 1})
    cp.complete("done")
    assert [run.run_id for run in cp.runs(status="completed")] == ["done"]
    assert [run.run_id for run in cp.runs(status="open")] == ["open"]
    assert [run.step for run in cp.runs(type="iteration_end")] == ["last"]
    loaded = cp.load("done")
    assert loaded is not None
    assert loaded.state == {"n": 1}
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.complete("nowhere")


def test_pruning_does_not_hide_what_a_run_is(cp: hf.SyncCheckpointer) -> None:
    for n in range(4):
        cp.save("run", n, step=f"s{n}", type="llm_response")
    cp.prune("run", keep_latest=2)
    assert [run.step for run in cp.runs(type="llm_response")] == ["s3"]
    cp.delete("run", seq=4)
    assert [run.step for run in cp.runs(type="llm_response")] == ["s2"]


def test_a_fork_knows_its_origin_and_may_leave_its_thread(cp: hf.SyncCheckpointer) -> None:
    cp.save("run", 1, thread_id="talk", owner="ann", metadata={"k": 1})
    fork = cp.fork("run", run_id="fork", thread_id=None)
    assert (fork.origin, fork.thread_id, fork.owner, fork.metadata) == (
        "run@1",
        None,
        "ann",
        {"k": 1},
    )
    assert fork.parent_id is None
    with pytest.raises(hf.InvalidIdError, match="thread_id"):
        cp.fork("run", thread_id="\x00bad")


def test_a_checkpoint_id_alone_is_enough_to_load_it(cp: hf.SyncCheckpointer) -> None:
    saved = cp.save("run@1", {"n": 1})
    assert cp.load(checkpoint_id=saved.checkpoint_id) == saved
    with pytest.raises(ValueError, match="run_id or a checkpoint_id"):
        cp.load()


@pytest.mark.parametrize(
    "act",
    [
        lambda cp: cp.delete("run", 1),
        lambda cp: cp.delete("run"),
        lambda cp: cp.prune("run", before="2026-01-01"),
        lambda cp: cp.diff("run", 1.5, 2),
        lambda cp: cp.load("run", checkpoint_id="no-seq"),
    ],
)
def test_calls_that_make_no_sense_say_what_they_need(cp: hf.SyncCheckpointer, act: Any) -> None:
    cp.save("run", 1)
    with pytest.raises((TypeError, ValueError)):
        act(cp)


def test_a_retention_that_fails_does_not_fail_the_save(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in-the-way").write_text("")
    policy = hf.Retention(keep_latest=1, archive=f"{tmp_path}/in-the-way")
    with hf.SyncCheckpointer(url, retention=policy) as cp:
        for n in range(70):
            cp.save("run", n)
        loaded = cp.load("run")
        assert loaded is not None
        assert loaded.state == 69
    assert "retention could not be applied" in caplog.text


def test_deleting_waits_for_a_busy_store_and_says_so_at_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path, deadline=0.1) as cp:
        cp.save("run", 1)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(hf.CheckpointSaveError, match="nothing was deleted") as caught:
                cp.clear("run")
            assert isinstance(caught.value.__cause__, hf.StoreUnavailableError)
        assert cp.clear("run") == 1


def test_the_database_is_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        hf.SyncCheckpointer(tmp_path / "new" / "runs.db").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new" / "runs.db").stat().st_mode) == 0o600


def test_methods_are_called_what_they_are() -> None:
    for face in (hf.Checkpointer, hf.SyncCheckpointer):
        for name in ("save", "load", "prune", "verify", "copy_to", "complete"):
            method = getattr(face, name)
            assert method.__name__ == name
            assert method.__doc__
