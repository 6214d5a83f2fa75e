from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.checkpoint import to_micros
from holdfast.evidence import Evidence, EvidencePack, EvidenceType
from holdfast.manager import TaskCheckpoint
from holdfast.model import Entry, verdict_journal
from holdfast.store import RunFilter
from holdfast.stores.memory import MemoryStore
from tests.conftest import Grow
from tests.faults import FakeClock

DAY = 86_400


def states(cp: hf.SyncCheckpointer, run: str) -> list[int]:
    """What every checkpoint that is left decodes to, oldest first."""
    infos = cp.list_checkpoints(run, oldest_first=True)
    return [c.state["n"] for info in infos if (c := cp.load(run, seq=info.seq))]


@pytest.mark.parametrize("index", [0, 1, 5, 8, 9])
def test_any_one_checkpoint_can_be_deleted_and_the_others_still_load(
    cp: hf.SyncCheckpointer, grow: Grow, index: int
) -> None:
    saved = grow("run", 10)
    assert cp.delete("run", saved[index].checkpoint_id) == 1
    assert states(cp, "run") == [n for n in range(10) if n != index]
    assert cp.load("run", seq=saved[index].seq) is None
    current = cp.load("run")
    assert current is not None
    assert current.state["n"] == (8 if index == 9 else 9)
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.delete("run", saved[index].checkpoint_id)
    report = cp.verify("run")
    assert report.ok
    assert report.deleted == 1


def test_pruning_keeps_the_newest(cp: hf.SyncCheckpointer, grow: Grow) -> None:
    grow("run", 30)
    assert cp.prune("run", keep_latest=5) == 25
    assert states(cp, "run") == [25, 26, 27, 28, 29]
    assert cp.prune("run", keep_latest=5) == 0
    cp.save("run", {"n": 30})
    assert states(cp, "run") == [25, 26, 27, 28, 29, 30]


def test_pruning_by_age_goes_by_each_checkpoints_own_time(url: str) -> None:
    clock = FakeClock(to_micros(datetime(2026, 1, 1, tzinfo=UTC)))
    with hf.SyncCheckpointer(url, clock=clock) as cp:
        for n in range(10):
            cp.save("run", {"n": n, "pad": "x" * 5000})
            clock.advance(1 * DAY)
        assert cp.prune("run", before=datetime(2026, 1, 4, tzinfo=UTC)) == 3
        assert states(cp, "run") == [3, 4, 5, 6, 7, 8, 9]
        assert cp.prune("run", before=datetime(2026, 1, 9, tzinfo=UTC), keep_latest=5) == 2
        assert states(cp, "run") == [5, 6, 7, 8, 9]
        assert cp.prune("run", before=datetime(2026, 2, 1)) == 5, "naive is local time"
        assert cp.load("run") is None


def test_pruning_after_going_back_never_takes_the_current_state(
    cp: hf.SyncCheckpointer, grow: Grow
) -> None:
    saved = grow("run", 10)
    cp.rollback("run", seq=saved[3].seq)
    assert cp.prune("run", keep_latest=2) == 8
    assert states(cp, "run") == [2, 3]
    current = cp.load("run")
    assert current is not None
    assert current.state["n"] == 3


