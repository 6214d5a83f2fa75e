from __future__ import annotations

import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack, Policy, file_evidence
from holdfast.evidence.trust.storing import MAX_EVIDENCE
from holdfast.manager import CheckpointManager, CheckpointType, TaskCheckpoint
from holdfast.stores.memory import MemoryStore
from holdfast.testing.corpus import HOSTILE_RUN_IDS, INVALID_IDS
from tests.waiting import join

from .support import exists, numbers, step


def test_a_step_is_begun_and_committed_with_evidence(manager: CheckpointManager) -> None:
    Path("run.log").touch()
    before = manager.begin_step("task", "tool_executed", {"n": 1}, "item-7", {"who": "me"})
    checkpoint = manager.commit_step(before, exists("run.log"))
    assert checkpoint.task_id == checkpoint.run_id == "task"
    assert checkpoint.work_item_id == "item-7"
    assert checkpoint.checkpoint_type == "tool_executed"
    assert checkpoint.sequence_number == checkpoint.seq
    assert checkpoint.snapshot_data == {"n": 1}
    assert checkpoint.metadata == {"who": "me"}
    assert checkpoint.verified
    assert checkpoint.last_verified_at is not None
    assert checkpoint.last_verified_at - checkpoint.created_at < timedelta(minutes=1)
    assert checkpoint.evidence_pack is not None
    assert checkpoint.evidence_pack.verification_summary()["is_verified"]
    again = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert again is not None
    assert again.to_dict() == checkpoint.to_dict()


def test_the_snapshot_is_copied_when_the_step_begins(manager: CheckpointManager) -> None:
    Path("a").touch()
    state: dict[str, Any] = {"n": 1, "list": [1]}
    step_id = manager.begin_step("task", "iteration_start", state)
    state["list"].append(2)
    assert manager.commit_step(step_id, exists("a")).snapshot_data == {"n": 1, "list": [1]}


def test_a_begun_step_is_no_checkpoint_and_moves_nothing(manager: CheckpointManager) -> None:
    Path("a").touch()
    first = step(manager, {"n": 1}, exists("a"))
    step_id = manager.begin_step("task", "iteration_start", {"n": 2})
    assert numbers(manager.list_checkpoints("task")) == [1]
    assert manager.get_checkpoint(step_id) is None
    assert manager.get_last_verified_checkpoint("task") == first
    with pytest.raises(hf.CheckpointNotFoundError):
        manager.verify_checkpoint(step_id)
    assert manager.delete_checkpoint(step_id) is False


def test_steps_are_in_flight_until_they_are_committed(manager: CheckpointManager) -> None:
    Path("a").touch()
    one = manager.begin_step("task", "iteration_start", {"n": 1}, "item", {"who": "me"})
    two = manager.begin_step("task", "iteration_end", {"n": 2})
    other = manager.begin_step("other", "iteration_end", {"n": 3})
    assert [found.step_id for found in manager.steps_in_flight("task")] == [one, two]
    assert [found.step_id for found in manager.steps_in_flight()] == [other, one, two]
    found = manager.steps_in_flight("task")[0]
    assert (found.task_id, found.checkpoint_type, found.work_item_id) == (
        "task",
        "iteration_start",
        "item",
    )
    assert (found.snapshot, found.metadata) == ({"n": 1}, {"who": "me"})
    manager.commit_step(two, exists("a"))
    assert [found.step_id for found in manager.steps_in_flight("task")] == [one]
    manager.commit_step(one, exists("a"))
    assert manager.steps_in_flight("task") == []
    assert numbers(manager.list_checkpoints("task")) == [1, 2], "in the order of their commits"


def test_a_step_that_is_abandoned_is_not_in_flight_and_never_committed(
    manager: CheckpointManager,
) -> None:
    Path("a").touch()
    first = step(manager, {"n": 0}, exists("a"))
    leftover = manager.begin_step("task", "iteration_end", {"n": 1})
    mine = manager.begin_step("task", "iteration_end", {"n": 2})
    manager.abandon_step(leftover)
    entries = len(manager.checkpointer.store.read("task"))
    manager.abandon_step(leftover)
    assert len(manager.checkpointer.store.read("task")) == entries, "once is enough"
    assert [found.step_id for found in manager.steps_in_flight()] == [mine]
    for name in (None, "mine"):
        with pytest.raises(hf.StepConflictError, match="it was abandoned"):
            manager.commit_step(leftover, exists("a"), name)
    assert manager.get_last_verified_checkpoint("task") == first, "it moves nothing"
    told = hf.SyncCheckpointer(manager.checkpointer.store).timeline("task")
    assert [one.note for one in told if one.kind == "cancel"] == ["only a step that was begun"]
    done = manager.commit_step(mine, exists("a"), "mine")
    with pytest.raises(hf.StepConflictError, match=f"committed as task@{done.seq}"):
        manager.abandon_step(mine)
    with pytest.raises(hf.StepNotFoundError):
        manager.abandon_step(done.checkpoint_id)
    assert manager.steps_in_flight() == []


