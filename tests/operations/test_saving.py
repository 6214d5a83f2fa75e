from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing.corpus import HOSTILE_RUN_IDS, INVALID_IDS
from tests.waiting import join


def test_what_was_saved_comes_back_whole(cp: hf.SyncCheckpointer) -> None:
    state = {"items": [1, 2.5, None, True], "when": datetime(2026, 1, 2, tzinfo=UTC), "t": (1, {2})}
    saved = cp.save(
        "run-1",
        state,
        step="fetch",
        step_index=3,
        step_name="Fetch it",
        next_steps=["clean", "load"],
        type=hf.CheckpointType.TOOL_EXECUTED,
        duration=1.5,
        iteration=2,
        metadata={"user": "ann", "since": datetime(2026, 1, 1, tzinfo=UTC)},
        flow="etl",
        flow_version="2.1",
        schema_version=7,
        thread_id="t-1",
        owner="ann",
    )
    loaded = cp.load("run-1")
    assert loaded == saved
    assert loaded.state == state
    assert loaded.checkpoint_id == f"run-1@{loaded.seq}"
    assert (loaded.step, loaded.step_index, loaded.step_name) == ("fetch", 3, "Fetch it")
    assert (loaded.next_steps, loaded.type) == (("clean", "load"), "tool_executed")
    assert (loaded.duration, loaded.iteration, loaded.schema_version) == (1.5, 2, 7)
    assert loaded.metadata == {"user": "ann", "since": datetime(2026, 1, 1, tzinfo=UTC)}
    assert (loaded.flow, loaded.flow_version) == ("etl", "2.1")
    assert (loaded.thread_id, loaded.owner, loaded.status) == ("t-1", "ann", "completed")
    assert abs(loaded.created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert loaded.get_state_size() > 0


def test_each_save_is_a_checkpoint_built_on_the_one_before(cp: hf.SyncCheckpointer) -> None:
    first, second = cp.save("run", 1), cp.save("run", 2)
    assert first.parent_id is None
    assert second.parent_id == first.checkpoint_id
    assert second.seq == first.seq + 1


def test_nothing_is_shared_with_the_callers_objects(cp: hf.SyncCheckpointer) -> None:
    state: dict[str, Any] = {"items": [1]}
    saved = cp.save("run", state)
    state["items"].append(2)
    saved.state["items"].append(3)
    loaded = cp.load("run")
    assert loaded is not None
    loaded.state["items"].append(4)
    again = cp.load("run")
    assert again is not None
    assert again.state == {"items": [1]}


def test_a_run_id_is_made_when_none_is_given(cp: hf.SyncCheckpointer) -> None:
    ids = [cp.save(None, n).run_id for n in range(20)]
    assert len(set(ids)) == 20
    assert [run[:10] for run in ids] == sorted(run[:10] for run in ids), "they sort by time"


def test_any_valid_id_is_kept_apart_from_all_others(cp: hf.SyncCheckpointer) -> None:
    saved = {run_id: cp.save(run_id, {"mine": run_id}) for run_id in HOSTILE_RUN_IDS}
    for run_id, checkpoint in saved.items():
        loaded = cp.load(run_id, checkpoint_id=checkpoint.checkpoint_id)
        assert loaded is not None, run_id
        assert loaded.state == {"mine": run_id}
    assert sorted(run.run_id for run in cp.iter_runs()) == sorted(HOSTILE_RUN_IDS)


def test_an_id_no_store_could_keep_is_refused_by_name(cp: hf.SyncCheckpointer) -> None:
    for run_id in INVALID_IDS:
        with pytest.raises(hf.InvalidIdError, match="run_id"):
            cp.save(run_id, 1)
        with pytest.raises(ValueError, match="thread_id"):
            cp.save("run", 1, thread_id=run_id)
    assert list(cp.iter_runs()) == []


def test_a_value_that_cannot_be_stored_is_refused_with_the_path_to_it(
    cp: hf.SyncCheckpointer,
) -> None:
    with pytest.raises(
        hf.SerializeError, match=r"state\.items\[1\]\.callback: .*function"
    ) as caught:
        cp.save("run", {"items": [1, {"callback": print}]})
    assert caught.value.path == "state.items[1].callback"
    assert cp.load("run") is None, "nothing was saved"


def test_a_state_beyond_the_limit_is_refused_and_a_large_one_is_warned_about_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with hf.SyncCheckpointer(url, max_state_bytes=2_000_000) as cp:
        with pytest.raises(hf.StateTooLargeError, match="max_state_bytes"):
            cp.save("run", "x" * 2_000_001)
        with caplog.at_level(logging.WARNING, logger="holdfast"):
            cp.save("run", "x" * 1_500_000)
            cp.save("run", "y" * 1_500_000)
    assert [record.message for record in caplog.records if "1.5 MB" in record.message] != []
    assert len(caplog.records) == 1


def test_a_run_belongs_to_one_flow_thread_and_owner(cp: hf.SyncCheckpointer) -> None:
    cp.save("run", 1, flow="etl", thread_id="t", owner="ann")
    assert cp.save("run", 2, owner="ann").flow == "etl"
    for field in ("flow", "thread_id", "owner"):
        with pytest.raises(hf.RunMismatchError, match="'other'"):
            cp.save_many([{"run_id": "run", "state": 3, field: "other"}])
    checkpoint = cp.load("run")
    assert checkpoint is not None
    assert checkpoint.state == 2


def test_an_unknown_status_is_refused(cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(ValueError, match="completed, failed, paused"):
        cp.save("run", 1, status="done")  # type: ignore[arg-type]


def test_expect_refuses_a_save_that_would_overlook_another(cp: hf.SyncCheckpointer) -> None:
    mine = cp.save("run", "mine")
    assert cp.save("run", "next", expect=mine).parent_id == mine.checkpoint_id
    with pytest.raises(hf.ConflictError):
        cp.save("run", "lost", expect=mine)
    assert [c.seq for c in cp.list_checkpoints("run")] == [mine.seq + 1, mine.seq]


def test_expect_refuses_what_another_process_overtook(kept_url: str) -> None:
    with hf.SyncCheckpointer(kept_url) as one, hf.SyncCheckpointer(kept_url) as two:
        mine = one.save("run", "mine")
        two.save("run", "theirs")
        with pytest.raises(hf.ConflictError):
            one.save("run", "lost", expect=mine)


def test_several_checkpointers_may_save_to_one_run(kept_url: str) -> None:
    with hf.SyncCheckpointer(kept_url) as one, hf.SyncCheckpointer(kept_url) as two:
        for n in range(10):
            (one if n % 2 else two).save("run", {"n": n, "pad": "x" * 5000})
        states = [
            checkpoint.state["n"]
            for info in one.list_checkpoints("run", oldest_first=True)
            if (checkpoint := two.load("run", seq=info.seq))
        ]
        assert states == list(range(10))
        assert one.verify("run").ok


def test_threads_that_save_to_one_run_lose_nothing(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp:

        def work(worker: int) -> None:
            for n in range(20):
                cp.save("shared", [worker, n])

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            join(thread)
        infos = cp.list_checkpoints("shared", oldest_first=True)
        states = [c.state for info in infos if (c := cp.load("shared", seq=info.seq))]
        assert sorted(states) == [[worker, n] for worker in range(5) for n in range(20)]
        for worker in range(5):
            assert [n for w, n in states if w == worker] == list(range(20)), "each in its own order"


def test_a_hundred_runs_at_once_are_isolated_from_each_other(url: str) -> None:
    async def main() -> None:
        async with hf.Checkpointer(url) as cp:

            async def one(run: int) -> None:
                for n in range(10):
                    await cp.save(f"run-{run}", {"run": run, "n": n})

            await asyncio.gather(*(one(run) for run in range(100)))
            assert (await cp.stats()).checkpoints == 1000
            for run in range(100):
                loaded = await cp.load(f"run-{run}")
                assert loaded is not None
                assert loaded.state == {"run": run, "n": 9}

    asyncio.run(main())


def test_one_checkpointer_serves_several_event_loops_one_after_another(url: str) -> None:
    cp = hf.Checkpointer(url)

    async def save(n: int) -> int:
        return (await cp.save("run", n)).seq

    seqs = [asyncio.run(save(n)) for n in range(3)]
    assert seqs == [seqs[0], seqs[0] + 1, seqs[0] + 2]
    asyncio.run(cp.close())


def test_a_cancelled_save_is_absent_or_whole_and_the_next_is_clean(url: str) -> None:
    async def main() -> None:
        async with hf.Checkpointer(url) as cp:
            for n in range(50):
                task = asyncio.create_task(cp.save("run", {"n": n, "pad": "x" * 5000}))
                for _ in range(n % 5):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            final = await cp.save("run", "final")
            assert (await cp.verify("run")).ok
            infos = await cp.list_checkpoints("run")
            assert infos[0] == final
            for info in infos[1:]:
                loaded = await cp.load("run", seq=info.seq)
                assert loaded is not None
                assert len(loaded.state["pad"]) == 5000

    asyncio.run(main())


def test_a_batch_saves_each_in_order(cp: hf.SyncCheckpointer) -> None:
    saved = cp.save_many(
        [{"run_id": f"run-{n % 3}", "state": n, "step": f"s{n}"} for n in range(9)]
    )
    assert [checkpoint.state for checkpoint in saved] == list(range(9))
    infos = cp.list_checkpoints("run-1", oldest_first=True)
    assert [info.step for info in infos] == ["s1", "s4", "s7"]
    with pytest.raises(hf.SerializeError):
        cp.save_many([{"run_id": "a", "state": 1}, {"run_id": "b", "state": print}])
    assert cp.load("a") is None


def test_a_save_that_cannot_be_made_says_so_at_its_deadline(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = hf.open_store(path, busy_seconds=0.05)
    with closing(store), hf.SyncCheckpointer(store, deadline=0.3) as cp:
        cp.save("run", 1)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(hf.CheckpointSaveError, match="locked") as caught:
                cp.save("run", 2)
            assert isinstance(caught.value, OSError)
        checkpoint = cp.save("run", 3)
        assert [info.seq for info in cp.list_checkpoints("run")] == [checkpoint.seq, 1]


def test_a_save_is_retried_while_the_store_is_away(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = hf.open_store(path, busy_seconds=0.05)
    with closing(store), hf.SyncCheckpointer(store) as cp:
        cp.save("run", 1)
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            threading.Timer(0.3, lambda: other.execute("ROLLBACK")).start()
            assert cp.save("run", 2).seq == 2


def test_with_warn_the_work_goes_on_and_the_loss_is_visible(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "runs.db"
    store = hf.open_store(path, busy_seconds=0.05)
    with closing(store), hf.SyncCheckpointer(store, deadline=0.1, on_save_failure="warn") as cp:
        cp.save("run", 1)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with caplog.at_level(logging.WARNING, logger="holdfast"):
                lost = cp.save("run", {"n": 2})
        assert not lost.saved
        assert lost.state == {"n": 2}
        assert isinstance(cp.degraded, hf.CheckpointSaveError)
        assert "continues without its checkpoint" in caplog.text
        assert cp.save("run", 3).saved
        assert cp.degraded is None


def test_a_fork_starts_a_new_run_and_leaves_the_old_one_alone(cp: hf.SyncCheckpointer) -> None:
    first = cp.save("run", {"n": 1}, step="a", flow="etl", owner="ann")
    cp.save("run", {"n": 2}, step="b")
    same = cp.fork("run", seq=first.seq)
    edited = cp.fork("run", checkpoint_id=first.checkpoint_id, run_id="edited", state={"n": 10})
    latest = cp.fork("run", run_id="latest", owner="bob")
    assert (same.state, edited.state, latest.state) == ({"n": 1}, {"n": 10}, {"n": 2})
    assert (same.step, same.flow, same.owner, latest.owner) == ("a", "etl", "ann", "bob")
    cp.save("edited", {"n": 11})
    assert [info.step for info in cp.list_checkpoints("run")] == ["b", "a"]
    changes = cp.diff("run", first.checkpoint_id, edited.checkpoint_id).changes
    assert [(change.path, change.old, change.new) for change in changes] == [(("n",), 1, 10)]


def test_a_fork_onto_a_run_that_exists_is_refused(cp: hf.SyncCheckpointer) -> None:
    cp.save("run", 1)
    cp.save("taken", 2)
    with pytest.raises(hf.RunExistsError):
        cp.fork("run", run_id="taken")


def test_forks_rollbacks_and_diffs_of_what_is_absent_are_not_found(cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.fork("nowhere")
    cp.save("run", 1)
    for act in (
        lambda: cp.fork("run", seq=99),
        lambda: cp.rollback("run", seq=99),
        lambda: cp.rollback("nowhere", seq=1),
        lambda: cp.diff("run", 1, 99),
        lambda: cp.delete("run", "run@99"),
        lambda: cp.rollback("run", seq=0),  # an entry, but not a checkpoint
    ):
        with pytest.raises(LookupError):
            act()


def test_going_back_keeps_the_history_and_changes_what_is_current(
    cp: hf.SyncCheckpointer,
) -> None:
    ids = [cp.save("run", {"n": n, "pad": "x" * 5000}, step="s").seq for n in range(5)]
    target = cp.rollback("run", seq=ids[1])
    assert target.state["n"] == 1
    current = cp.load("run")
    assert current == target
    assert cp.load("run", step="s") == target, "the abandoned future is not the newest of a step"
    onward = cp.save("run", {"n": 10, "pad": "x" * 5000}, step="s")
    assert onward.parent_id == target.checkpoint_id
    future = cp.load("run", seq=ids[4])
    assert future is not None
    assert future.state["n"] == 4
    assert cp.rollback("run", seq=ids[4]).state["n"] == 4
    back = cp.load("run")
    assert back is not None
    assert back.state["n"] == 4
    assert [info.seq for info in cp.list_checkpoints("run")] == [onward.seq, *reversed(ids)]


def test_a_thread_knows_its_runs_in_the_order_they_began(cp: hf.SyncCheckpointer) -> None:
    for run in ("zeta", "alpha", "mid"):
        cp.save(run, 1, thread_id="talk")
    cp.save("other", 1)
    cp.save("zeta", 2)
    assert [run.run_id for run in cp.thread("talk")] == ["mid", "alpha", "zeta"]
    assert cp.thread("unknown") == []
    assert [run.run_id for run in cp.runs(thread_id="talk")] == ["mid", "alpha", "zeta"]