def test_pruning_needs_to_be_told_what(cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(ValueError, match="clear"):
        cp.prune("run")
    with pytest.raises(ValueError, match="-1"):
        cp.prune("run", keep_latest=-1)
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.prune("run", keep_latest=1)


def test_a_cleared_run_is_gone_and_its_id_starts_anew_after_it(
    cp: hf.SyncCheckpointer, grow: Grow
) -> None:
    old = grow("run", 5)
    cp.save("other", {"n": 1})
    assert cp.clear("run") == 5
    assert cp.clear("run") == 0
    assert cp.load("run") is None
    assert cp.list_checkpoints("run") == []
    assert [run.run_id for run in cp.runs()] == ["other"]
    anew = cp.save("run", {"n": 99}, owner="someone else")
    assert anew.seq > old[-1].seq, "no seq is ever used twice"
    assert anew.parent_id is None
    assert states(cp, "run") == [99]


def test_a_new_run_under_an_old_id_sees_no_names_and_verdicts_of_the_old_one(
    cp: hf.SyncCheckpointer,
) -> None:
    manager = hf.CheckpointManager(cp)
    claim = Evidence(EvidenceType.ARTIFACT_EXISTS, "itself", {"path": __file__})

    def commit() -> TaskCheckpoint:
        begun = manager.begin_step("task", "tool_executed", {"n": 1})
        return manager.commit_step(begun, EvidencePack([claim]), checkpoint_id="my-name")

    old = commit()
    assert old.verified
    cp.clear("task")
    assert cp.store.runs(RunFilter(prefix=verdict_journal(""))) == []
    assert manager.get_checkpoint("my-name") is None
    manager.auto_verify = False
    anew = commit()
    assert not anew.verified
    assert anew.seq > old.seq
    assert manager.get_checkpoint("my-name") == anew


def test_deleting_the_only_checkpoint_deletes_the_run(cp: hf.SyncCheckpointer) -> None:
    only = cp.save("run", {"n": 1})
    assert cp.delete("run", only.checkpoint_id) == 1
    assert cp.runs() == []


def test_a_late_writer_cannot_bring_a_cleared_run_back(kept_url: str) -> None:
    with hf.SyncCheckpointer(kept_url) as late, hf.SyncCheckpointer(kept_url) as other:
        mine = late.save("run", {"n": 1})
        other.save("run", {"n": 2})
        other.clear("run")
        with pytest.raises(hf.ConflictError):
            late.save("run", {"n": 2}, expect=mine)
        assert other.load("run") is None
        fresh = late.save("run", {"n": 3})
        assert fresh.parent_id is None
        assert states(other, "run") == [3]


@pytest.mark.parametrize(
    "act",
    [
        lambda cp: cp.clear("run"),
        lambda cp: cp.prune("run", keep_latest=1),
        lambda cp: cp.delete("run", "run@1"),
        lambda cp: cp.delete_thread("talk"),
    ],
)
def test_a_run_that_waits_is_not_deleted_unless_forced(
    cp: hf.SyncCheckpointer, act: Callable[[hf.SyncCheckpointer], int]
) -> None:
    cp.save("run", {"n": 1}, thread_id="talk")
    cp.save("run", {"n": 2}, status="paused")
    with pytest.raises(hf.RunActiveError, match="force=True"):
        act(cp)
    assert states(cp, "run") == [1, 2]
    assert cp.clear("run", force=True) == 2


def test_a_thread_is_deleted_with_all_its_runs(cp: hf.SyncCheckpointer) -> None:
    for run in ("a", "b"):
        cp.save(run, {"n": 1}, thread_id="talk")
    cp.save("c", {"n": 1}, thread_id="other")
    assert cp.delete_thread("talk") == 2
    assert cp.delete_thread("talk") == 0
    assert cp.thread("talk") == []
    assert [run.run_id for run in cp.runs()] == ["c"]
    cp.save("a", {"n": 2}, thread_id="talk")
    assert [run.run_id for run in cp.thread("talk")] == ["a"]


def test_what_was_deleted_is_not_in_the_file_any_more(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", {"n": 1, "secret": "correct horse battery"}, owner="ann", step="s")
        cp.save("run", {"n": 2})
        cp.delete("run", "run@1")
        cp.save("gone", {"secret": "staple"}, owner="ann")
        cp.clear("gone")
    content = path.read_bytes()
    assert b"correct horse" not in content
    assert b"staple" not in content


def test_retention_thins_a_run_out_by_itself(url: str) -> None:
    with hf.SyncCheckpointer(url, retention=hf.Retention(keep_latest=10)) as cp:
        for n in range(300):
            cp.save("run", {"n": n, "pad": [f"x{i:05}" for i in range(600)]})
        left = states(cp, "run")
        assert left[-10:] == list(range(290, 300))
        assert len(left) < 100
        cp.apply_retention()
        assert states(cp, "run") == list(range(290, 300))
        assert cp.verify("run").ok


def test_retention_removes_idle_runs_but_never_one_that_waits(url: str, tmp_path: Path) -> None:
    clock = FakeClock(to_micros(datetime(2026, 1, 1, tzinfo=UTC)))
    policy = hf.Retention(run_ttl=timedelta(days=7), archive=tmp_path / "archive")
    with hf.SyncCheckpointer(url, clock=clock, retention=policy) as cp:
        cp.save("old", {"n": 1})
        cp.save("waiting", {"n": 1}, status="paused")
        clock.advance(6 * DAY)
        cp.save("young", {"n": 1})
        clock.advance(2 * DAY)
        assert cp.apply_retention() == 1
        assert [run.run_id for run in cp.runs()] == ["young", "waiting"]
    with hf.SyncCheckpointer("memory://") as other:
        assert other.import_run(tmp_path / "archive" / "old@1.jsonl") == "old"
        found = other.load("old")
        assert found is not None
        assert found.state == {"n": 1}


def test_retention_by_age_always_leaves_the_current_checkpoint(url: str) -> None:
    clock = FakeClock(to_micros(datetime(2026, 1, 1, tzinfo=UTC)))
    policy = hf.Retention(max_age=timedelta(days=1))
    with hf.SyncCheckpointer(url, clock=clock, retention=policy) as cp:
        for n in range(3):
            cp.save("run", {"n": n})
        clock.advance(30 * DAY)
        assert cp.apply_retention() == 2
        assert states(cp, "run") == [2]


@pytest.mark.parametrize("wrong", [{}, {"keep_latest": 0}, {"run_ttl": timedelta(0)}])
def test_a_retention_that_means_nothing_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"keep_latest|run_ttl"):
        hf.Retention(**wrong)  # type: ignore[arg-type]


def test_pruning_gives_the_disk_back(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    def size() -> int:
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.stat().st_size

    with hf.SyncCheckpointer(path) as cp:
        for n in range(50):
            cp.save("run", {"n": n, "noise": random.Random(n).randbytes(40_000)})
        full = size()
        cp.prune("run", keep_latest=2)
        assert size() < full / 5


def test_a_dry_run_of_retention_says_what_would_go_and_deletes_nothing(tmp_path: Path) -> None:
    policy = hf.Retention(keep_latest=2, archive=tmp_path / "archive")
    with hf.SyncCheckpointer("memory://", retention=policy) as cp:
        for n in range(5):
            cp.save("run", n)
        would = cp.retain("run", dry_run=True)
        assert (would.checkpoints, would.whole) == (3, False)
        assert cp.stats().checkpoints == 5
        assert not (tmp_path / "archive").exists()
        assert cp.retain("run") == would
        assert cp.stats().checkpoints == 2
        assert cp.retain("run").checkpoints == 0
        with pytest.raises(hf.CheckpointNotFoundError):
            cp.retain("other")


def test_retention_with_an_archive_keeps_only_what_it_cannot_load(tmp_path: Path) -> None:
    place, archive = tmp_path / "runs.db", tmp_path / "archive"
    with hf.SyncCheckpointer(place) as cp:
        for n in range(1, 7):
            cp.save("run", {"n": n})
    with closing(sqlite3.connect(place)) as db, db:
        db.execute("UPDATE holdfast_entries SET step = 'forged' WHERE seq = 3")
    policy = hf.Retention(keep_latest=2, archive=archive)
    with hf.SyncCheckpointer(place, retention=policy) as cp:
        assert cp.retain("run").checkpoints == 3
        assert [info.seq for info in cp.list_checkpoints("run")] == [6, 5, 3]
    lines = (archive / "run.jsonl").read_text().splitlines()
    assert [json.loads(line)["state"] for line in lines] == [{"n": 4}, {"n": 2}, {"n": 1}]


@pytest.mark.parametrize("delete", ["delete_thread", "forget"])
def test_a_run_that_begins_while_its_thread_is_deleted_is_deleted_or_named(delete: str) -> None:
    class Busy(MemoryStore):
        begun = False

        def erase(self, tombstone: Entry) -> bool:
            if not self.begun:
                self.begun = True
                cp.save("late", 1, thread_id="t")
            return super().erase(tombstone)

    with hf.SyncCheckpointer(Busy()) as cp:
        cp.save("a", 1, thread_id="t")
        if delete == "delete_thread":
            assert cp.delete_thread("t") == 2
        else:
            with pytest.raises(hf.CheckpointSaveError, match="began runs meanwhile"):
                cp.forget(thread_id="t")
            assert [run.run_id for run in cp.thread("t")] == ["late"]
            assert len(cp.forget(thread_id="t").runs) == 2
        assert cp.runs() == []
        assert cp.thread("t") == []
