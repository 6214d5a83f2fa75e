"""Requests and answers that arrive while a run is about to stop: whoever goes on claims it again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.meta import dump_meta
from holdfast.engine.run import execute
from holdfast.events import RunCancelled
from holdfast.kernel.appending import append_if
from holdfast.kernel.draft import Draft
from holdfast.model import FROM_OUTSIDE, Entry, Kind
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.workflow import Retry, Workflow, ask, parallel, sleep, step, workflow
from tests import forks
from tests.engine.test_recovering import in_loop
from tests.waiting import wait_until

RUN = "r"
Meddle = Callable[..., None]


@step(with_rollback=lambda n: None)
def book(n: int) -> int:
    return n


@workflow
async def trip() -> int:
    await book(1)
    await sleep(3600)
    return await book(2)


@workflow
async def approved() -> bool:
    yes, _ = await parallel(ask("Go?", returns=bool, name="go"), book(1))
    return bool(yes)


@step
def note(n: int) -> int:
    return n


@workflow
async def parent_of_nap() -> int:
    await short_nap()
    return await note(3)


@workflow
async def nap() -> int:
    await note(1)
    await sleep(3600)
    return await note(2)


@workflow
async def short_nap() -> int:
    await sleep(1)
    return await note(2)


@workflow
async def asked() -> bool:
    yes, _ = await parallel(ask("Go?", returns=bool, name="go"), note(1))
    return bool(yes)


@workflow
async def asked_alone() -> bool:
    return await ask("Go?", returns=bool, name="go")


@workflow
async def asked_later(path: str) -> bool:
    await wait_for(path)
    yes: bool = await ask("Go?", returns=bool, name="go")
    return yes


@step
async def linger() -> None:
    await asyncio.sleep(3600)


@workflow
async def approved_and_long() -> None:
    await parallel(ask("Go?", returns=bool, name="go"), book(1))
    await linger()


@step
async def wait_for(path: str) -> None:
    while not Path(path).exists():
        await asyncio.sleep(0.02)


@workflow
async def waiting(path: str) -> None:
    await wait_for(path)


@workflow
async def held(path: str) -> int:
    await wait_for(path)
    return await note(7)


@workflow
async def parent(path: str) -> None:
    await waiting(path)


@workflow
async def grandparent(path: str) -> None:
    await parent(path)


@workflow
async def parent_of_approved() -> bool:
    return await approved()


begun: list[str] = []


@step(retry=Retry(2, backoff=1, jitter=0))
async def fails_once() -> str:
    begun.append("again" if begun else "first")
    if len(begun) == 1:
        raise OSError("not yet")
    return "done"


@workflow
async def retried(ask_too: bool) -> str:
    if not ask_too:
        return await fails_once()
    done, _ = await parallel(fails_once(), ask("Go?", returns=bool, name="go"))
    return str(done)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def before_the_pause(monkeypatch: pytest.MonkeyPatch, path: Path) -> Meddle:
    """Lets another process do something just before this one records that the run pauses."""
    append = SQLiteStore.append
    words: list[str] = []

    def meddled(
        self: SQLiteStore, entries: Sequence[Entry], behind: Behind = ANY_HEAD
    ) -> list[bool]:
        if words and any(entry.status == "paused" and entry.run in words for entry in entries):
            command = ("-m", "holdfast", *words, "--store", str(path))
            words.clear()
            forks.run(*command, check=True, capture_output=True)
        return append(self, entries, behind)

    monkeypatch.setattr(SQLiteStore, "append", meddled)
    return lambda *given: words.extend(given)


@pytest.fixture
def after_the_pause(monkeypatch: pytest.MonkeyPatch) -> Callable[..., asyncio.Future[None]]:
    """Lets this process do something once the store has the pause, before the run hears of that."""
    append = SQLiteStore.append
    todo: list[Callable[[], object]] = []

    def held_up(
        self: SQLiteStore, entries: Sequence[Entry], behind: Behind = ANY_HEAD
    ) -> list[bool]:
        done = append(self, entries, behind)
        if todo and any(entry.status == "paused" for entry in entries):
            todo.pop()()
            time.sleep(0.5)  # it looks, and decides
        return done

    def at_the_pause(do: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        async def follow() -> None:
            await do()
            done.set_result(None)

        todo.append(lambda: asyncio.run_coroutine_threadsafe(follow(), loop))
        return done

    monkeypatch.setattr(SQLiteStore, "append", held_up)
    return at_the_pause


def work_and_die_at_the_pause(path: str) -> None:
    """A worker that is killed once the store has the pause, just after somebody asked for one."""
    append = SQLiteStore.append
    words = ["pause", RUN, "--store", path]

    def meddled(
        self: SQLiteStore, entries: Sequence[Entry], behind: Behind = ANY_HEAD
    ) -> list[bool]:
        pauses = any(entry.kind == "pause" for entry in entries)
        if pauses and words:
            subprocess.run([sys.executable, "-m", "holdfast", *words], check=True)
            words.clear()
        done = append(self, entries, behind)
        if pauses and all(done):
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SQLiteStore, "append", meddled)
        patch.setattr(execute, "LEAVE_AFTER", 0.1)
        hf.Engine(path).work_sync(short_nap)


def hold(path: str, go_on: str) -> None:
    """Execute a run that waits for a file, and end as it does."""
    with contextlib.suppress(hf.RunPausedError):
        hf.Engine(path).run_sync(held(go_on), run_id=RUN)


def kinds(path: Path, run: str = RUN) -> list[str]:
    with hf.SyncCheckpointer(path) as cp:
        entries = cp.core.journals.store.read(run)
    own = [entry for entry in entries if entry.kind not in FROM_OUTSIDE]
    return [str(entry.kind) for entry in own]


@in_loop
async def test_a_run_that_is_cancelled_while_it_pauses_is_claimed_before_it_is_undone(
    path: Path, before_the_pause: Meddle
) -> None:
    async with hf.Engine(path) as engine:
        run = asyncio.create_task(engine.run(trip(), run_id=RUN))
        await asyncio.to_thread(wait_until, lambda: "sleep" in kinds(path))
        before_the_pause("cancel", RUN)
        await engine.pause(RUN)
        with pytest.raises(hf.RunCancelledError):
            await run
    told = kinds(path)
    assert told[told.index("pause") + 1 :] == ["claim", "fail", "decision", "cancel"]


@in_loop
async def test_a_run_that_is_answered_while_it_pauses_is_claimed_before_it_completes(
    path: Path, before_the_pause: Meddle
) -> None:
    before_the_pause("answer", RUN, "--with", "yes")
    async with hf.Engine(path) as engine:
        assert await engine.run(approved(), run_id=RUN) is True
    told = kinds(path)
    assert told[told.index("pause") + 1 :] == ["claim", "complete"]


@in_loop
async def test_a_run_that_was_claimed_again_is_released_when_it_is_left(
    path: Path, before_the_pause: Meddle
) -> None:
    before_the_pause("answer", RUN, "--with", "yes")
    async with hf.Engine(path) as engine:
        run = asyncio.create_task(engine.run(approved_and_long(), run_id=RUN))
        await asyncio.to_thread(wait_until, lambda: kinds(path)[-1:] == ["claim"])
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await asyncio.to_thread(wait_until, lambda: kinds(path)[-2:] == ["claim", "release"])


@in_loop
async def test_a_child_run_that_was_cancelled_in_an_outage_does_not_fail_its_parent(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, read, failures = path.with_name("go on"), SQLiteStore.read, iter(range(3))

    def unreachable_at_first(self: SQLiteStore, run: str, **options: Any) -> list[Entry]:
        if run == RUN and go_on.exists() and next(failures, None) is not None:
            raise hf.StoreUnavailableError(self.url, "out of reach")
        return read(self, run, **options)

    async with hf.Engine(path) as engine:
        run = asyncio.create_task(engine.run(parent(str(go_on)), run_id=RUN))
        await asyncio.to_thread(wait_until, lambda: "child" in kinds(path))
        command = ("-m", "holdfast", "cancel", RUN, "--store", str(path))
        await asyncio.to_thread(forks.run, *command, check=True, capture_output=True)
        monkeypatch.setattr(SQLiteStore, "read", unreachable_at_first)
        go_on.touch()
        with pytest.raises(hf.RunCancelledError):
            await run
    assert next(failures, None) is None, "the store was out of reach when it mattered"


@in_loop
async def test_a_child_run_that_is_claimed_again_is_noted_in_its_parent_again(
    path: Path, before_the_pause: Meddle
) -> None:
    child = f"{RUN}//approved"
    before_the_pause("answer", child, "--with", "yes")
    async with hf.Engine(path) as engine:
        assert await engine.run(parent_of_approved(), run_id=RUN) is True
    told = kinds(path, child)
    assert told[told.index("pause") + 1 :] == ["claim", "complete"]
    assert kinds(path).count("child") == 2


@pytest.mark.parametrize("answered", [False, True], ids=["it stops", "it goes on"])
@in_loop
async def test_no_step_begins_while_its_run_is_being_paused_for_a_timer(
    path: Path, before_the_pause: Meddle, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    append, at_the_pause = SQLiteStore.append, list[str]()
    begun.clear()

    def held_up(
        self: SQLiteStore, entries: Sequence[Entry], behind: Behind = ANY_HEAD
    ) -> list[bool]:
        done = append(self, entries, behind)
        if not at_the_pause and any(entry.kind == "pause" for entry in entries):
            time.sleep(2)  # the reply is late, and the step comes due
            at_the_pause.extend(begun)
        return done

    monkeypatch.setattr(SQLiteStore, "append", held_up)
    monkeypatch.setattr(execute, "LEAVE_AFTER", 0.1)
    if answered:
        before_the_pause("answer", RUN, "--with", "yes")
    async with hf.Engine(path) as engine:
        handle = await engine.submit(retried(ask_too=answered), run_id=RUN)
        await engine.work(retried, until_idle=True)
        while await handle.status() != hf.Status.COMPLETED:
            await engine.work(retried, until_idle=True)
    assert at_the_pause == ["first"]
    assert begun == ["first", "again"]


@pytest.mark.parametrize("flow", [trip, nap, asked], ids=["undone", "a nap", "a question"])
@in_loop
async def test_a_run_is_cancelled_that_has_just_paused_in_the_same_process(
    path: Path, after_the_pause: Callable[..., asyncio.Future[None]], flow: Workflow[[], Any]
) -> None:
    async with hf.Engine(path) as engine:
        asked_to = after_the_pause(lambda: engine.cancel(RUN))
        handle = await engine.submit(flow(), run_id=RUN)
        await engine.work(flow, until_idle=True)
        await asked_to
        await engine.work(flow, until_idle=True)
        assert await handle.status() == hf.Status.CANCELLED


@in_loop
async def test_a_run_that_goes_on_hears_that_it_was_cancelled_since_it_paused(
    path: Path,
    before_the_pause: Meddle,
    after_the_pause: Callable[..., asyncio.Future[None]],
) -> None:
    before_the_pause("answer", RUN, "--with", "yes")
    async with hf.Engine(path) as engine:
        asked_to = after_the_pause(lambda: engine.cancel(RUN))
        told = [event async for event in engine.stream(asked(), run_id=RUN)]
        assert isinstance(told[-1], RunCancelled)
        await asked_to
        assert await engine.status(RUN) == hf.Status.CANCELLED


@in_loop
async def test_a_request_to_pause_outlives_a_process_that_dies_as_it_pauses_for_a_timer(
    path: Path,
) -> None:
    async with hf.Engine(path) as engine:
        handle = await engine.submit(short_nap(), run_id=RUN)
        program = f"from {__name__} import *; work_and_die_at_the_pause({str(path)!r})"
        died = await asyncio.to_thread(forks.run, "-c", program, check=False)
        assert died.returncode == -signal.SIGKILL
        assert kinds(path)[-1] == "pause"
        await asyncio.sleep(1)  # it comes due
        await engine.work(short_nap, until_idle=True)
        assert await handle.status() == hf.Status.PAUSED
        assert await engine.resume(RUN) == 2


@pytest.mark.parametrize("flow", [parent_of_nap, asked, asked_alone], ids=lambda flow: flow.name)
@in_loop
async def test_a_request_to_pause_that_comes_as_the_run_stops_for_something_else_is_heard_later(
    path: Path, before_the_pause: Meddle, monkeypatch: pytest.MonkeyPatch, flow: Workflow[[], Any]
) -> None:
    monkeypatch.setattr(execute, "LEAVE_AFTER", 0.1)
    before_the_pause("pause", RUN)
    async with hf.Engine(path) as engine:
        handle = await engine.submit(flow(), run_id=RUN)
        await engine.work(flow, until_idle=True)
        if flow is parent_of_nap:
            await asyncio.sleep(1)  # it comes due
        else:
            await engine.answer(RUN, True)
        await engine.work(flow, until_idle=True)
        assert await handle.status() == hf.Status.PAUSED
        assert await engine.resume(RUN) == (3 if flow is parent_of_nap else True)


@pytest.mark.parametrize("last", [False, True], ids=["during a step", "just before the question"])
@in_loop
async def test_a_request_to_pause_is_heard_though_the_run_stops_for_a_question(
    path: Path, monkeypatch: pytest.MonkeyPatch, last: bool
) -> None:
    go_on, append, asked = path.with_name("go on"), SQLiteStore.append, threading.Event()

    def meddled(
        self: SQLiteStore, entries: Sequence[Entry], behind: Behind = ANY_HEAD
    ) -> list[bool]:
        if last and not asked.is_set() and any(entry.kind == "question" for entry in entries):
            asked.set()
            command = ("-m", "holdfast", "pause", RUN, "--store", str(path))
            forks.run(*command, check=True, capture_output=True)
        return append(self, entries, behind)

    monkeypatch.setattr(SQLiteStore, "append", meddled)
    async with hf.Engine(path) as engine:
        handle = await engine.submit(asked_later(str(go_on)), run_id=RUN)
        worker = asyncio.create_task(engine.work(asked_later, until_idle=True))
        if not last:
            await asyncio.to_thread(wait_until, lambda: "claim" in kinds(path))
            await engine.pause(RUN)
        go_on.touch()
        await worker
        await engine.answer(RUN, True)
        await engine.work(asked_later, until_idle=True)
        assert await handle.status() == hf.Status.PAUSED
        assert await engine.submit_resume(RUN)
        await engine.work(asked_later, until_idle=True)
        assert await handle is True


@in_loop
async def test_a_request_to_pause_is_taken_back_before_a_worker_gets_to_it(
    path: Path, before_the_pause: Meddle
) -> None:
    before_the_pause("pause", RUN)
    async with hf.Engine(path) as engine:
        handle = await engine.submit(asked(), run_id=RUN)
        await engine.work(asked, until_idle=True)
        await engine.answer(RUN, True)
        assert await engine.submit_resume(RUN)
        await engine.work(asked, until_idle=True)
        assert await handle is True


@pytest.mark.parametrize("dies", [False, True], ids=["the holder pauses", "the holder dies first"])
@in_loop
async def test_who_waits_for_a_run_that_is_asked_to_pause_does_not_continue_it(
    path: Path, dies: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "holdfast")
    go_on = path.with_name("go on")
    program = f"from {__name__} import *; hold({str(path)!r}, {str(go_on)!r})"
    with forks.start("-c", program) as holder:
        async with hf.Engine(path) as engine:
            await asyncio.to_thread(wait_until, lambda: path.exists() and "open" in kinds(path))
            waiters = [
                asyncio.create_task(engine.run(held(str(go_on)), run_id=RUN, resume=True)),
                asyncio.create_task(engine.resume(RUN, flow=held, wait=True)),
            ]
            await asyncio.to_thread(wait_until, lambda: caplog.text.count("waiting for it") == 2)
            await engine.pause(RUN)
            if dies:
                holder.kill()
            else:
                go_on.touch()
            for waiter in waiters:
                with pytest.raises(hf.RunPausedError):
                    await waiter
            assert await engine.status(RUN) == hf.Status.PAUSED
            assert kinds(path)[-1] == "pause"
            go_on.touch()
            assert await engine.run(held(str(go_on)), run_id=RUN, resume=True) == 7


@in_loop
async def test_a_process_that_others_hold_for_dead_and_paused_the_run_of_writes_nothing_more(
    path: Path,
) -> None:
    go_on = path.with_name("go on")
    async with hf.Engine(path) as engine:
        run = asyncio.create_task(engine.run(waiting(str(go_on)), run_id=RUN))
        await asyncio.to_thread(wait_until, lambda: "open" in kinds(path))
        with hf.SyncCheckpointer(path) as cp:
            facts = dump_meta({"action": "pause"})
            pause = Draft(Kind.PAUSE.value, hf.Status.PAUSED.value, meta=facts)
            cp.core.drive(append_if(cp.core, RUN, lambda head: [pause]))
        go_on.touch()
        with pytest.raises(hf.LeaseLostError):
            await run
    assert kinds(path) == ["open", "pause"]


@in_loop
async def test_a_child_run_that_another_process_cancelled_with_its_family_has_not_failed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, claimed = SQLiteStore.append, threading.Event()

    def meddled(
        self: SQLiteStore, entries: Sequence[Entry], behind: Behind = ANY_HEAD
    ) -> list[bool]:
        done = append(self, entries, behind)
        if any((e.run, e.kind) == (f"{RUN}//parent", "claim") for e in entries):
            claimed.set()  # and who held the family until now is asked to cancel it, and does
            command = ("-m", "holdfast", "cancel", f"{RUN}//parent//waiting", "--store", str(path))
            forks.run(*command, check=True, capture_output=True)
            asked = Draft(Kind.REQUEST.value, hf.Status.RUNNING.value, meta='{"action":"cancel"}')
            with hf.SyncCheckpointer(path) as other:
                other.core.drive(append_if(other.core, RUN, lambda _: asked))
        return done

    monkeypatch.setattr(SQLiteStore, "append", meddled)
    async with hf.Engine(path) as engine:
        call = grandparent(str(path.with_name("never")))
        left = asyncio.create_task(engine.run(call, run_id=RUN))
        await asyncio.to_thread(
            wait_until, lambda: path.exists() and "open" in kinds(path, f"{RUN}//parent//waiting")
        )
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        with pytest.raises(hf.RunCancelledError):
            await engine.resume(RUN, flow=grandparent)
        assert claimed.is_set()
        for run in (RUN, f"{RUN}//parent", f"{RUN}//parent//waiting"):
            assert await engine.status(run) == hf.Status.CANCELLED
