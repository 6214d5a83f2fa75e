"""What reviewers and faults found once, each as the user would have met it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoint import to_micros
from holdfast.model import Entry
from holdfast.store import ANY_HEAD, PAGE, Behind, RunFilter
from holdfast.stores import SQLiteStore
from holdfast.stores.memory import MemoryStore
from tests.faults import FakeClock


class Watched(MemoryStore):
    """Calls `before` ahead of an append or erase, once: the window in which others act."""

    inline = False
    before: Callable[[], object] | None = None

    def _strike(self) -> None:
        act, self.before = self.before, None
        if act is not None:
            act()

    def append(self, entries: Any, behind: Behind = ANY_HEAD) -> list[bool]:
        self._strike()
        return super().append(entries, behind)

    def erase(self, tombstone: Entry) -> bool:
        self._strike()
        return super().erase(tombstone)

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        found = super().runs(where, after=after, limit=limit)
        self._strike()
        return found


def test_retention_never_takes_a_run_that_was_saved_to_meanwhile() -> None:
    store, clock = Watched(), FakeClock(to_micros(datetime(2026, 1, 1, tzinfo=UTC)))
    policy = hf.Retention(run_ttl=timedelta(days=7))
    with hf.SyncCheckpointer(store, clock=clock, retention=policy) as cp:
        cp.save("idle", 1)
        cp.save("paused", 1)
        clock.advance(8 * 86_400)
        store.before = lambda: (cp.save("idle", 2), cp.save("paused", 2, status="paused"))
        assert cp.apply_retention() == 0
        assert [cp.load(run).state for run in ("idle", "paused")] == [2, 2]  # type: ignore[union-attr]


def test_one_damaged_run_does_not_stop_retention_for_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        for run in ("a", "b"):
            for n in range(5):
                cp.save(run, {"n": n})
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE holdfast_entries SET parent = 99 WHERE run = 'a' AND seq = 5")
    with hf.SyncCheckpointer(path, retention=hf.Retention(keep_latest=2)) as cp:
        assert cp.apply_retention() == 3
        assert len(cp.list_checkpoints("b")) == 2
        assert not cp.verify("a").ok, "it is as damaged as before"
    assert "retention skipped run a" in caplog.text


def test_a_cancelled_flush_loses_nothing_that_was_held_back(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "runs.db"
        cp = hf.Checkpointer(path, durability="exit")
        await cp.save("run", {"n": 0, "pad": "x" * 5000})
        cp._core.journals.forget("run")  # the tip must be fetched: more places to be cancelled at
        for n in range(1, 20):
            await cp.save("run", {"n": n, "pad": "x" * 5000})
            task = asyncio.create_task(cp.flush())
            for _ in range(n % 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await cp.close()
        with hf.SyncCheckpointer(path) as fresh:
            loaded = fresh.load("run")
            assert loaded is not None
            assert loaded.state["n"] == 19

    asyncio.run(main())


def test_a_flush_that_failed_is_tried_again() -> None:
    class Failing(MemoryStore):
        inline = False
        broken = False

        def append(self, entries: Any, behind: Behind = ANY_HEAD) -> list[bool]:
            if self.broken:
                raise hf.StoreError("no")
            return super().append(entries, behind)

    store = Failing()
    cp = hf.SyncCheckpointer(store, durability="exit")
    cp.save("run", 1)
    cp.save("run", 2)
    store.broken = True
    with pytest.raises(hf.CheckpointSaveError):
        cp.flush()
    store.broken = False
    cp.close()
    with hf.SyncCheckpointer(store) as fresh:
        loaded = fresh.load("run")
        assert loaded is not None
        assert loaded.state == 2


def test_a_lost_reply_is_looked_into_before_a_broken_line_counts_as_lost() -> None:
    class LosesOne(MemoryStore):
        inline = False
        act: Callable[[], object] | None = None

        def append(self, entries: Any, behind: Behind = ANY_HEAD) -> list[bool]:
            outcomes = super().append(entries, behind)
            if self.act is not None:
                act, self.act = self.act, None
                act()
                raise hf.OutcomeUnknownError(entries[0].run, "the connection broke")
            return outcomes

        def read(self, run: str, **how: Any) -> list[Entry]:
            if self.blind:
                self.blind -= 1
                raise hf.StoreUnavailableError("still away")
            return super().read(run, **how)

        blind = 0

    store = LosesOne()
    with hf.SyncCheckpointer(store) as cp:
        cp.save("run", 0)

        def break_the_line() -> None:
            cp._core.journals.forget("run")
            store.blind = 1

        store.act = break_the_line
        cp.save("run", 1)
        states = [cp.load("run", seq=i.seq).state for i in cp.list_checkpoints("run")]  # type: ignore[union-attr]
        assert states == [1, 0]


class Overtaken(SQLiteStore):
    """Another process is faster than the next append, which then fails; so do some reads."""

    theirs: hf.SyncCheckpointer | None = None
    error: hf.HoldfastError = hf.OutcomeUnknownError("run", "the connection broke")
    blind_behind: int | None = None
    blind = 0

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if self.theirs is not None:
            theirs, self.theirs = self.theirs, None
            theirs.save("run", "theirs")
            raise self.error
        return super().append(entries, behind)

    def read(self, run: str, **how: Any) -> list[Entry]:
        if self.blind and how.get("after") == self.blind_behind:
            self.blind -= 1
            raise hf.StoreUnavailableError("still away")
        return super().read(run, **how)


def test_what_was_queued_behind_a_lost_place_does_not_follow_the_entry_that_took_it(
    tmp_path: Path,
) -> None:
    """Whether it is there could not be looked up: it must not be written again meanwhile."""
    store = Overtaken(tmp_path / "runs.db")
    with hf.SyncCheckpointer(tmp_path / "runs.db") as theirs, hf.SyncCheckpointer(store) as cp:
        base = cp.save("run", "base")
        store.theirs, store.blind_behind, store.blind = theirs, base.seq + 1, 2
        cp.save_many({"run_id": "run", "state": state} for state in ("first", "second"))
        assert store.blind == 0
        assert cp.verify("run").problems == ()
        assert [cp.load("run", seq=i.seq).state for i in cp.list_checkpoints("run")] == [  # type: ignore[union-attr]
            "second", "first", "theirs", "base",
        ]  # fmt: skip
    store.close()


def test_entries_that_are_written_one_by_one_do_not_follow_the_entry_that_took_their_place(
    tmp_path: Path,
) -> None:
    """They are, when the store refuses one of a batch."""
    store = Overtaken(tmp_path / "runs.db")
    with hf.SyncCheckpointer(tmp_path / "runs.db") as theirs, hf.SyncCheckpointer(store) as cp:
        cp.save("run", "base")
        store.theirs, store.error = theirs, hf.StoreError("one of them can't be stored")
        cp.save_many({"run_id": "run", "state": state} for state in ("first", "second"))
        assert cp.verify("run").problems == ()
        assert [cp.load("run", seq=i.seq).state for i in cp.list_checkpoints("run")] == [  # type: ignore[union-attr]
            "second", "first", "theirs", "base",
        ]  # fmt: skip
    store.close()


def test_completing_does_not_bring_a_cleared_run_back() -> None:
    store = Watched()
    with hf.SyncCheckpointer(store) as cp, hf.SyncCheckpointer(store) as other:
        cp.save("run", 1)
        store.before = lambda: other.clear("run")
        with pytest.raises(hf.CheckpointNotFoundError):
            cp.complete("run")
        assert cp.runs() == []


def test_what_another_process_did_is_looked_at_before_a_refusal(kept_url: str) -> None:
    with hf.SyncCheckpointer(kept_url) as one, hf.SyncCheckpointer(kept_url) as two:
        one.save("run", 1, owner="ann")
        newer = two.save("run", 2)
        assert one.save("run", 3, expect=newer).parent_id == newer.checkpoint_id
        two.clear("run")
        assert one.save("run", 4, owner="bob").owner == "bob"
        one.save("fork", 1)
        two.clear("fork")
        assert one.fork("run", run_id="fork").state == 4


def test_a_thread_that_could_not_start_is_started_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = hf.open_store(tmp_path / "runs.db")
    hf.SyncCheckpointer(store).save("run", 0)  # written right here, without a thread

    async def main() -> None:
        async with hf.Checkpointer(store) as cp:
            assert await cp.load("run") is not None
            start = threading.Thread.start

            def fails(thread: threading.Thread) -> None:
                if thread.name != "holdfast-writer":  # a save may read first, in another thread
                    start(thread)
                    return
                monkeypatch.setattr(threading.Thread, "start", start)
                raise RuntimeError("can't start new thread")

            monkeypatch.setattr(threading.Thread, "start", fails)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(cp.save("run", 1), 0.2)
            await asyncio.wait_for(cp.save("run", 2), 10)
            loaded = await cp.load("run")
            assert loaded is not None
            assert loaded.state == 2

    with closing(store), closing(asyncio.new_event_loop()) as loop:
        loop.set_exception_handler(lambda loop, context: None)
        loop.run_until_complete(main())


def test_one_damaged_file_hides_neither_its_run_nor_the_others(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(f"{tmp_path}/runs/") as cp:
        for run in ("bad", "good"):
            for n in range(3):
                cp.save(run, {"n": n})
    damaged = tmp_path / "runs" / "bad" / "0000000003.json"
    damaged.write_bytes(damaged.read_bytes()[:50])
    with hf.SyncCheckpointer(f"{tmp_path}/runs/") as cp:
        assert [run.run_id for run in cp.runs()] == ["good", "bad"]
        assert cp.stats().checkpoints == 5
        with pytest.raises(hf.CheckpointCorruptedError):
            cp.load("bad")
        older = cp.load("bad", seq=2)
        assert older is not None
        report = cp.verify("bad")
        assert [problem.seq for problem in report.problems][:1] == [3]
        cp.save("bad", {"n": "onward"})
        onward = cp.load("bad")
        assert onward is not None
        assert onward.state == {"n": "onward"}
        assert cp.clear("bad") > 0
        assert [run.run_id for run in cp.runs()] == ["good"]


@pytest.mark.parametrize(
    "damage",
    ["body = 'text'", "digest = 'text'", "size = 'text'", "entry_id = 5", "step = x'ff'"],
)
def test_a_column_of_another_type_is_damage_not_a_crash(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", {"n": 1}, step="s")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE holdfast_entries SET {damage} WHERE seq = 1")
    with hf.SyncCheckpointer(path, deadline=0.1) as cp:
        with pytest.raises(hf.CheckpointCorruptedError):
            cp.load("run")
        assert not cp.verify("run").ok


def test_going_far_back_does_not_make_every_later_load_read_all_between(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        state = {"n": 0, "pad": [f"x{i}" for i in range(1500)]}
        cp.save("run", state)
        cp.save_many([{"run_id": "run", "state": state | {"n": n}} for n in range(900)])
        cp.rollback("run", seq=1)
        cp.save("run", state | {"n": "back"})
        tip = cp._core.journals.tip("run")
        assert tip is not None
        assert tip.chain is not None
        assert tip.chain.landmark.seq == tip.seq, (
            "a whole state, not a change to one nine hundred entries ago"
        )


def test_ids_at_the_end_of_unicode_are_listed(cp: hf.SyncCheckpointer) -> None:
    for run in ("\U0010ffff", "\U0010ffffx", "a"):
        cp.save(run, 1)
    assert [run.run_id for run in cp.runs()] == ["a", "\U0010ffffx", "\U0010ffff"]
    assert len(cp.runs(prefix="\U0010ffff")) == 2


def test_batches_keep_to_retention(url: str) -> None:
    with hf.SyncCheckpointer(url, retention=hf.Retention(keep_latest=2)) as cp:
        cp.save_many([{"run_id": "run", "state": n} for n in range(200)])
        assert len(cp.list_checkpoints("run")) < 100


def test_a_database_that_was_removed_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path, deadline=0.2) as cp:
        cp.save("run", 1)
        for file in tmp_path.glob("runs.db*"):
            file.unlink()
        time.sleep(0.1)
        with pytest.raises(hf.CheckpointSaveError, match="removed"):
            cp.save("run", 2)


@pytest.mark.parametrize("wrong", ["", "sqlite:x.db", "memory://shared"])
def test_a_name_that_is_nearly_a_store_is_refused(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hf.StoreURLError):
        hf.SyncCheckpointer(wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_bomb_is_not_inflated_beyond_what_could_have_been_saved(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path, max_state_bytes=1 << 28) as cp:
        cp.save("run", bytes(80_000_000))
    with (
        hf.SyncCheckpointer(path) as cp,
        pytest.raises(hf.CheckpointCorruptedError, match="claims"),
    ):
        cp.load("run")


def test_two_checkpointers_of_one_process_may_save_to_one_run_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        store = hf.open_store(tmp_path / "runs.db")
        both = (hf.Checkpointer(store, deadline=10), hf.Checkpointer(store, deadline=10))
        saves = (cp.save("run", n) for n in range(100) for cp in both)
        saved = await asyncio.gather(*saves)
        assert sorted(checkpoint.seq for checkpoint in saved) == list(range(1, 201))
        for cp in both:
            await cp.close()
        store.close()

    asyncio.run(main())


def test_one_can_go_back_to_what_an_earlier_rollback_left_behind(cp: hf.SyncCheckpointer) -> None:
    """A fork from there, and whoever resumes there, must find the entries that led to it."""
    first, second = cp.save("run", {"n": 1}, step="a"), cp.save("run", {"n": 2}, step="b")
    cp.rollback("run", seq=first.seq)
    cp.save("run", {"n": 3}, step="c")
    cp.rollback("run", seq=second.seq)
    trail = cp.core.journals.trail("run")
    assert [entry.step for entry in trail if entry.kind == "checkpoint"] == ["a", "b"]
