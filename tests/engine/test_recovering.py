"""Runs whose worker died are found and finished, and no others."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.meta import HOLDER, dump_meta
from holdfast.engine.holding import process
from holdfast.engine.holding.lease import Holder
from holdfast.engine.holding.process import Identity, this_process
from holdfast.engine.people import requests
from holdfast.engine.resume import recovery
from holdfast.engine.resume.activity import activity_of
from holdfast.engine.resume.recovery import Orphan
from holdfast.events import StepStarted
from holdfast.graph import END, Graph
from holdfast.kernel import processes
from holdfast.kernel.appending import append
from holdfast.kernel.draft import Draft
from holdfast.model import STORE_JOURNAL, Entry, Kind, process_journal
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import ask, step, workflow
from tests import forks
from tests.faults import FakeClock
from tests.holders import dying
from tests.waiting import bounded, exit_code
from tests.workflow.support import stop_at

PROGRAM = """
import asyncio, sys
import holdfast as hf
from tests.engine.test_recovering import STUCK, app, parent, slow

async def main(url, kind):
    STUCK.append(True)
    engine = hf.Engine(url)
    if kind == "graph":
        await app.run({"n": 0}, store=url, run_id="g")
    elif kind == "parent":
        await engine.run(parent(), run_id="p")
    else:
        await asyncio.gather(*(engine.run(slow(n=n), run_id=f"r{n}") for n in range(3)))