def test_abandoning_what_was_left_behind_does_nothing(manager: CheckpointManager) -> None:
    Path("a").touch()
    first = step(manager, {"n": 0}, exists("a"))
    behind = manager.begin_step("task", "iteration_end", {"n": 1})
    manager.rollback_to_checkpoint(first.checkpoint_id)
    manager.begin_step("task", "iteration_end", {"n": 2})
    entries = len(manager.checkpointer.store.read("task"))
    manager.abandon_step(behind)
    assert len(manager.checkpointer.store.read("task")) == entries


def test_a_step_that_is_abandoned_does_not_keep_a_deleted_task(manager: CheckpointManager) -> None:
    checkpoint = step(manager, {"n": 1}, exists("a"))
    manager.abandon_step(manager.begin_step("task", "iteration_end", {"n": 2}))
    assert manager.delete_checkpoint(checkpoint.checkpoint_id)
    assert [e.kind for e in manager.checkpointer.store.read("task")] == ["tombstone"]


def test_a_step_is_committed_once(manager: CheckpointManager) -> None:
    Path("a").touch()
    step_id = manager.begin_step("task", "iteration_end", {"n": 1})
    first = manager.commit_step(step_id, exists("a"))
    step(manager, {"n": 2}, exists("a"))
    assert manager.commit_step(step_id, exists("a")) == first
    assert numbers(manager.list_checkpoints("task")) == [2, 1]
    with pytest.raises(hf.StepConflictError, match="other evidence"):
        manager.commit_step(step_id, exists("a", "b"))
    partial = exists("a", require_all=False, allow_partial=True, min_verified=1)
    with pytest.raises(hf.StepConflictError, match="other evidence"):
        manager.commit_step(step_id, partial)
    assert numbers(manager.list_checkpoints("task")) == [2, 1]


def test_another_manager_commits_what_one_began(kept_url: str) -> None:
    Path("a").touch()
    with CheckpointManager(kept_url) as one, CheckpointManager(kept_url) as two:
        step_id = one.begin_step("task", "iteration_end", {"n": 1})
        checkpoint = two.commit_step(step_id, exists("a"))
        assert one.get_checkpoint(checkpoint.checkpoint_id) == checkpoint
        assert one.commit_step(step_id, exists("a")) == checkpoint


@pytest.mark.parametrize(
    "hostile",
    ["", "x", "task", "task@", "@3", "task@-1", "task@1e9", "task@99", "task@" + "9" * 30, "a\nb@1",
     "../../x@1", "task@0", "x" * 10_000 + "@1", "';--@1", "\x1fverdict\x1ftask@0", None, 7],
)  # fmt: skip
def test_what_is_no_step_is_said_so(manager: CheckpointManager, hostile: Any) -> None:
    manager.begin_step("task", "iteration_end", {"n": 1})
    with pytest.raises(hf.StepNotFoundError, match="was begun; pass what begin_step returned"):
        manager.commit_step(hostile, exists("a"))


def test_a_checkpoint_is_no_step(manager: CheckpointManager) -> None:
    checkpoint = step(manager, {"n": 1}, exists("a"))
    with pytest.raises(hf.StepNotFoundError):
        manager.commit_step(checkpoint.checkpoint_id, exists("a"))


def test_tasks_have_any_id(manager: CheckpointManager) -> None:
    Path("a").touch()
    made = {task: step(manager, {"n": task}, exists("a"), task=task) for task in HOSTILE_RUN_IDS}
    for task, checkpoint in made.items():
        assert manager.get_last_verified_checkpoint(task) == checkpoint
        assert manager.rollback_to_checkpoint(checkpoint.checkpoint_id) == {"n": task}


def test_ids_that_no_store_can_keep_are_refused(manager: CheckpointManager) -> None:
    wrong: list[Any] = [*INVALID_IDS, None]
    for task in wrong:
        with pytest.raises(hf.InvalidIdError):
            manager.begin_step(task, "iteration_end", {})
        with pytest.raises(hf.InvalidIdError):
            manager.get_last_verified_checkpoint(task)


