"""Requests and outages that strike at the worst moment: nothing asked for or finished is lost."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents.workflow_results import result_of
from holdfast.engine.holding.here import process_of
from holdfast.engine.people import requests
from holdfast.engine.run.hold import Hold
from holdfast.events import CheckpointSaved, StepCompleted
from holdfast.graph import END, Graph
from holdfast.kernel.draft import Draft
from holdfast.model import Entry, Kind, Status
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.workflow import parallel, step, workflow
from tests.holders import as_another_process
from tests.waiting import exit_code, wait_until
from tests.workflow.support import until


def _ask(url: str, run: str, action: str) -> None:
    """As another process does."""
    with hf.SyncCheckpointer(url) as others:
        as_another_process(others.core)
        others.core.drive(requests.request(others.core, run, action))


def test_a_cancelled_graph_stays_so_when_it_crashes_behind_its_next_checkpoint(
    kept_url: str,
) -> None:
    def first(state: dict[str, Any]) -> dict[str, Any]:
        _ask(kept_url, "run", "cancel")
        return {"first": True}

    def second(state: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("it was cancelled")

    app = (
        Graph(dict).add_node("first", first).add_node("second", second)
        .add_edge("first", "second").add_edge("second", END).set_entry("first").compile()
    )  # fmt: skip

    async def crash() -> None:
        async with app.stream({}, store=kept_url, run_id="run") as events:
            async for event in events:
                if isinstance(event, CheckpointSaved):
                    os._exit(3)

    child = os.fork()
    if not child:
        try:
            asyncio.run(crash())
        finally:
            os._exit(1)
    assert exit_code(child) == 3
    with pytest.raises(hf.RunCancelledError):
        asyncio.run(app.resume("run", store=kept_url))


class Full(SQLiteStore):
    """Takes nothing more of a run once it has been told to."""

    of: str = ""

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if any(entry.run == self.of for entry in entries):
            raise hf.StoreUnavailableError("the disk is full")
        return super().append(entries, behind)


def test_an_outage_in_a_subworkflow_is_no_failure_of_its_step(tmp_path: Path) -> None:
    store = Full(tmp_path / "runs.db")
    done: list[str] = []

    def act(name: str) -> None:
        done.append(name)
        store.of = "run//sub" if done == ["within"] else ""

    @workflow
    def inner() -> Generator[Any, Any, None]:
        yield step("within").python(act, ("within",))
        yield step("more").python(act, ("more",))

    @workflow
    def outer() -> Generator[Any, Any, None]:
        yield step("sub").subworkflow(inner)
        yield step("last").python(act, ("last",))

    engine = hf.Engine(hf.Checkpointer(store, deadline=0.5))
    with pytest.raises(hf.CheckpointSaveError):
        asyncio.run(engine.run(outer(), run_id="run"))
    kinds = [entry.kind for entry in store.read("run")]
    assert Kind.FAIL not in kinds, "nothing is recorded against the step"
    store.of = ""
    asyncio.run(engine.run(outer(), run_id="run", resume=True))
    assert done == ["within", "within", "more", "last"]
    store.close()


def test_a_run_can_be_cancelled_while_it_notes_a_failed_attempt(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    store = hf.open_store(url)
    engine = hf.Engine(store)
    acknowledged: list[str] = []

    async def flaky() -> None:
        _ask(url, "run", "pause")
        raise OSError

    async def quick() -> None:
        return

    @workflow
    def flow() -> Generator[Any, Any, None]:
        yield parallel(step("flaky").python(flaky).retry(3, 0.0), step("quick").python(quick))

    async def scenario() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "read", _Interrupting(store, engine))
            async for event in engine.stream(flow(), run_id="run"):
                if isinstance(event, StepCompleted):
                    acknowledged.append(event.step)

    asyncio.run(scenario())
    recorded = [entry.step for entry in store.read("run") if entry.kind == Kind.RESULT]
    assert acknowledged == recorded
    assert result_of(engine.checkpointer.core, "run").status == "cancelled"
    store.close()


class _Interrupting:
    """Cancels the run while it reads, for the first time, what pushed its entries aside."""

    def __init__(self, store: hf.Store, engine: hf.Engine) -> None:
        self._read = store.read
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._struck = False

    def __call__(self, run: str, **options: Any) -> list[Entry]:
        found = self._read(run, **options)
        if not self._struck and any(entry.kind == Kind.REQUEST for entry in found):
            self._struck = True
            writer = self._engine.checkpointer.core.journals.writer
            asyncio.run_coroutine_threadsafe(self._engine.cancel("run"), self._loop)
            wait_until(lambda: any(one.kind == Kind.REQUEST for one in writer.queued("run")))
        return found


async def _hold(store: hf.Store) -> Hold:
    """The right to append to a new run."""
    checkpointer = hf.Checkpointer(store)
    opening = await checkpointer.save("run", {})
    presence = process_of(checkpointer.core).presence(checkpointer.core)
    return Hold(checkpointer.core, opening.entry, presence, None, {})


def _result(step: str) -> Draft:
    return Draft(Kind.RESULT.value, Status.RUNNING.value, b"\xc0", step=step)


def test_what_waits_to_be_saved_survives_that_its_bearer_is_cancelled(tmp_path: Path) -> None:
    """A result that was not waited for, and lost its place, goes with whatever is next."""
    url = f"sqlite:///{tmp_path}/runs.db"
    store = hf.open_store(url)

    async def scenario() -> None:
        hold = await _hold(store)
        _ask(url, "run", "pause")
        await hold.append([_result("first")], wait=False)
        await until(lambda: all(ticket.done for ticket in hold._flying))  # it lost its place
        with pytest.MonkeyPatch.context() as patch:
            waits = asyncio.Event()

            async def hang(_: object) -> None:
                waits.set()
                await asyncio.Event().wait()

            patch.setattr(hold.core, "off_loop", hang)
            bearer = asyncio.create_task(hold.append([_result("second")]))
            await waits.wait()
            bearer.cancel()
            await asyncio.wait([bearer])
        await hold.append([_result("third")])

    asyncio.run(scenario())
    saved = [entry.step for entry in store.read("run") if entry.kind == Kind.RESULT]
    assert saved == ["first", "second", "third"]
    store.close()


def test_a_step_that_is_cancelled_while_it_is_saved_is_saved_once_and_first(
    tmp_path: Path,
) -> None:
    """Whoever comes next finds it on its way, and waits for it."""
    store = hf.open_store(f"sqlite:///{tmp_path}/runs.db")

    async def scenario() -> list[str | None]:
        hold = await _hold(store)
        may_write, append = threading.Event(), store.append

        def slow(entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
            assert may_write.wait(60)
            return append(entries, behind)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "append", slow)
            first = asyncio.create_task(hold.append([_result("first")]))
            await until(lambda: bool(hold._flying))
            second = asyncio.create_task(hold.append([_result("second")]))
            first.cancel()
            await asyncio.wait([first])
            may_write.set()
            saved = await second
        assert first.cancelled()
        assert not hold._flying
        return [entry.step for entry in saved]

    assert asyncio.run(scenario()) == ["first", "second"]
    recorded = [entry.step for entry in store.read("run") if entry.kind == Kind.RESULT]
    assert recorded == ["first", "second"]
    store.close()


def test_a_step_that_is_saved_before_one_that_waited_longer_reports_both(tmp_path: Path) -> None:
    """The turn is free, but the one that waits for it has not noticed yet."""
    store = hf.open_store(f"sqlite:///{tmp_path}/runs.db")

    async def scenario() -> list[str | None]:
        hold = await _hold(store)
        await hold._turn.acquire()
        waiting = asyncio.create_task(hold.append([_result("second")], wait=False))
        await until(lambda: bool(hold._turn._waiters))
        hold._turn.release()
        saved = await hold.append([_result("first")])
        assert not await waiting
        assert not hold._flying
        return [entry.step for entry in saved]

    assert asyncio.run(scenario()) == ["first", "second"]
    store.close()