asyncio.run(main(*sys.argv[1:]))
"""
STUCK: list[bool] = []  # set in the process that is to be killed
ROOT = Path(__file__).parents[2]


async def get_stuck(n: int) -> int:
    if STUCK:
        print("stuck", flush=True)
        await asyncio.sleep(600)
    return n * 10


@workflow("slow")
def slow(n: int):  # type: ignore[no-untyped-def]
    first = yield step("first").python(lambda: n + 1).inline()
    return (yield step("second").python(get_stuck, args=(first,)))


@workflow("parent")
def parent():  # type: ignore[no-untyped-def]
    return (yield step("child").subworkflow(slow, n=4))


@workflow("waits")
def waits():  # type: ignore[no-untyped-def]
    return (yield ask("Go on?"))


async def node(state: dict[str, int]) -> dict[str, int]:
    return {"n": await get_stuck(1)}


app = Graph(dict).add_node("a", node).add_edge("a", END).set_entry("a").compile(name="app")


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))  # type: ignore[arg-type]

    return run


class Stuck:
    """A process that got stuck in its steps."""

    def __init__(self, url: str, kind: str = "runs", lines: int = 1) -> None:
        self.process = forks.start("-c", PROGRAM, url, kind, cwd=ROOT, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        with bounded(self.process):
            for _ in range(lines):
                assert self.process.stdout.readline() == "stuck\n"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


@in_loop
async def test_the_runs_of_a_dead_process_are_finished_and_those_of_a_living_one_left_alone(
    url: str,
) -> None:
    worker = Stuck(url, lines=3)
    async with hf.Engine(url) as engine:
        assert await engine.orphans() == [], "it is alive, however silent"
        assert await engine.recover(slow) == {}
        worker.kill()
        found = await engine.orphans()
        assert [one.run_id for one in found] == ["r0", "r1", "r2"]
        assert {one.holder for one in found} == {f"{this_process().host}:{worker.process.pid}"}
        assert await engine.recover(slow) == {"r0": 10, "r1": 20, "r2": 30}
        assert await engine.orphans() == []


@pytest.mark.parametrize("by", ["recover", "a worker"])
@in_loop
async def test_a_run_that_was_asked_to_pause_before_its_process_died_stays_paused(
    url: str, by: str
) -> None:
    died = Stuck(url, lines=3)
    async with hf.Engine(url) as engine:
        await engine.pause("r1", reason="let me look")
        died.kill()
        if by == "recover":
            came = await engine.recover(slow)
            assert isinstance(came.pop("r1"), hf.RunPausedError)
            assert came == {"r0": 10, "r2": 30}
        else:
            await engine.work(slow, until_idle=True)
        assert [await engine.status(f"r{n}") for n in range(3)] == [
            "completed",
            "paused",
            "completed",
        ]
        assert await engine.recover(slow) == {}
        assert await engine.resume("r1") == 20


@in_loop
async def test_who_takes_over_a_run_that_was_asked_to_pause_learns_that_it_is_paused(
    url: str,
) -> None:
    died = Stuck(url)
    async with hf.Engine(url) as engine:
        await engine.pause("r0")
        died.kill()
        with pytest.raises(hf.RunPausedError):
            await engine._launcher.resume(
                engine.checkpointer.core, "r0", slow, {"wait": False}, in_worker=True
            )
        assert await engine.status("r0") == hf.Status.PAUSED


@in_loop
async def test_a_run_that_was_asked_to_pause_can_be_asked_to_go_on_before_anybody_sees_it(
    url: str,
) -> None:
    died = Stuck(url, lines=3)
    async with hf.Engine(url) as engine:
        await engine.pause("r1")
        died.kill()
        assert await engine.submit_resume("r1") is True
        assert await engine.submit_resume("r1") is False, "a worker continues it already"
        assert await engine.recover(slow) == {"r0": 10, "r1": 20, "r2": 30}


@in_loop
async def test_a_graph_that_was_asked_to_pause_before_its_process_died_stays_paused(
    url: str,
) -> None:
    died = Stuck(url, "graph")
    async with hf.Engine(url) as engine:
        await engine.pause("g")
        died.kill()
        (paused,) = (await app.recover(store=url)).values()
        assert isinstance(paused, hf.RunPausedError)
        assert await engine.status("g") == hf.Status.PAUSED


@in_loop
async def test_a_graph_is_recovered(url: str) -> None:
    Stuck(url, "graph").kill()
    assert await app.recover(store=url) == {"g": {"n": 10}}


@in_loop
async def test_a_run_within_is_its_parents_matter(url: str) -> None:
    Stuck(url, "parent").kill()
    async with hf.Engine(url) as engine:
        assert [one.run_id for one in await engine.orphans()] == ["p"]
        assert await engine.recover(slow, parent) == {"p": 50}


@in_loop
async def test_runs_of_other_flows_are_left_alone(url: str) -> None:
    Stuck(url, lines=3).kill()
    async with hf.Engine(url) as engine:
        assert await engine.recover(parent) == {}
        assert len(await engine.orphans()) == 3


@in_loop
async def test_a_failure_is_what_a_run_came_to(url: str) -> None:
    Stuck(url, lines=3).kill()

    @workflow("slow")
    def breaks(n: int):  # type: ignore[no-untyped-def]
        yield step("first").python(lambda: n + 1)
        raise ValueError(f"no {n}")

    async with hf.Engine(url) as engine:
        came = await engine.recover(breaks)
        assert sorted(map(repr, came.values())) == [f"ValueError('no {n}')" for n in range(3)]


@in_loop
async def test_paused_and_completed_runs_are_no_orphans_until_an_answer_comes(url: str) -> None:
    async with hf.Engine(url) as engine:
        await engine.run(slow(n=1), run_id="done")
        with pytest.raises(hf.RunPausedError):
            await engine.run(waits(), run_id="w")
        assert await engine.orphans() == []
        await engine.answer("w", "yes")
        assert await engine.recover(waits) == {"w": "yes"}


@in_loop
async def test_an_answered_child_run_that_was_claimed_and_left_since_is_continued() -> None:
    """Whoever claims it may have lost its parent by then, and gives it back."""

    @workflow
    async def child() -> bool:
        return await ask("Continue?", returns=bool)

    @workflow
    async def waiting() -> bool:
        return await child()

    async with hf.Engine("memory://", flows=[waiting, child]) as engine:
        with pytest.raises(hf.RunPausedError):
            await engine.run(waiting(), run_id="p")
        await engine.answer("p//child", True)
        core = engine.checkpointer.core
        left = Draft(Kind.RELEASE.value, "running", meta='{"due":0}')
        await core.drive_async(append(core, "p//child", left))
        assert await engine.recover() == {"p": True}


@in_loop
async def test_a_process_of_another_machine_is_dead_when_its_slot_stands_still(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Stuck(url, lines=3).kill()
    monkeypatch.setattr(Identity, "lives", lambda *_: None)
    clock = FakeClock(time.time_ns() // 1000)
    async with hf.Engine(hf.Checkpointer(url, clock=clock)) as engine:
        for _ in range(4):
            assert await engine.orphans() == [], "it may be alive"
            clock.advance(9)
        assert len(await engine.orphans()) == 3


@in_loop
async def test_a_gap_between_two_looks_starts_the_count_anew(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Stuck(url, lines=3).kill()
    monkeypatch.setattr(Identity, "lives", lambda *_: None)
    clock = FakeClock(time.time_ns() // 1000)
    async with hf.Engine(hf.Checkpointer(url, clock=clock)) as engine:
        for _ in range(10):
            assert await engine.orphans() == [], "nobody knows what happened in between"
            clock.advance(11)


@in_loop
async def test_a_run_that_this_process_let_go_is_an_orphan_and_one_it_carries_out_is_none(
    url: str,
) -> None:
    async with hf.Engine(url) as engine:
        stream = engine.stream(slow(n=1), run_id="r")
        async for event in stream:
            if getattr(event, "step", None) == "first":
                assert await engine.orphans() == []
                break
        await stream.aclose()
        assert [one.run_id for one in await engine.orphans()] == ["r"]


def _put(engine: hf.Engine, run_id: str, draft: Draft) -> None:
    engine.checkpointer.core.drive(append(engine.checkpointer.core, run_id, draft))


@in_loop
async def test_a_damaged_run_does_not_keep_others_from_being_recovered(url: str) -> None:
    Stuck(url, lines=3).kill()
    long = f"0|n|host|{this_process().place}|{'9' * 5000}|start"
    async with hf.Engine(url) as engine:
        _put(engine, "r0", Draft(Kind.CLAIM.value, "running", meta="[]"))
        _put(engine, "r1", Draft(Kind.CLAIM.value, "running", meta=dump_meta({HOLDER: long})))
        found = await engine.recover(slow)
        damaged = found.pop("r0")
        assert isinstance(damaged, hf.CheckpointCorruptedError)
        assert "metadata" in str(damaged)
        assert found == {"r1": 20, "r2": 30}


class Watched(MemoryStore):
    """Looks for orphans as soon as something is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = hf.Engine(self)
        self.orphans: list[Orphan] = []

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        written = super().append(entries, behind)
        self.orphans += recovery.orphans(self.engine.checkpointer.core)
        return written