def test_only_the_eight_types_are_taken(manager: CheckpointManager) -> None:
    for kind in CheckpointType:
        step(manager, {"n": kind.value}, exists("a"), kind=kind)
    for call in (
        lambda: manager.begin_step("task", "iteration", {}),
        lambda: manager.list_checkpoints("task", checkpoint_type="iteration"),
        lambda: manager.get_last_verified_checkpoint("task", "iteration"),
    ):
        with pytest.raises(ValueError, match=r"iteration_start, iteration_end, .*error_boundary"):
            call()
    found = manager.list_checkpoints("task", checkpoint_type="llm_response")
    assert numbers(found) == ["llm_response"]
    assert len(manager.list_checkpoints("task")) == len(CheckpointType)
    assert len(manager.list_checkpoints("task", limit=3)) == 3
    assert manager.list_checkpoints("task", limit=0) == []
    with pytest.raises(ValueError, match="limit must be an int of 0 or more"):
        manager.list_checkpoints("task", limit=-1)
    assert manager.list_checkpoints("nobody") == []


def test_checkpoints_are_found_by_their_work_item(manager: CheckpointManager) -> None:
    Path("a").touch()
    for n in range(4):
        step(manager, {"n": n}, exists("a"), work_item_id=f"item-{n % 2}")
    assert numbers(manager.list_checkpoints("task", work_item_id="item-0")) == [2, 0]
    assert numbers(manager.list_checkpoints("task", 1, work_item_id="item-0")) == [2]
    found = manager.get_last_verified_checkpoint("task", work_item_id="item-0")
    assert found is not None
    assert found.snapshot_data == {"n": 2}


@pytest.mark.parametrize("snapshot", [None, [1], "text", 7])
def test_a_snapshot_is_a_dict(manager: CheckpointManager, snapshot: Any) -> None:
    with pytest.raises(TypeError, match="snapshot must be a dict"):
        manager.begin_step("task", "iteration_end", snapshot)


def test_what_cannot_be_stored_is_refused_when_the_step_begins(manager: CheckpointManager) -> None:
    with pytest.raises(hf.SerializeError, match=r"snapshot\['f'\]|snapshot\.f"):
        manager.begin_step("task", "iteration_end", {"f": print})
    with pytest.raises(TypeError, match="metadata must be"):
        manager.begin_step("task", "iteration_end", {}, metadata=[1])  # type: ignore[arg-type]
    assert manager.steps_in_flight("task") == []


