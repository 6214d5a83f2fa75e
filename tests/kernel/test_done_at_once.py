"""Saves that wait for nothing are done when they are called."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.errors import StoreUnavailableError
from holdfast.kernel.core import Core, Done, Op
from holdfast.operations import saving
from holdfast.stores.memory import MemoryStore


def test_a_save_behind_a_known_head_in_memory_is_done_at_once() -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        cp.save("run", {"n": 1})
        op = saving.save(cp.core, "run", {"n": 2})
        assert type(op) is Done
        assert op.result.state == {"n": 2}
        found = cp.load("run")
        assert found is not None
        assert found.seq == op.result.seq


def test_an_operation_that_is_done_gives_its_result_to_whoever_drives_it() -> None:
    def twice(core: Core) -> Op[list[int]]:
        first = yield from saving.save(core, "run", {"n": 2})
        second = yield from saving.save(core, "run", {"n": 3})
        return [first.seq, second.seq]

    with hf.SyncCheckpointer("memory://") as cp:
        cp.save("run", {"n": 1})
        assert cp.core.drive(twice(cp.core)) == [2, 3]
        assert asyncio.run(cp.core.drive_async(twice(cp.core))) == [4, 5]
        assert asyncio.run(cp.core.drive_async(saving.save(cp.core, "run", {}))).seq == 6


def test_a_save_that_lost_its_place_in_memory_is_repeated_behind_the_new_head() -> None:
    store = MemoryStore()
    with hf.SyncCheckpointer(store) as one, hf.SyncCheckpointer(store) as other:
        one.save("run", {"by": "one"})
        other.save("run", {"by": "other"})
        assert one.save("run", {"by": "one"}).seq == 3  # it took 2 for free
        assert [c.seq for c in one.list_checkpoints("run")] == [3, 2, 1]


def test_retention_and_backlogs_are_not_passed_by() -> None:
    with hf.SyncCheckpointer("memory://", retention=hf.Retention(keep_latest=2)) as cp:
        for n in range(70):
            cp.save("run", {"n": n})
        assert len(cp.list_checkpoints("run", limit=100)) < 20
    with hf.SyncCheckpointer("memory://", durability="async") as cp:
        cp.save("run", {"n": 1})
        assert type(saving.save(cp.core, "run", {"n": 2})) is not Done


def test_a_store_in_memory_that_fails_leaves_the_run_usable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        cp.save("run", {"n": 1})
        with monkeypatch.context() as patch:

            def fail(*_: object) -> list[bool]:
                raise StoreUnavailableError("gone")

            patch.setattr(cp.store, "append", fail)
            with pytest.raises(StoreUnavailableError):
                cp.save("run", {"n": 2})
        assert cp.save("run", {"n": 3}).seq == 2
