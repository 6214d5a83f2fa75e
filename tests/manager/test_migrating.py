"""Snapshots of older versions, as a manager of a newer program sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.manager import CheckpointManager
from tests.manager.support import exists, step


def in_list(snapshot: dict[str, Any]) -> dict[str, Any]:
    return {"files": [snapshot["file"]]}


def test_a_task_of_an_older_program_is_continued_by_a_newer_one(tmp_path: Path) -> None:
    (tmp_path / "work" / "a").write_text("a")
    url = f"sqlite:///{tmp_path}/runs.db"
    with CheckpointManager(url) as old:
        first = step(old, {"file": "a"}, exists("a"))
    migrations = hf.Migrations(2, {1: in_list})
    with CheckpointManager(url, migrate=migrations) as new:
        assert new.resume_or_start("task") == {"files": ["a"]}
        second = step(new, {"files": ["a", "b"]}, exists("a"))
        assert [c.state for c in new.list_checkpoints("task")] == [
            {"files": ["a", "b"]},
            {"files": ["a"]},
        ]
        assert second.schema_version == 2
        assert new.rollback_to_checkpoint(first.checkpoint_id) == {"files": ["a"]}
        found = new.get_checkpoint(first.checkpoint_id)
        assert found is not None
        assert found.state == {"files": ["a"]}
    with CheckpointManager(url) as old:
        raw = old.get_checkpoint(first.checkpoint_id)
        assert raw is not None
        assert raw.state == {"file": "a"}, "nothing recorded was changed"


def test_a_snapshot_that_can_not_be_migrated_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "work" / "a").write_text("a")
    url = f"sqlite:///{tmp_path}/runs.db"
    with CheckpointManager(url, migrate=hf.Migrations(1)) as old:
        first = step(old, {"other": "a"}, exists("a"))
    with CheckpointManager(url, migrate=hf.Migrations(2, {1: in_list})) as new:
        for call in (
            lambda: new.resume_or_start("task"),
            lambda: new.rollback_to_checkpoint(first.checkpoint_id),
            lambda: new.get_checkpoint(first.checkpoint_id),
        ):
            with pytest.raises(hf.MigrationError, match=rf"{first.checkpoint_id} .*KeyError"):
                call()
        assert len(new.list_checkpoints("task")) == 1, "one that fails does not stop a list"
        assert new.verify_checkpoint(first.checkpoint_id), "that needs no snapshot of ours"
    with pytest.raises(TypeError, match=r"hf\.Migrations"):
        CheckpointManager(url, migrate={1: in_list})  # type: ignore[arg-type]