def test_a_run_that_is_just_being_started_is_no_orphan() -> None:
    store = Watched()
    assert asyncio.run(store.engine.run(slow(n=1), run_id="r")) == 20
    assert store.orphans == []


@in_loop
async def test_deadlines_of_other_flows_are_left_alone(url: str) -> None:
    clock = FakeClock()

    @workflow("hurries")
    def hurries():  # type: ignore[no-untyped-def]
        return (yield ask("Now?", deadline=60, default="no"))

    async with hf.Engine(hf.Checkpointer(url, clock=clock)) as engine:
        with pytest.raises(hf.RunPausedError):
            await engine.run(hurries(), run_id="h")
        clock.advance(100)
        assert await engine.recover(slow) == {}
        assert len([q async for q in engine.questions("h")]) == 1
        assert await engine.recover(hurries) == {"h": "no"}


@in_loop
async def test_deadlines_that_can_not_be_looked_at_do_not_stop_recovering(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Stuck(url, lines=3).kill()

    def fail(*_: object, **__: object) -> None:
        raise hf.CheckpointLoadError("*", "no route to host")

    async with hf.Engine(url) as engine:
        monkeypatch.setattr(requests, "all_open", fail)
        assert await engine.recover(slow) == {"r0": 10, "r1": 20, "r2": 30}


def test_the_worker_of_a_copied_run_is_gone_and_looking_at_the_copy_writes_nothing(
    tmp_path: Path,
) -> None:
    with (
        hf.SyncCheckpointer(f"sqlite:///{tmp_path}/old.db") as old,
        hf.SyncCheckpointer(f"sqlite:///{tmp_path}/new.db") as new,
    ):
        with dying(old.core):
            asyncio.run(stop_at(hf.Engine(old).stream(slow(n=1), run_id="r"), StepStarted))
            old.copy_to(new.store)
        copied = new.run("r")
        assert copied is not None
        assert activity_of(new.core, copied).orphaned
        assert [new.store.last(own) for own in (STORE_JOURNAL, process_journal(0))] == [None, None]
        assert hf.Engine(new).recover_sync(slow) == {"r": 20}


def test_processes_of_one_machine_are_in_one_place_where_it_does_not_say_when_it_booted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on macOS and BSD, where all that is known of a process is when it started."""
    monkeypatch.setattr(processes, "_BOOT", Path("/nowhere"))
    monkeypatch.setattr(process, "start_of", lambda pid: f"Mon Jan  5 09:00:{pid % 60:02} 2026")
    mine, other = (process._process.__wrapped__(pid) for pid in (1234, 1235))
    assert mine.start != other.start
    assert mine.place == other.place


def test_a_process_of_which_the_system_says_nothing_may_be_alive_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(pid: int) -> str:
        raise PermissionError("hidepid")

    me = this_process()
    assert me._replace(start="").lives(me.place) is None
    monkeypatch.setattr(process, "start_of", fail)
    assert me.lives(me.place) is None


def test_a_process_that_exists_and_is_not_shown_may_be_alive_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hidden(path: Path) -> bytes:
        raise FileNotFoundError(path)

    me = this_process()
    gone = me._replace(pid=2**22 + 1)
    monkeypatch.setattr(Path, "read_bytes", hidden)
    assert me.lives(me.place) is None
    assert gone.lives(me.place) is False


def test_a_holder_is_read_as_it_was_written_and_nothing_else_is_one() -> None:
    me = this_process()
    holder = Holder(3, "abc", me)
    assert Holder.parse(str(holder)) == holder
    assert me.lives(me.place)
    assert me._replace(start="another").lives(me.place) is False
    assert me.lives("elsewhere") is None
    long = "9" * 5000
    for text in (
        None,
        "",
        "a|b",
        "1|n|a|b|c|d",
        "1|n|a|b|-1|d",
        "x|n|a|b|1|d",
        f"1|n|a|b|{long}|d",
    ):
        assert Holder.parse(text) is None


def test_a_child_of_fork_is_a_process_of_its_own() -> None:
    mine = this_process()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, str(Holder(0, "n", this_process())).encode())
        os._exit(0)
    assert exit_code(child) == 0
    other = Holder.parse(os.read(reading, 1000).decode())
    assert other is not None
    assert (other.process.pid, other.process.place) == (child, mine.place)
    assert other.process.lives(mine.place) is False