def test_packs_that_could_never_be_verified_are_refused(manager: CheckpointManager) -> None:
    step_id = manager.begin_step("task", "iteration_end", {"n": 1})
    with pytest.raises(hf.EvidencePolicyError):
        manager.commit_step(step_id, exists("../outside"))
    for host in ("localhost", "db.LOCALHOST."):
        local = Evidence("network_reachable", "it is up", {"host": host, "port": 80})
        with pytest.raises(hf.EvidencePolicyError, match="no public address"):
            manager.commit_step(step_id, EvidencePack([local]))
    with pytest.raises(hf.InvalidEvidenceError):
        manager.commit_step(step_id, EvidencePack([Evidence("no_such_type", "?", {})]))
    with pytest.raises(TypeError, match="EvidencePack"):
        manager.commit_step(step_id, [])  # type: ignore[arg-type]
    large = exists(*(f"{'long' * 250}{n}" for n in range(MAX_EVIDENCE // 1000)))
    with pytest.raises(hf.InvalidEvidenceError, match="characters, more than"):
        manager.commit_step(step_id, large)
    assert [found.step_id for found in manager.steps_in_flight("task")] == [step_id]


def test_a_policy_keeps_evidence_inside_its_roots(url: str, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "a").touch()
    for options in (
        {"base_path": tmp_path / "inside"},
        {"policy": Policy(roots=(tmp_path / "inside",))},
    ):
        with CheckpointManager(url, **options) as manager:
            assert step(manager, {"n": 1}, exists("a")).verified
            step_id = manager.begin_step("task", "iteration_end", {})
            with pytest.raises(hf.EvidencePolicyError):
                manager.commit_step(step_id, exists("/etc/passwd"))


def test_a_commit_that_does_not_verify_is_logged(
    tmp_path: Path, workplace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as a digest that was taken in the working directory, and is looked for in base_path."""
    base = tmp_path / "base"
    base.mkdir()
    (base / "a").write_text("the one that is meant")
    (workplace / "a").write_text("another")
    with CheckpointManager("memory://", policy=Policy(base_path=base)) as manager:
        assert not step(manager, {}, EvidencePack([file_evidence("a")])).verified
        assert "task@2 is committed, but verification failed: a has 21 bytes" in caplog.text
        caplog.clear()
        meant = file_evidence("a", policy=manager.verifier.policy)
        assert step(manager, {}, EvidencePack([meant])).verified
        manager.auto_verify = False
        step(manager, {}, exists("gone"))
    assert caplog.text == ""


def test_a_type_of_ones_own_sees_the_snapshot(manager: CheckpointManager) -> None:
    manager.verifier.register_check(
        "small", lambda claim, context: (context.snapshot or {})["n"] < claim.expected["limit"]
    )
    pack = EvidencePack([Evidence("small", "n is small", {"limit": 2}, {"subject": "n"})])
    one, two = step(manager, {"n": 1}, pack), step(manager, {"n": 2}, pack)
    assert (one.verified, two.verified) == (True, False)
    assert manager.get_last_verified_checkpoint("task") == one


def test_a_flows_run_is_not_a_task(manager: CheckpointManager) -> None:
    core = manager.checkpointer.core
    hf.SyncCheckpointer(core.journals.store).save("flow", {"n": 1}, flow="etl")
    with pytest.raises(hf.RunMismatchError):
        manager.begin_step("flow", "iteration_end", {})


def test_a_name_of_ones_own(manager: CheckpointManager) -> None:
    Path("a").touch()
    step_id = manager.begin_step("task", "iteration_end", {"n": 1})
    checkpoint = manager.commit_step(step_id, exists("a"), checkpoint_id="before the storm")
    assert checkpoint.checkpoint_id == checkpoint.alias == "before the storm"
    assert manager.get_checkpoint("before the storm") == checkpoint
    assert manager.get_checkpoint(f"task@{checkpoint.seq}") == checkpoint
    assert manager.verify_checkpoint("before the storm")
    assert manager.rollback_to_checkpoint("before the storm") == {"n": 1}
    assert manager.list_checkpoints("task")[0].checkpoint_id == "before the storm"
    assert manager.commit_step(step_id, exists("a")) == checkpoint
    assert manager.commit_step(step_id, exists("a"), "before the storm") == checkpoint
    with pytest.raises(hf.StepConflictError, match="another name"):
        manager.commit_step(step_id, exists("a"), "after it")
    assert manager.get_checkpoint("after it") is None
    other = manager.begin_step("other", "iteration_end", {"n": 2})
    with pytest.raises(hf.StepConflictError, match="belongs to"):
        manager.commit_step(other, exists("a"), "before the storm")
    assert manager.delete_checkpoint("before the storm")
    assert manager.get_checkpoint("before the storm") is None
    with pytest.raises(hf.CheckpointNotFoundError, match="before the storm"):
        manager.rollback_to_checkpoint("before the storm")
    again = manager.commit_step(other, exists("a"), "before the storm")
    assert manager.get_checkpoint("before the storm") == again


@pytest.mark.parametrize("name", ["task@3", "", "a\x1fb", "x" * 600])
def test_names_that_are_none(manager: CheckpointManager, name: str) -> None:
    step_id = manager.begin_step("task", "iteration_end", {})
    with pytest.raises(hf.InvalidIdError):
        manager.commit_step(step_id, exists("a"), name)
    assert len(manager.steps_in_flight()) == 1


def test_names_go_where_the_run_goes(manager: CheckpointManager, tmp_path: Path) -> None:
    Path("a").touch()
    step_id = manager.begin_step("task", "iteration_end", {"n": 1})
    manager.commit_step(step_id, exists("a"), "mine")
    source = hf.SyncCheckpointer(manager.checkpointer.store)
    source.export_run("task", tmp_path / "task.jsonl")
    for fill in (
        lambda store: source.copy_to(store),
        lambda store: hf.SyncCheckpointer(store).import_run(tmp_path / "task.jsonl"),
    ):
        store = MemoryStore()
        fill(store)
        there = CheckpointManager(store).get_checkpoint("mine")
        assert there is not None
        assert there.snapshot_data == {"n": 1}
        assert there.verified, "verdicts went, too"


def test_a_fork_takes_the_claims_and_neither_name_nor_step(manager: CheckpointManager) -> None:
    Path("a").touch()
    step_id = manager.begin_step("task", "iteration_end", {"n": 1})
    origin = manager.commit_step(step_id, exists("a"), "mine")
    hf.SyncCheckpointer(manager.checkpointer.store).fork("task", seq=origin.seq, run_id="fork")
    forked = manager.get_last_verified_checkpoint("fork")
    assert forked is not None
    assert forked.alias is None
    assert manager.get_checkpoint("mine") == origin
    manager.begin_step("fork", "iteration_end", {"n": 2})
    assert len(manager.steps_in_flight("fork")) == 1


def test_a_deleted_checkpoint_takes_its_snapshot_with_it(manager: CheckpointManager) -> None:
    Path("a").touch()
    kept = step(manager, {"n": 1}, exists("a"))
    step_id = manager.begin_step("task", "iteration_end", {"n": 2, "secret": "xyzzy"})
    waiting = manager.begin_step("task", "iteration_end", {"n": 3})
    gone = manager.commit_step(step_id, exists("a"))
    assert manager.delete_checkpoint(gone.checkpoint_id)
    assert manager.delete_checkpoint(gone.checkpoint_id) is False
    store = manager.checkpointer.store
    assert all(b"xyzzy" not in entry.body for entry in store.read("task"))
    with pytest.raises(hf.StepNotFoundError):
        manager.commit_step(step_id, exists("a"))
    assert manager.get_last_verified_checkpoint("task") == kept
    assert manager.delete_checkpoint(kept.checkpoint_id)
    assert manager.list_checkpoints("task") == []
    assert manager.commit_step(waiting, exists("a")).snapshot_data == {"n": 3}


def test_the_last_checkpoint_takes_the_task_with_it_if_no_step_waits(
    manager: CheckpointManager,
) -> None:
    checkpoint = step(manager, {"n": 1}, exists("a"))
    assert manager.delete_checkpoint(checkpoint.checkpoint_id)
    assert [e.kind for e in manager.checkpointer.store.read("task")] == ["tombstone"]


def test_a_view_survives_its_json_form_and_its_verdicts_do_not(manager: CheckpointManager) -> None:
    Path("a").touch()
    for name in (None, "mine"):
        step_id = manager.begin_step("task", "iteration_end", {"n": (1, 2)}, "item")
        checkpoint = manager.commit_step(step_id, exists("a"), name)
        form = checkpoint.to_dict()
        assert form["verified"] is True
        assert form["evidence_pack"]["evidence_list"][0]["verified"] is True
        again = TaskCheckpoint.from_dict(form)
        assert again == checkpoint
        assert again.checkpoint_id == checkpoint.checkpoint_id
        assert again.snapshot_data == {"n": (1, 2)}
        assert again.evidence_pack == checkpoint.evidence_pack
        assert again.verified is False, "whoever wrote the file may have written anything"
    for wrong in ({}, {"run_id": "x", "seq": 1}):
        with pytest.raises(ValueError, match="not a checkpoint"):
            TaskCheckpoint.from_dict(wrong)


@pytest.mark.parametrize("option", ["verified", "snapshot_data", "task_id", "evidence_pack"])
def test_a_view_is_read_only(manager: CheckpointManager, option: str) -> None:
    checkpoint = step(manager, {"n": 1}, exists("a"))
    with pytest.raises(AttributeError):
        setattr(checkpoint, option, True)


def test_what_a_manager_can_be_opened_on(tmp_path: Path) -> None:
    store = MemoryStore()
    sync, waiting = hf.SyncCheckpointer(store), hf.Checkpointer(store)
    for where in (store, sync, waiting):
        with CheckpointManager(where) as manager:
            step(manager, {"n": 1}, exists("a"))
        assert sync.runs(), "what was given is not closed"
    assert len(CheckpointManager(store).list_checkpoints("task")) == 3
    with CheckpointManager(db_path=tmp_path / "new" / "odd name?.registry") as manager:
        step(manager, {"n": 1}, exists("a"))
    assert (tmp_path / "new" / "odd name?.registry").is_file()
    with pytest.raises(TypeError, match="not both"):
        CheckpointManager("memory://", db_path="x.db")
    with pytest.raises(TypeError, match="not both"):
        CheckpointManager("memory://", base_path=".", verifier=hf.EvidenceVerifier())
    with pytest.raises(hf.StoreURLError):
        CheckpointManager(db_path=":memory:")
    manager = CheckpointManager("memory://")
    manager.close()
    manager.close()
    with pytest.raises(hf.StoreClosedError):
        manager.begin_step("task", "iteration_end", {})


def test_it_is_imported_lazily() -> None:
    assert hf.CheckpointManager is CheckpointManager
    assert "holdfast.manager" in sys.modules


def test_threads_share_a_manager(manager: CheckpointManager) -> None:
    Path("a").touch()

    def work(thread: int) -> None:
        for n in range(8):
            step(manager, {"n": f"{thread}.{n}"}, exists("a"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    found = manager.list_checkpoints("task")
    assert sorted(numbers(found)) == sorted(f"{t}.{n}" for t in range(4) for n in range(8))
    assert len({checkpoint.sequence_number for checkpoint in found}) == 32
    assert all(checkpoint.verified for checkpoint in found)
