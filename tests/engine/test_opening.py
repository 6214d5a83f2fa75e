"""Opening a run: the store is asked for its head only where it may have one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import InvalidIdError, RunExistsError
from holdfast.model import Entry
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import workflow


class Counting(MemoryStore):
    """Counts how often a run is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_of: list[str] = []

    def read(self, run: str, **which: Any) -> list[Entry]:
        self.read_of.append(run)
        return super().read(run, **which)


@workflow
async def double(x: int) -> int:
    return 2 * x


def test_a_new_run_is_opened_and_executed_without_a_read() -> None:
    store = Counting()
    engine = hf.Engine(store)
    assert engine.run_sync(double(1), run_id="first") == 2
    store.read_of.clear()
    assert engine.run_sync(double(2), run_id="second") == 4
    assert store.read_of == []


@pytest.mark.parametrize("deleted", [False, True])
def test_a_run_that_another_process_opened_is_found_all_the_same(
    tmp_path: Path, deleted: bool
) -> None:
    engine = hf.Engine(tmp_path / "runs.db")
    assert engine.run_sync(double(1), run_id="warm") == 2
    with hf.SyncCheckpointer(tmp_path / "runs.db") as other:  # knows what the engine does not
        other.save("run", {"theirs": True})
        if deleted:
            other.clear("run")
            assert engine.run_sync(double(2), run_id="run") == 4
        else:
            with pytest.raises(RunExistsError):
                engine.run_sync(double(2), run_id="run")
            found = other.load("run")
            assert found is not None
            assert found.state == {"theirs": True}
        assert other.verify("run").ok
    engine.close_sync()


def test_of_many_that_open_a_run_at_once_one_does(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        async with hf.Engine(tmp_path / "runs.db") as one, hf.Engine(tmp_path / "runs.db") as two:
            await asyncio.gather(one.run(double(0)), two.run(double(0)))
            tries = [engine.run(double(3), run_id="run") for engine in (one, two, one, two)]
            return await asyncio.gather(*tries, return_exceptions=True)

    found = asyncio.run(main())
    assert found.count(6) == 1
    assert sum(isinstance(one, RunExistsError) for one in found) == 3


def test_a_run_that_exists_is_not_listed_in_another_thread() -> None:
    store = MemoryStore()
    engine = hf.Engine(store)
    engine.run_sync(double(1), run_id="run")
    with hf.SyncCheckpointer(store) as cp:
        for _ in range(2):  # known here, and then not
            with pytest.raises(RunExistsError):
                engine.run_sync(double(1), run_id="run", thread_id="chat")
            engine = hf.Engine(store)
        assert list(cp.thread("chat")) == []


def test_the_id_of_a_child_run_is_refused_for_others() -> None:
    engine = hf.Engine("memory://")
    engine.run_sync(double(1))
    with pytest.raises(InvalidIdError, match="child runs"):
        engine.run_sync(double(1), run_id="parent//step")
