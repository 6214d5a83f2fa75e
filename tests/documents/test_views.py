"""What the views of all documents have in common."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents import flowgraph, iamodules, maverick
from holdfast.documents.views import CheckpointerView
from holdfast.graph import END, Graph
from holdfast.kernel.branches import BranchReader
from holdfast.model import Entry
from holdfast.pipeline import Pipeline
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import step, workflow
from tests.holders import as_another_process, dying

Start = Callable[[Any, Any], Awaitable[object]]
Clear = Callable[[Any], Awaitable[object]]


async def in_maverick(view: Any, hang: Any) -> object:
    @workflow("flow")
    def flow() -> Generator[Any, Any, None]:
        yield step("first").python(lambda: 1)
        yield step("hangs").python(hang, args=(None,))

    async for _ in maverick.WorkflowEngine(view).execute(flow, workflow_id="it"):
        pass
    return None


async def in_flowgraph(view: Any, hang: Any) -> object:
    graph = Graph(dict).add_node("first", lambda state: {"n": 1}).add_node("hangs", hang)
    graph.add_edge("first", "hangs").add_edge("hangs", END).set_entry("first")
    return await graph.compile().run({}, store=view, run_id="it")


async def in_iamodules(view: Any, hang: Any) -> object:
    steps = [{"id": "first", "function": lambda data: 1}, {"id": "hangs", "function": hang}]
    paths = [{"from": "first", "to": "hangs"}, {"from": "hangs", "to": "end"}]
    pipeline = Pipeline(steps, {"start_at": "first", "paths": paths}, checkpointer=view)
    return await pipeline.run({}, "it")


VIEWS: dict[str, tuple[type[CheckpointerView], Start, Clear]] = {
    "maverick": (maverick.StoreView, in_maverick, lambda view: view.clear("it")),
    "flowgraph": (flowgraph.CheckpointStore, in_flowgraph, lambda view: view.delete_run("it")),
    "iamodules": (
        iamodules.BaseCheckpointer, in_iamodules, lambda view: view.clear_all_checkpoints("it"),
    ),
}  # fmt: skip


async def hang(_: object) -> object:
    await asyncio.sleep(3600)
    return None


async def left_by_its_process(start: Start, view: CheckpointerView, runs: hf.Checkpointer) -> None:
    """Begin a run, and end in its second step."""
    task = asyncio.ensure_future(start(view, hang))
    while True:
        found = [info async for info in runs.iter_runs()]
        if found and await runs.list_checkpoints(found[0].run_id):
            break
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("document", VIEWS)
def test_a_run_whose_process_died_can_be_cleared(document: str, tmp_path: Path) -> None:
    kind, start, clear = VIEWS[document]

    async def scenario() -> None:
        runs = hf.Checkpointer(tmp_path / "runs.db")
        view = kind(runs)
        with dying(runs.core):
            await left_by_its_process(start, view, runs)
        (run,) = [info async for info in runs.iter_runs()]
        assert run.status == "running"
        await clear(view)
        assert [info async for info in runs.iter_runs()] == []
        await runs.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("document", VIEWS)
def test_a_run_that_a_living_process_executes_is_not_cleared(document: str, tmp_path: Path) -> None:
    kind, start, clear = VIEWS[document]

    async def scenario() -> None:
        theirs = hf.Checkpointer(tmp_path / "runs.db")
        ours = hf.Checkpointer(tmp_path / "runs.db")
        as_another_process(theirs.core)

        async def meanwhile(_: object) -> object:
            with pytest.raises(hf.RunActiveError, match=r"executed by .*force=True"):
                await clear(kind(ours))
            return {}

        await start(kind(theirs), meanwhile)
        await clear(kind(ours))
        await theirs.close()
        await ours.close()

    asyncio.run(scenario())


# --- subclasses


@pytest.mark.parametrize(
    ("base", "method"),
    [
        (iamodules.BaseCheckpointer, "save_checkpoint"),
        (iamodules.SQLCheckpointer, "load_checkpoint"),
        (maverick.StoreView, "save"),
        (flowgraph.SQLiteStore, "save"),
    ],
)
def test_a_subclass_that_saves_in_its_own_way_is_refused_by_flows_and_never_ignored(
    base: type, method: str, tmp_path: Path
) -> None:
    async def own(self: object, *args: object, **options: object) -> str:
        return "mine"

    mine = type("Mine", (base,), {method: own})(tmp_path / "runs.db")

    async def scenario() -> None:
        assert await getattr(mine, method)("thread") == "mine"  # by hand it may be used
        start = next(start for kind, start, _ in VIEWS.values() if issubclass(base, kind))
        with pytest.raises(TypeError, match=rf"Mine has its own {method}, .*write a Store"):
            await start(mine, hang)

    asyncio.run(scenario())


def test_a_subclass_that_only_adds_to_a_view_is_used() -> None:
    class Mine(iamodules.BaseCheckpointer):
        def __init__(self) -> None:
            super().__init__(MemoryStore())

        async def newest(self, thread: str) -> str | None:
            found = await self.load_checkpoint(thread)
            return None if found is None else found.step_id

    async def scenario() -> None:
        async with Mine() as mine:
            steps = [{"id": "only", "function": lambda data: 1}]
            flow = {"start_at": "only", "paths": [{"from": "only", "to": "end"}]}
            await Pipeline(steps, flow, checkpointer=mine).run({}, "thread")
            assert await mine.newest("thread") == "only"

    asyncio.run(scenario())


# --- times


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Lima"])
def test_naive_times_are_local_and_any_may_be_given(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        ends = [datetime.min, datetime.max]
        for moment in ends:
            data = maverick.CheckpointData("a", "b", "c", (), moment)
            assert maverick.CheckpointData.from_dict(data.to_dict()) == data

        async def scenario() -> None:
            async with iamodules.MemoryCheckpointer() as memory:
                await memory.save_checkpoint("thread", "p", "step", 0, {})
                (saved,) = await memory.list_checkpoints("thread")
                assert saved.timestamp.tzinfo is UTC  # deviation: I18
                now = datetime.now()
                assert abs(now.astimezone() - saved.timestamp) < timedelta(minutes=1)
                for before in (ends[0], now - timedelta(hours=1)):
                    assert await memory.delete_checkpoints("thread", before=before) == 0
                assert await memory.delete_checkpoints("thread", before=ends[1]) == 1

        asyncio.run(scenario())
    finally:
        monkeypatch.undo()
        time.tzset()


LOADS: dict[str, Callable[[Any], Awaitable[object]]] = {
    "maverick": lambda view: view.load_latest("it"),
    "iamodules": lambda view: view.load_checkpoint("it"),
}


@pytest.mark.parametrize("document", LOADS)
def test_a_run_that_is_deleted_while_it_is_loaded_is_not_damaged(
    document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one that expires between two reads."""
    kind, start, _ = VIEWS[document]
    real = BranchReader.checked_head

    async def scenario() -> None:
        runs = hf.Checkpointer(MemoryStore())
        view = kind(runs)
        with dying(runs.core):
            await left_by_its_process(start, view, runs)

        def then_deleted(self: BranchReader, run: str) -> Entry | None:
            head = real(self, run)
            monkeypatch.setattr(BranchReader, "checked_head", real)
            hf.SyncCheckpointer(runs.store).clear(run, force=True)
            return head

        monkeypatch.setattr(BranchReader, "checked_head", then_deleted)
        assert await LOADS[document](view) is None
        await runs.close()

    asyncio.run(scenario())
