"""A task is cancelled while the opening entry of its run is on its way to the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.model import Entry, Kind
from holdfast.pipeline import Pipeline
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.workflow import step, workflow
from tests.waiting import ENOUGH


class Slow(SQLiteStore):
    """Takes its time with the first opening entry, until it is told to go on."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if any(entry.kind == Kind.OPEN for entry in entries) and not self.reached.is_set():
            self.reached.set()
            assert self.go_on.wait(ENOUGH)
        return super().append(entries, behind)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    store = Slow(tmp_path / "runs.db")
    yield store
    store.close()


done: list[str] = []


def _act(_: Any = None) -> dict[str, Any]:
    done.append("act")
    return {}


@workflow
async def flow() -> None:
    await step("act").python(_act)


app = (
    Graph(dict, name="graph").add_node("act", _act).add_edge("act", END).set_entry("act").compile()
)
PATHS = [{"from": "act", "to": "end"}]


def _run(store: hf.Store) -> Awaitable[Any]:
    return hf.Engine(store).run(flow(), run_id="run", resume=True)


async def _start(store: hf.Store) -> Any:
    return await (await hf.Engine(store).start(flow(), run_id="run", resume=True))


async def _stream(store: hf.Store) -> None:
    async for _ in hf.Engine(store).stream(flow(), run_id="run", resume=True):
        pass


def _graph(store: hf.Store) -> Awaitable[Any]:
    return app.run({}, store=store, run_id="run", resume=True)


def _pipeline(store: hf.Store) -> Awaitable[Any]:
    steps = [{"id": "act", "function": _act}]
    flow = {"start_at": "act", "paths": PATHS}
    pipeline = Pipeline(steps=steps, flow=flow, checkpointer=store)
    return pipeline.run({}, run_id="run", resume=True)


@pytest.mark.parametrize("execute", [_run, _start, _stream, _graph, _pipeline])
def test_a_run_whose_start_was_cancelled_is_started_or_resumed_by_the_next(
    slow: Slow, execute: Callable[[hf.Store], Awaitable[Any]]
) -> None:
    done.clear()

    async def begin() -> Any:
        return await execute(slow)

    async def main() -> None:
        first = asyncio.create_task(begin())
        await asyncio.to_thread(slow.reached.wait, ENOUGH)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        again = asyncio.create_task(begin())
        for _ in range(1000):  # it may look for the run meanwhile
            await asyncio.sleep(0)
        slow.go_on.set()
        await again

    asyncio.run(main())
    assert done == ["act"]
