"""What looking for a verified checkpoint reads does not grow with the task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.codec.meta import Meta
from holdfast.manager import CheckpointManager

from .support import exists, step, unchanged


def read(manager: CheckpointManager, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many entries are read to find the newest checkpoint that verifies."""
    store: Any = manager.checkpointer.core.journals.store
    real, count = store.read, 0

    def counting(*args: Any, **options: Any) -> Any:
        nonlocal count
        found = real(*args, **options)
        count += len(found)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(store, "read", counting)
        assert manager.get_last_verified_checkpoint("task") is not None
    return count


def grow(manager: CheckpointManager, to: int) -> None:
    for n in range(len(manager.list_checkpoints("task")), to):
        Path("log").write_text(f"{n}")
        step(manager, {"n": n}, unchanged("log"))


def test_a_long_task_costs_no_more_to_check_than_a_short_one(
    manager: CheckpointManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("config").touch()
    step(manager, {"n": 0}, unchanged("config"))
    grow(manager, 30)
    few = read(manager, monkeypatch)
    grow(manager, 120)
    assert read(manager, monkeypatch) <= few
    Path("config").write_text("changed")
    assert manager.get_last_verified_checkpoint("task") is None, "the first claim still counts"


def test_a_few_that_fail_cost_little(
    manager: CheckpointManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = []
    for length in (30, 120):
        grow(manager, length)
        for n in range(3):
            Path(f"gone {n}").touch()
            step(manager, {"n": n}, exists(f"gone {n}"))
        for n in range(3):
            Path(f"gone {n}").unlink()
        costs.append(read(manager, monkeypatch))
        manager.resume_or_start("task")
        step(manager, {"n": -1}, unchanged("log"))
    assert costs[1] <= costs[0] + 10


def test_another_manager_knows_it_too(kept_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with CheckpointManager(kept_url) as manager:
        grow(manager, 30)
    with CheckpointManager(kept_url) as manager:
        few = read(manager, monkeypatch)
        grow(manager, 120)
        assert read(manager, monkeypatch) <= few


def test_a_task_with_many_facts_names_none_and_is_read_as_a_whole(
    manager: CheckpointManager,
) -> None:
    for n in range(70):
        Path(f"{n}").touch()
        made = step(manager, {"n": n}, exists(f"{n}"))
    assert Meta(made.entry).in_force is None
    assert manager.get_last_verified_checkpoint("task") == made
    Path("3").unlink()
    found = manager.get_last_verified_checkpoint("task")
    assert found is not None
    assert found.snapshot_data == {"n": 2}
