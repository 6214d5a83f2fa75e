"""Opening a run: the store is asked for its head only where it may have one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.holding.here import running_here
from holdfast.engine.run.loop import Run
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


def test_all_openings_of_a_flow_say_what_is_their_own() -> None:
    engine = hf.Engine("memory://")
    for number in (1, 2):
        engine.run_sync(double(number), run_id=f"r{number}", labels={"number": str(number)})
    said = [_meta(engine, f"r{number}") for number in (1, 2)]
    assert [one["labels"] for one in said] == [{"number": "1"}, {"number": "2"}]
    assert said[0]["structure"] == said[1]["structure"]
    assert said[0]["flow_version"] == said[1]["flow_version"] == "1"
    for name in ("birth", "inputs_hash"):
        assert said[0][name] != said[1][name]


def _meta(engine: hf.Engine, run: str) -> dict[str, Any]:
    opening = engine.checkpointer.core.journals.opening(run)
    assert opening is not None
    said: dict[str, Any] = json.loads(opening.meta)
    return said


def _running(engine: hf.Engine) -> Run:
    found = running_here(engine.checkpointer.core, "r")
    assert found is not None
    return found


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_is_over_leaves_nothing_to_the_garbage_collector(fails: bool) -> None:
    runs: list[weakref.ref[Run]] = []

    @workflow
    async def flow() -> int:
        runs.append(weakref.ref(_running(engine)))
        return 1 // (not fails)

    engine = hf.Engine("memory://")
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(ZeroDivisionError):
            engine.run_sync(flow(), run_id="r")
        left = [run() for run in runs]
    finally:
        gc.enable()
    assert left == [None]


def test_a_run_that_has_just_ended_may_be_asked_to_stop() -> None:
    runs: list[Run] = []

    @workflow
    async def flow() -> int:
        runs.append(_running(engine))
        return 1

    engine = hf.Engine("memory://")
    assert engine.run_sync(flow(), run_id="r") == 1
    for action in ("pause", "cancel", "timeout"):
        runs[-1].ask(action)
    runs[-1].ring()
    assert runs[-1].saved


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
