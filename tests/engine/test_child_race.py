"""A take-over while the old holder is about to open a child run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import holdfast as hf
from holdfast.engine.holding.here import Process, simulate
from holdfast.model import Entry, Kind
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.workflow import step, workflow
from tests.waiting import ENOUGH


class Watched(SQLiteStore):
    """Calls something before a child run is opened."""

    before_child: Callable[[], object] | None = None

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if self.before_child and any(e.kind == Kind.OPEN and "//" in e.run for e in entries):
            before, self.before_child = self.before_child, None
            before()
        return super().append(entries, behind)


def test_a_child_opened_by_the_old_worker_during_a_take_over_is_no_failure(tmp_path: Path) -> None:
    done: list[str] = []

    @step
    async def act(name: str) -> str:
        done.append(name)
        return name

    @workflow
    async def part() -> str:
        return await act("part")

    @workflow
    async def whole() -> list[str]:
        return [await part(), await act("last")]

    old, new = Watched(tmp_path / "runs.db"), Watched(tmp_path / "runs.db")
    at_child, go, opened = threading.Event(), threading.Event(), threading.Event()

    def old_worker() -> None:
        try:
            asyncio.run(hf.Engine(old).run(whole(), run_id="run", resume=True))
        except hf.HoldfastError as error:
            lost.append(error)
        finally:
            opened.set()

    def hold_back() -> None:
        at_child.set()
        assert go.wait(ENOUGH)

    def let_the_old_one_in() -> None:
        go.set()
        assert opened.wait(ENOUGH)

    lost: list[BaseException] = []
    old.before_child = hold_back
    worker = threading.Thread(target=old_worker)
    worker.start()
    assert at_child.wait(ENOUGH)
    new.before_child = let_the_old_one_in
    engine = hf.Engine(new)
    simulate(engine.checkpointer.core, Process())
    result = asyncio.run(engine.run(whole(), run_id="run", resume=True, take_over=True))
    worker.join()
    assert result == ["part", "last"]
    assert done == ["part", "last"], "and nobody did anything twice"
    assert Kind.FAIL not in [entry.kind for entry in new.read("run")]
    old.close()
    new.close()
