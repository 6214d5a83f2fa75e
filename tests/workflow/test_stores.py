from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents.workflow_results import result_of
from holdfast.events import CheckpointSaved, RunCompleted
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import step, workflow
from tests.waiting import wait_until
from tests.workflow.support import Flow, collect, of


@workflow("one")
def one() -> Flow:
    return (yield step("a").python(lambda: 1))


def test_without_a_store_a_workflow_runs_unchanged() -> None:
    async def main() -> None:
        engine = hf.Engine(store=False)
        events = await collect(engine.stream(one(), run_id="r"))
        assert of(events, RunCompleted)[0].result == 1
        assert not of(events, CheckpointSaved)
        assert await engine.outcome("r") == 1
        await engine.close()

    asyncio.run(main())


def test_the_default_store_is_used_when_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", f"sqlite:///{tmp_path}/default.db")

    async def main() -> None:
        async with hf.Engine() as engine:
            await engine.run(one(), run_id="r")

    asyncio.run(main())
    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/default.db") as cp:
        assert [r.run_id for r in cp.runs()] == ["r"]


def test_whatever_stands_for_a_store_is_taken(tmp_path: Path) -> None:
    async def main() -> None:
        async with hf.Checkpointer(tmp_path / "c.db") as checkpointer:
            with hf.SyncCheckpointer(tmp_path / "s.db") as blocking:
                store = MemoryStore()
                for given in (
                    f"sqlite:///{tmp_path}/u.db", tmp_path / "p.db", f"{tmp_path}/files/",
                    store, checkpointer, blocking,
                ):  # fmt: skip
                    async with hf.Engine(given) as engine:
                        assert await engine.run(one(), run_id="r") == 1
                        assert len(await collect(engine.stream(one(), run_id="s"))) == 5
                assert blocking.load("r") is not None, "what was given stays open"
                assert await checkpointer.load("r") is not None
                assert store.last("r") is not None

    asyncio.run(main())


def test_what_stands_for_no_store_is_refused() -> None:
    for wrong in (3, True, object()):
        with pytest.raises(TypeError, match="a store is given as"):
            asyncio.run(hf.Engine(wrong).run(one()))  # type: ignore[arg-type]


def test_an_engine_that_is_dropped_leaves_nothing_open(tmp_path: Path) -> None:
    """An open connection that is collected is a ResourceWarning, and warnings are errors here."""
    before = _threads_of_engines()
    for n in range(5):
        engine = hf.Engine(f"sqlite:///{tmp_path}/runs.db")
        engine.run_sync(one(), run_id=f"r{n}")
        del engine
        gc.collect()
    wait_until(lambda: _threads_of_engines() <= before)


def _threads_of_engines() -> set[threading.Thread]:
    """Not those that beat: a process has them once, for all its engines."""
    once = {"holdfast-beat", "holdfast-lease"}
    names = (t for t in threading.enumerate() if t.name.startswith("holdfast"))
    return {thread for thread in names if thread.name not in once}


def test_closing_twice_is_fine_and_using_it_then_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        for runs in (0, 1):
            engine = hf.Engine(tmp_path / "runs.db")
            for _ in range(runs):
                await engine.run(one())
            await engine.close()
            await engine.close()
            with pytest.raises(hf.StoreClosedError):
                await engine.run(one())

    asyncio.run(main())


def test_runs_belong_to_a_thread_and_an_owner(store: hf.Store) -> None:
    hf.Engine(store).run_sync(one(), run_id="r", thread_id="t", owner="ann")
    with hf.SyncCheckpointer(store) as cp:
        (run,) = cp.runs(thread_id="t")
        assert (run.run_id, run.owner, run.flow) == ("r", "ann", "one")


def test_a_result_says_what_became_of_each_step(store: hf.Store) -> None:
    engine = hf.Engine(store)
    asyncio.run(engine.run(one(), run_id="r"))
    result: Any = result_of(engine.checkpointer.core, "r")
    assert (result.workflow_id, result.workflow_name, result.status) == ("r", "one", "completed")
    (only,) = result.steps
    told = only.to_dict()
    assert told.pop("duration_ms") >= 0
    assert told == {
        "name": "a", "step_type": "python", "success": True, "output": 1, "error": None,
    }  # fmt: skip
