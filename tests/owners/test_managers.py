"""A manager that is bound to an owner knows the owner's tasks only; two owners may use one alias."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack
from holdfast.manager import CheckpointManager
from tests.owners.conftest import Two, in_memory
from tests.owners.world import ALIAS, TYPE, Asked, told

Call = Callable[[CheckpointManager, Asked], Any]

PACK = EvidencePack([Evidence("artifact_exists", "a file", {"path": "file.txt"})])

CALLS: dict[str, list[Call]] = {
    "get_checkpoint": [
        lambda manager, of: manager.get_checkpoint(f"{of.task}@2"),
        lambda manager, of: manager.get_checkpoint(ALIAS),
    ],
    "get_last_verified_checkpoint": [
        lambda manager, of: manager.get_last_verified_checkpoint(of.task)
    ],
    "list_checkpoints": [lambda manager, of: manager.list_checkpoints(of.task)],
    "resume_or_start": [lambda manager, of: manager.resume_or_start(of.task)],
    "steps_in_flight": [
        lambda manager, of: manager.steps_in_flight(),
        lambda manager, of: manager.steps_in_flight(of.task),
    ],
    "verify_checkpoint": [
        lambda manager, of: manager.verify_checkpoint(f"{of.task}@2"),
        lambda manager, of: manager.verify_checkpoint(ALIAS),
    ],
    "verify_with_workers": [
        lambda manager, of: (manager.verify_with_workers(f"{of.task}@2", within=0.01), of.canary)
    ],
    "begin_step": [lambda manager, of: manager.begin_step(of.task, TYPE, {"mine": 1})],
    "commit_step": [
        lambda manager, of: manager.commit_step(of.begun, PACK),
        lambda manager, of: manager.commit_step(of.begun, PACK, ALIAS),
    ],
    "rollback_to_checkpoint": [lambda manager, of: manager.rollback_to_checkpoint(f"{of.task}@2")],
    "abandon_step": [lambda manager, of: manager.abandon_step(of.begun)],
    "delete_checkpoint": [
        lambda manager, of: manager.delete_checkpoint(f"{of.task}@2"),
        lambda manager, of: manager.delete_checkpoint(ALIAS),
    ],
    "checkpointer": [],
    "close": [],
}


def test_every_method_is_tried() -> None:
    assert {name for name in dir(CheckpointManager) if not name.startswith("_")} == CALLS.keys()


def noticed(two: Two, owner: str | None, name: str) -> bool:
    before = two.untouched()
    for call in CALLS[name]:
        bob = Asked(two.bob)
        with CheckpointManager(two.store, owner=owner, base_path=two.files) as manager:
            text = told(lambda: call(manager, bob))  # noqa: B023
        if two.bob.among(text, bob.named) or two.untouched() != before:
            return True
    return False


def test_no_method_tells_or_changes_anything_of_another_owner(two: Two) -> None:
    assert [name for name in CALLS if noticed(two, "ann", name)] == []
    with CheckpointManager(two.store, owner="bob", base_path=two.files) as manager:
        found = manager.get_checkpoint(ALIAS)
        assert found is not None
        assert found.task_id == two.bob.task


def test_the_same_calls_without_a_binding_are_noticed(tmp_path: Path) -> None:
    tried = [name for name in CALLS if CALLS[name]]
    assert [name for name in tried if not noticed(in_memory(tmp_path), None, name)] == []


def test_an_alias_leads_each_owner_to_its_own_checkpoint(two: Two) -> None:
    for owned in (two.ann, two.bob):
        with CheckpointManager(two.store, owner=owned.owner, base_path=two.files) as manager:
            found = manager.get_checkpoint(ALIAS)
            assert found is not None
            assert found.state == {"words": owned.words}


def test_an_alias_that_was_given_without_a_binding_is_found_with_it(tmp_path: Path) -> None:
    two = in_memory(tmp_path)
    with hf.SyncCheckpointer(two.store) as cp, CheckpointManager(cp) as manager:
        for owned in (two.ann, two.bob):
            step = manager.begin_step(owned.task, TYPE, {"words": owned.words})
            manager.commit_step(step, PACK, f"of-{owned.owner}")
    with CheckpointManager(two.store, owner="ann") as manager:
        assert manager.get_checkpoint("of-bob") is None
        found = manager.get_checkpoint("of-ann")
        assert found is not None
        assert found.state == {"words": two.ann.words}


def test_what_is_opened_with_a_bound_checkpointer_is_bound(tmp_path: Path) -> None:
    two = in_memory(tmp_path)
    with hf.SyncCheckpointer(two.store, owner="ann") as cp:
        with CheckpointManager(cp) as manager, hf.Engine(cp) as engine:
            assert manager.checkpointer.owner == engine.checkpointer.owner == "ann"
        assert hf.SyncCheckpointer(cp.store).owner == "ann"
        for opening in (
            lambda: hf.SyncCheckpointer(cp.store, owner="bob"),
            lambda: CheckpointManager(cp, owner="bob"),
            lambda: hf.Engine(cp, owner="bob").checkpointer,
        ):
            with pytest.raises(hf.BoundOwnerError):
                opening()
    with hf.SyncCheckpointer(two.store) as cp, pytest.raises(ValueError, match="all owners"):
        CheckpointManager(cp, owner="ann")
