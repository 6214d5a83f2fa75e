"""Deleting checkpoints does not delete the facts that later ones build on."""

from __future__ import annotations

from pathlib import Path

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack
from holdfast.manager import CheckpointManager

from .support import exists, exit_code, step, unchanged


def newest(manager: CheckpointManager) -> object:
    found = manager.get_last_verified_checkpoint("task")
    return None if found is None else found.snapshot_data["n"]


def prune(manager: CheckpointManager, keep: int) -> int:
    cp = manager.checkpointer
    assert isinstance(cp, hf.SyncCheckpointer)
    return cp.prune("task", keep_latest=keep)


def files(manager: CheckpointManager, *names: str) -> None:
    for n, name in enumerate(names):
        Path(name).write_text(name)
        step(manager, {"n": n}, unchanged(name))


def test_what_deleted_checkpoints_claimed_still_counts(manager: CheckpointManager) -> None:
    files(manager, "a", "b", "c", "d")
    assert prune(manager, 2) == 2
    assert newest(manager) == 3
    Path("a").write_text("changed")
    assert newest(manager) is None
    Path("a").write_text("a")
    assert newest(manager) == 3


def test_it_counts_after_one_deletion_after_the_other(manager: CheckpointManager) -> None:
    files(manager, *"abcdef")
    for keep in (5, 3, 2, 1):
        prune(manager, keep)
        assert newest(manager) == 5
    for name in "abcdef":
        Path(name).write_text("changed")
        assert newest(manager) is None
        Path(name).write_text(name)
        assert newest(manager) == 5
    later = step(manager, {"n": 6}, exists("a"))
    assert later.verified
    assert newest(manager) == 6


def test_what_was_replaced_is_not_kept(manager: CheckpointManager) -> None:
    files(manager, "a", "b")
    Path("a").write_text("again")
    step(manager, {"n": 2}, unchanged("a"))
    prune(manager, 1)
    head = manager.checkpointer.core.journals.head("task")
    assert head is not None
    assert '"path":"b"' in head.meta
    assert '"path":"a"' not in head.meta
    assert newest(manager) == 2
    Path("b").unlink()
    assert newest(manager) is None


def test_a_checkpoint_that_is_deleted_between_others_leaves_its_claims_to_the_next(
    manager: CheckpointManager,
) -> None:
    files(manager, "a", "b", "c")
    middle = manager.list_checkpoints("task")[1]
    assert manager.delete_checkpoint(middle.checkpoint_id)
    Path("b").write_text("changed")
    assert newest(manager) == 0, "the one before it does not build on b"


def test_claims_of_what_was_rolled_back_go_with_it(manager: CheckpointManager) -> None:
    files(manager, "a", "b", "c")
    first = manager.list_checkpoints("task")[-1]
    manager.rollback_to_checkpoint(first.checkpoint_id)
    Path("d").touch()
    step(manager, {"n": 9}, exists("d"))
    prune(manager, 1)
    Path("b").unlink()
    assert newest(manager) == 9
    Path("a").unlink()
    assert newest(manager) is None


def test_claims_that_need_their_own_state_go_with_it(manager: CheckpointManager) -> None:
    Path("a").touch()
    step(manager, {"n": 1, "exit_code": 0}, exit_code(0))
    step(manager, {"n": 2}, exists("a"))
    prune(manager, 1)
    assert newest(manager) == 2


def test_what_never_held_is_not_kept(manager: CheckpointManager) -> None:
    Path("a").touch()
    step(manager, {"n": 1}, exists("optional"))
    step(manager, {"n": 2}, exists("a"))
    prune(manager, 1)
    assert newest(manager) == 2


def test_a_fork_of_a_pruned_task_answers_for_what_was_deleted(manager: CheckpointManager) -> None:
    files(manager, "a", "b", "c")
    prune(manager, 1)
    cp = manager.checkpointer
    assert isinstance(cp, hf.SyncCheckpointer)
    cp.fork("task", run_id="fork")
    assert manager.get_last_verified_checkpoint("fork") is not None
    Path("a").write_text("changed")
    assert manager.get_last_verified_checkpoint("fork") is None


def test_partial_packs_stay_partial(manager: CheckpointManager) -> None:
    for name in "abc":
        Path(name).touch()
    claims = [Evidence("artifact_exists", name, {"path": name}) for name in "ab"]
    step(manager, {"n": 1}, EvidencePack(claims, False, True, 1))
    step(manager, {"n": 2}, exists("c"))
    prune(manager, 1)
    Path("a").unlink()
    assert newest(manager) == 2
    Path("b").unlink()
    assert newest(manager) is None
