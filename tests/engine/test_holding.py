"""Who executes a run: one living process, seen from this machine and from others."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.meta import Meta
from holdfast.engine.holding import slots
from holdfast.engine.holding.here import Process, _watch_lease, process_of, simulate
from holdfast.engine.holding.lease import Lease
from holdfast.engine.holding.presence import Presence
from holdfast.engine.holding.process import Identity, this_process
from holdfast.engine.run import threads
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.tip import Tip
from holdfast.model import Entry, Kind, Status, process_journal
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.workflow import Workflow, ask, parallel, step, workflow
from tests.engine.test_recovering import Stuck, in_loop, slow
from tests.faults import FakeClock
from tests.waiting import PATIENCE, bounded, exit_code, wait_until

FAR = Identity("far", "another boot", 7, "yesterday")


class Gate:
    """A step that waits here shows that it has begun, and goes on when it may."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()

    async def wait(self) -> str:
        self.begun.set()
        await self.open.wait()
        return "done"


GATES: dict[str, Gate] = {}
CALLS: list[str] = []


async def pass_gate(name: str) -> str:
    CALLS.append(name)
    return await GATES[name].wait()


@workflow
async def waiting(name: str) -> str:
    return str(await step("wait").python(pass_gate, args=(name,)))


@workflow
async def busy(name: str) -> str:
    await step("wait").python(pass_gate, args=(name,))
    await step("next").python(CALLS.append, args=("next",))
    return "done"


@workflow
async def parent(name: str) -> str:
    return await busy(name)


@workflow
async def asks() -> str:
    return str(await ask("Go on?", deadline=60, default="no"))


@workflow
async def asks_in_a_child() -> str:
    return f"the child said {await asks()}"


@pytest.fixture(autouse=True)
def fresh() -> None:
    GATES.clear()
    CALLS.clear()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


def never_beats(presence: Presence) -> None:
    """As a process that is frozen, or dead, from now on."""


def as_another(
    where: str | hf.Store,
    identity: Identity = FAR,
    *,
    clock: FakeClock | None = None,
    beats: Callable[[Presence], None] | None = never_beats,
) -> hf.Checkpointer:
    """The store as another process sees it."""
    cp = hf.Checkpointer(where) if clock is None else hf.Checkpointer(where, clock=clock)
    simulate(cp.core, Process(lambda: identity, beats))
    return cp


@asynccontextmanager
async def executed(
    engine: hf.Engine, run_id: str = "r", flow: hf.Flow[str] = waiting
) -> AsyncIterator[asyncio.Task[str]]:
    """A run that is in the middle of its step."""
    gate = GATES[run_id] = Gate()
    task = asyncio.create_task(engine.run(flow(run_id), run_id=run_id))
    await gate.begun.wait()
    try:
        yield task
    finally:
        gate.open.set()
        await asyncio.gather(task, return_exceptions=True)


def reasons(core: Core, run_id: str = "r") -> list[str | None]:
    """Why the run was claimed, each time."""
    return [Meta(entry).why for entry in core.journals.entries(run_id) if entry.kind == Kind.CLAIM]


async def released(core: Core, run_id: str = "r") -> None:
    """Wait until the journal says that nobody executes the run."""

    def says() -> bool:
        head = core.journals.store.last(run_id)
        return head is not None and head.kind == Kind.RELEASE

    await asyncio.to_thread(wait_until, says)


# --- who holds a run


@in_loop
async def test_two_engines_of_one_process_do_not_take_each_others_runs(url: str) -> None:
    async with hf.Engine(url) as one, hf.Engine(url, flows=[waiting]) as other, executed(one):
        with pytest.raises(hf.RunActiveError):
            await other.resume("r")
        assert await other.recover() == {}
        assert await other.orphans() == []
        same = asyncio.create_task(other.run(waiting("r"), run_id="r", resume=True))
        GATES["r"].open.set()
        assert await same == "done"
    assert CALLS == ["r"]


@in_loop
async def test_a_run_is_not_taken_from_a_living_process_of_another_machine(url: str) -> None:
    clock = FakeClock()
    far, here = as_another(url, clock=clock), hf.Checkpointer(url, clock=clock)
    async with (
        hf.Engine(far) as holder,
        executed(holder),
        hf.Engine(here, flows=[waiting]) as engine,
    ):
        with pytest.raises(hf.RunActiveError, match="process 7 on far"):
            await engine.resume("r")
        assert await engine.recover(wait=False) == {}, "that is undecided"
        assert await engine.orphans() == []
    await far.close()
    await here.close()
    assert CALLS == ["r"]


@in_loop
async def test_take_over_stops_a_living_process_wherever_it_is(url: str) -> None:
    far = as_another(url)
    async with (
        hf.Engine(far) as holder,
        executed(holder) as task,
        hf.Engine(url, flows=[waiting]) as engine,
    ):
        second = asyncio.create_task(engine.resume("r", take_over=True))
        await asyncio.to_thread(wait_until, lambda: len(CALLS) == 2)
        GATES["r"].open.set()
        assert await second == "done"
        with pytest.raises(hf.LeaseLostError) as lost:
            await task
        assert lost.value.run_id == "r"
        assert "another one wrote the claim" in lost.value.reason
        assert reasons(engine.checkpointer.core) == ["taken_over"]
    await far.close()


@in_loop
async def test_a_step_may_take_longer_than_dead_after(url: str) -> None:
    """The beats come from a thread of their own."""
    clock = FakeClock()
    worker = as_another(url, beats=None)
    observer = as_another(url, this_process(), clock=clock)
    core = observer.core

    def beaten_since(seq: int) -> bool:
        return slots.read(core, 0).seq > seq

    async with (
        hf.Engine(worker, dead_after=1) as holder,
        executed(holder),
        hf.Engine(observer) as engine,
    ):
        for _ in range(8):
            await asyncio.to_thread(wait_until, partial(beaten_since, slots.read(core, 0).seq))
            clock.advance(0.3)
            assert await engine.orphans() == []
    assert clock.monotonic() > 2
    await worker.close()
    await observer.close()


@in_loop
async def test_a_child_of_fork_does_not_hold_the_runs_of_its_parent(url: str) -> None:
    async with hf.Engine(url) as engine, executed(engine):
        child = os.fork()
        if not child:
            code = 1
            try:
                with hf.Engine(url, flows=[waiting]) as copy:
                    copy.resume_sync("r")
            except hf.RunActiveError:
                code = 0
            finally:
                os._exit(code)
        assert await asyncio.to_thread(exit_code, child) == 0
    assert CALLS == ["r"]


# --- death


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The time of the observers, which passes while they sleep."""
    clock, sleep = FakeClock(), asyncio.sleep

    async def pass_time(seconds: float, *_: object) -> None:
        clock.advance(seconds)
        await sleep(0.001)

    monkeypatch.setattr(asyncio, "sleep", pass_time)
    return clock


Resumes = Callable[[hf.Engine], Awaitable[Any]]
WAYS: dict[str, Resumes] = {
    "recover": lambda engine: engine.recover(),
    "resume": lambda engine: engine.resume("r", wait=True),
    "run": lambda engine: engine.run(waiting("r"), run_id="r", resume=True),
}


@pytest.mark.parametrize("dead_after", [1, 30, 600])
@pytest.mark.parametrize("way", WAYS)
def test_who_waits_takes_the_run_when_its_process_gave_no_sign_of_life_for_dead_after(
    url: str, way: str, dead_after: float, clock: FakeClock
) -> None:
    async def main() -> None:
        far = as_another(url, clock=FakeClock())
        cp = hf.Checkpointer(url, clock=clock)
        async with hf.Engine(far, dead_after=dead_after) as holder, executed(holder):
            GATES["r"] = Gate()
            GATES["r"].open.set()
            async with hf.Engine(cp, flows=[waiting], dead_after=dead_after) as engine:
                assert await WAYS[way](engine) in ("done", {"r": "done"})
                assert reasons(cp.core) == ["died"]
        assert dead_after <= clock.monotonic() < 1.5 * dead_after
        await far.close()
        await cp.close()

    asyncio.run(main())


def test_recover_resumes_the_runs_of_the_dead_also_when_they_have_to_wait_their_turn(
    url: str, clock: FakeClock
) -> None:
    async def main() -> None:
        far, farther = as_another(url), as_another(url, FAR._replace(place="a third boot"))
        cp = hf.Checkpointer(url, clock=clock)
        async with (
            hf.Engine(far) as first,
            hf.Engine(farther) as second,
            executed(first, "r"),
            executed(second, "s"),
            hf.Engine(cp, flows=[waiting]) as engine,
        ):
            GATES["r"], GATES["s"] = Gate(), Gate()
            GATES["s"].open.set()
            recovering = asyncio.create_task(engine.recover(at_once=1))
            await GATES["r"].begun.wait()
            clock.advance(3600)
            GATES["r"].open.set()
            assert await recovering == {"r": "done", "s": "done"}
        for opened in (far, farther, cp):
            await opened.close()

    asyncio.run(main())


def test_a_process_is_seen_to_be_dead_though_it_had_the_slot_of_another_dead_one(
    url: str, clock: FakeClock
) -> None:
    """Whose run is still there, because nobody here has its flow."""

    async def main() -> None:
        far, farther = as_another(url), as_another(url, FAR._replace(place="a third boot"))
        cp = hf.Checkpointer(url, clock=clock)
        async with (
            hf.Engine(far) as first,
            hf.Engine(farther) as second,
            hf.Engine(cp, flows=[waiting]) as engine,
            executed(first, "r", busy),
        ):
            slot = slots.read(cp.core, 0)
            assert slot.beat is not None
            assert slots.write(cp.core, slot, slot.beat._replace(state="buried"))
            async with executed(second, "s"):
                assert slots.read(cp.core, 0).beat not in (None, slot.beat)
                GATES["s"] = Gate()
                GATES["s"].open.set()
                assert await engine.recover() == {"s": "done"}
        for opened in (far, farther, cp):
            await opened.close()

    asyncio.run(main())


# --- runs that were left


@in_loop
async def test_a_run_that_was_left_is_resumed_by_another_process_at_once(url: str) -> None:
    far = as_another(url, beats=None)
    async with hf.Engine(far) as holder:
        async with executed(holder) as task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await released(far.core)
            GATES["r"].open.set()
        async with hf.Engine(url, flows=[waiting]) as engine:
            assert await engine.resume("r") == "done"
            assert reasons(engine.checkpointer.core) == ["released"]
    await far.close()


class SlowRelease(SQLiteStore):
    """Takes no release before it may."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.came, self.may_land = threading.Event(), threading.Event()

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if any(entry.kind == Kind.RELEASE for entry in entries):
            self.came.set()
            assert self.may_land.wait(60)
        return super().append(entries, behind)


@in_loop
async def test_a_run_that_was_left_is_free_here_before_the_journal_says_so(tmp_path: Path) -> None:
    store = SlowRelease(tmp_path / "runs.db")
    async with hf.Engine(store) as engine, executed(engine) as task:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await asyncio.to_thread(store.came.wait, 60)
        found = await engine.orphans()
        store.may_land.set()
        assert [orphan.run_id for orphan in found] == ["r"]
    store.close()


BEGUN = {"a": threading.Event(), "b": threading.Event()}
MAY_END = {"a": threading.Event(), "b": threading.Event()}


@step
def wait_in_thread(name: str) -> None:
    BEGUN[name].set()
    assert MAY_END[name].wait(60)


@workflow
async def inner(name: str) -> None:
    await wait_in_thread(name)


@workflow
async def middle() -> None:
    await parallel(inner("a"), inner("b"))


@workflow
async def outer() -> None:
    await parallel(middle(), inner("a"))


@pytest.mark.parametrize("flow", [middle, outer])
@in_loop
async def test_a_run_is_not_released_before_the_steps_of_its_child_runs_have_ended(
    url: str, flow: Workflow[[], None]
) -> None:
    for event in (*BEGUN.values(), *MAY_END.values()):
        event.clear()
    async with hf.Engine(url) as engine:
        core = engine.checkpointer.core
        run = asyncio.create_task(engine.run(flow(), run_id="r"))
        for begun in BEGUN.values():
            assert await asyncio.to_thread(begun.wait, 60)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        MAY_END["a"].set()
        await not_released(engine)
        MAY_END["b"].set()
        await released(core)


async def not_released(engine: hf.Engine) -> None:
    """Assert that a run is still held though one that was left after it has been released."""
    core = engine.checkpointer.core
    async with executed(engine, "later") as later:
        later.cancel()
        await released(core, "later")
    head = core.journals.store.last("r")
    assert head is not None
    assert head.kind != Kind.RELEASE


@in_loop
async def test_a_run_is_not_released_while_a_thread_is_about_to_begin_its_step(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, may_begin, real = threading.Event(), threading.Event(), threads._Call.execute

    def slow_to_begin(self: threads._Call) -> None:
        taken.set()
        assert may_begin.wait(60)
        real(self)

    BEGUN["a"].clear()
    MAY_END["a"].set()
    async with hf.Engine(url) as engine:
        core = engine.checkpointer.core
        monkeypatch.setattr(threads._Call, "execute", slow_to_begin)
        run = asyncio.create_task(engine.run(inner("a"), run_id="r"))
        assert await asyncio.to_thread(taken.wait, 60)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await not_released(engine)
        may_begin.set()
        await released(core)
        assert BEGUN["a"].is_set()


@in_loop
async def test_an_engine_that_is_closed_releases_a_run_whose_step_can_not_be_stopped(
    url: str,
) -> None:
    BEGUN["a"].clear()
    MAY_END["a"].clear()
    async with hf.Engine(url) as engine:
        run = asyncio.create_task(engine.run(inner("a"), run_id="r"))
        assert await asyncio.to_thread(BEGUN["a"].wait, 60)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        threading.Timer(0.2, MAY_END["a"].set).start()
    with hf.SyncCheckpointer(url) as cp:
        head = cp.core.journals.head("r")
        assert head is not None
        assert head.kind == Kind.RELEASE


@in_loop
async def test_a_run_that_ctrl_c_ended_does_not_count_as_crashed(url: str) -> None:
    worker = Stuck(url, lines=3)
    with bounded(worker.process):
        worker.process.send_signal(signal.SIGINT)
        worker.process.wait()
    assert worker.process.stdout is not None
    worker.process.stdout.close()
    async with hf.Engine(url, flows=[slow]) as engine:
        assert await engine.recover() == {"r0": 10, "r1": 20, "r2": 30}
        for run_id in ("r0", "r1", "r2"):
            assert reasons(engine.checkpointer.core, run_id) == ["released"]


@in_loop
async def test_a_run_whose_process_was_killed_counts_as_crashed(url: str) -> None:
    Stuck(url, lines=3).kill()
    async with hf.Engine(url, flows=[slow]) as engine:
        await engine.recover()
        assert reasons(engine.checkpointer.core, "r0") == ["died"]


@in_loop
async def test_a_process_that_holds_nothing_gives_its_slot_back(url: str) -> None:
    async with hf.Engine(url, dead_after=1) as engine:
        core = engine.checkpointer.core
        GATES["r"] = Gate()
        GATES["r"].open.set()
        assert await engine.run(waiting("r"), run_id="r") == "done"

        def idle() -> bool:
            beat = slots.read(core, 0).beat
            return beat is not None and beat.state == "released"

        await asyncio.to_thread(wait_until, idle)


# --- the lease


class Cut(SQLiteStore):
    """A store whose slots can't be reached while it is `cut`; time passes then."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        super().__init__(path)
        self.clock = clock
        self.cut = False

    def erase(self, tombstone: Any) -> bool:
        if self.cut:
            self.clock.advance(1)
            raise hf.StoreUnavailableError("no route to host")
        return super().erase(tombstone)


@pytest.mark.parametrize("on_save_failure", ["raise", "warn"])
def test_no_step_begins_under_a_lease_that_can_not_be_renewed(
    tmp_path: Path, on_save_failure: Any
) -> None:
    clock = FakeClock()
    store = Cut(tmp_path / "runs.db", clock)
    done: list[str] = []

    def first() -> None:
        done.append("first")
        clock.advance(21)  # two thirds of `dead_after`, and a little
        store.cut = True

    @workflow
    async def two() -> None:
        await step("first").python(first)
        await step("second").python(lambda: done.append("second"))

    async def main() -> None:
        async with hf.Engine(as_another(store, clock=clock)) as engine:
            await engine.run(two(), run_id="r", on_save_failure=on_save_failure)

    if on_save_failure == "warn":
        asyncio.run(main())
        assert done == ["first", "second"], "the user wants to go on"
    else:
        with pytest.raises(hf.CheckpointSaveError, match="no route to host"):
            asyncio.run(main())
        assert done == ["first"]
    store.cut = False
    store.close()


class Silent(SQLiteStore):
    """A store that does not answer beats while it is `silent`: it neither takes nor refuses them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.answers = threading.Event()
        self.answers.set()

    def erase(self, tombstone: Any) -> bool:
        self.answers.wait(PATIENCE)
        return super().erase(tombstone)


@in_loop
async def test_a_step_is_stopped_when_the_lease_ends_even_if_the_beat_hangs_in_the_store(
    tmp_path: Path,
) -> None:
    """Others may have declared this process dead by then."""
    store = Silent(tmp_path / "runs.db")
    async with hf.Engine(as_another(store, beats=None), dead_after=1) as engine:
        async with executed(engine) as task:
            store.answers.clear()
            done, _ = await asyncio.wait([task], timeout=PATIENCE / 2)
            assert done, "the step goes on although the lease has ended"
            assert isinstance(task.exception(), hf.CheckpointSaveError)
            assert not store.answers.is_set()
            store.answers.set()
        GATES["r"] = Gate()
        GATES["r"].open.set()
        assert await engine.resume("r") == "done"
    store.close()


@pytest.mark.parametrize("renewed", [True, False])
def test_a_process_that_stood_still_may_beat_before_its_steps_are_stopped(renewed: bool) -> None:
    """Nobody may have looked at it meanwhile: a laptop that slept."""
    clock = FakeClock()
    beat = slots.Beat("nonce", "alive", FAR, dead_after=30)
    lease = Lease(slots.Slot(0, None, beat), beat, clock.monotonic(), clock)
    stops: list[float] = []
    waits: list[float] = []

    class Looks(threading.Event):
        """Lets time pass: the process stands still the second time, and then beats or does not."""

        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            waits.append(round(timeout, 3))
            clock.advance(600 if len(waits) == 2 else timeout)
            if renewed and len(waits) == 3:
                lease.renewed = clock.monotonic()
            return len(waits) > 3

    presence: Any = SimpleNamespace(
        living_lease=lease, stop_runs=lambda: stops.append(clock.monotonic())
    )
    _watch_lease(presence, Looks())
    assert waits[:3] == [0, 20, 5]
    assert waits[3] == (20 if renewed else 5)
    assert stops == ([] if renewed else [605])


@in_loop
async def test_a_step_that_cleans_up_when_it_is_stopped_is_not_stopped_twice(
    tmp_path: Path,
) -> None:
    store = Silent(tmp_path / "runs.db")
    begun, told = asyncio.Event(), list[str]()

    async def careful() -> None:
        begun.set()
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)  # several times as long as a lease that ended is looked at
            told.append("cleaned up")
            raise

    @workflow
    async def one() -> None:
        await step("careful").python(careful)

    async with hf.Engine(as_another(store, beats=None), dead_after=1) as engine:
        task = asyncio.create_task(engine.run(one(), run_id="r"))
        await begun.wait()
        store.answers.clear()
        with pytest.raises(hf.CheckpointSaveError):
            await task
        store.answers.set()
    assert told == ["cleaned up"]
    store.close()


@in_loop
async def test_a_process_that_was_declared_dead_begins_no_further_step(url: str) -> None:
    clock = FakeClock()
    done: list[str] = []

    async def freeze() -> None:
        """As long as the process is frozen, others find it dead and take its run over."""
        done.append("frozen")
        if len(done) > 1:
            return
        for _ in range(5):
            await observer.orphans()
            clock.advance(9)
        assert await observer.recover(frozen) == {"r": None}

    @workflow("frozen")
    async def frozen() -> None:
        await step("freeze").python(freeze)
        await step("after").python(lambda: done.append("after"))

    far = as_another(url, clock=clock)
    async with hf.Engine(hf.Checkpointer(url, clock=clock)) as observer:
        async with hf.Engine(far) as engine:
            with pytest.raises(hf.LeaseLostError):
                await engine.run(frozen(), run_id="r")
        assert reasons(observer.checkpointer.core) == ["died"]
    assert done == ["frozen", "frozen", "after"], "only the step under way was repeated"
    await far.close()


# --- child runs and threads


@pytest.mark.parametrize("action", ["cancel", "pause"])
@in_loop
async def test_what_another_process_asks_of_a_run_reaches_its_child_run_at_its_next_step(
    url: str, action: str
) -> None:
    gate = GATES["r"] = Gate()
    far = as_another(url)
    async with hf.Engine(url) as engine, hf.Engine(far) as other:
        task = asyncio.create_task(engine.run(parent("r"), run_id="p"))
        await gate.begun.wait()
        await getattr(other, action)("p")
        gate.open.set()
        with pytest.raises((hf.RunCancelledError, hf.RunPausedError)):
            await task
        status = "cancelled" if action == "cancel" else "paused"
        assert await other.status("p") == await other.status("p//busy") == status
    assert CALLS == ["r"]
    await far.close()


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "overdue"])
@in_loop
async def test_recover_continues_a_run_whose_child_asked(url: str, answered: bool) -> None:
    clock = FakeClock()
    cp = hf.Checkpointer(url, clock=clock)
    async with hf.Engine(cp, flows=[asks_in_a_child]) as engine:
        with pytest.raises(hf.RunPausedError):
            await engine.run(asks_in_a_child(), run_id="p")
        assert await engine.recover() == {}
        (question,) = [question async for question in engine.questions()]
        assert question.run_id == "p//asks"
        if answered:
            await engine.answer(question.run_id, "yes")
        else:
            clock.advance(61)
        said = "yes" if answered else "no"
        assert await engine.recover() == {"p": f"the child said {said}"}
    await cp.close()


@in_loop
async def test_of_many_who_resume_a_thread_one_opens_the_run(url: str) -> None:
    places = [as_another(url, FAR._replace(place=f"boot {n}"), beats=None) for n in range(4)]
    engines = [hf.Engine(place) for place in places for _ in range(2)]
    gate = GATES["r"] = Gate()
    gate.open.set()
    runs = (engine.run(waiting("r"), thread_id="t", resume=True) for engine in engines)
    assert await asyncio.gather(*runs) == ["done"] * len(engines)
    assert CALLS == ["r"]
    for engine in engines:
        await engine.close()
    with hf.SyncCheckpointer(url) as cp:
        assert len(list(cp.thread("t"))) == 1
    for place in places:
        await place.close()


# --- slots


@in_loop
async def test_a_damaged_slot_is_repaired_by_the_next_beat(url: str, tmp_path: Path) -> None:
    far = as_another(url)
    async with hf.Engine(far) as holder, executed(holder):
        with sqlite3.connect(tmp_path / "runs.db") as db:
            db.execute(
                "UPDATE holdfast_entries SET meta = '{}' WHERE run = ?", (process_journal(0),)
            )
        db.close()
        async with hf.Engine(url, flows=[waiting]) as engine:
            core = engine.checkpointer.core
            assert slots.read(core, 0).beat is None
            assert await engine.orphans() == [], "it may be alive"
            presence = process_of(far.core).presence(far.core)
            lease = presence.lease(far.core, 30.0)
            assert lease is not None
            assert not lease.lost
            beat = slots.read(core, 0).beat
            assert beat is not None
            assert beat._replace(doing=()) == lease.beat
            assert [one.run_id for one in beat.doing] == ["r"]
    await far.close()


HOSTILE: list[dict[str, Any]] = [
    {"nonce": ""},
    {"nonce": 7},
    {"nonce": ["n"]},
    {"state": "undead"},
    {"state": None},
    {"dead_after": 0.0},
    {"dead_after": -30.0},
    {"dead_after": 1e300},
    {"dead_after": 30},
    {"dead_after": "30"},
    {"lag": -1.0},
    {"process": []},
    {"process": ["far", "here", "7", "start"]},
    {"process": ["far", "here", True, "start"]},
    {"process": ["far", "here", 7, None]},
    {"process": "far:7"},
]


def _put(core: Core, number: int, meta: str) -> None:
    tip = Tip(process_journal(number), slots.read(core, number).head)
    draft = Draft(Kind.TOMBSTONE.value, Status.DELETED.value, parent=None, meta=meta)
    assert core.journals.store.erase(core.journals.place(tip, draft))


def _row(core: Core, **changed: Any) -> str:
    place = process_of(core).identity.place
    facts: dict[str, Any] = {
        "nonce": "n",
        "state": "alive",
        "process": ["far", place, 7, "start"],
        "dead_after": 30.0,
        "lag": 0.0,
    }
    return json.dumps(facts | changed)


@pytest.mark.parametrize("changed", HOSTILE, ids=json.dumps)
def test_a_row_that_no_process_wrote_is_no_beat(url: str, changed: dict[str, Any]) -> None:
    with hf.SyncCheckpointer(url) as cp:
        _put(cp.core, 0, _row(cp.core))
        assert slots.read(cp.core, 0).beat is not None
        _put(cp.core, 0, _row(cp.core, **changed))
        found = slots.read(cp.core, 0)
        assert found.beat is None
        assert not found.is_free


def test_a_slot_can_be_read_however_often_its_process_has_beaten(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp:
        slot = slots.Slot(0, None, None)
        for _ in range(3):
            written = slots.write(cp.core, slot, slots.Beat("n", "alive", FAR))
            assert written is not None
            slot = slots.read(cp.core, 0)
            assert slot.beat == written.beat, "it is proved by its digest"


@pytest.mark.parametrize(
    "pid",
    [-(2**70), -1, 0, 2**31, 2**70, int("9" * 4000)],
    ids=["very negative", "negative", "zero", "too large", "larger", "too long"],
)
@in_loop
async def test_hostile_rows_keep_no_process_from_its_work(url: str, pid: int) -> None:
    async with hf.Engine(url) as engine:
        core = engine.checkpointer.core
        place = process_of(core).identity.place
        _put(core, 0, _row(core, process=["far", place, pid, "start"]))
        _put(core, 1, "[]")
        _put(core, 2, "{" * 10_000)
        GATES["r"] = Gate()
        GATES["r"].open.set()
        assert await engine.run(waiting("r"), run_id="r") == "done"
        assert await engine.orphans() == []


def test_a_store_is_the_same_however_it_is_addressed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "runs.db")
    names = ("runs.db", "sub/../runs.db", "link.db")
    found = set()
    for name in names:
        with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/{name}") as cp:
            found.add(process_of(cp.core).presence(cp.core))
    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/another.db") as cp:
        assert process_of(cp.core).presence(cp.core) not in found
    assert len(found) == 1


@in_loop
async def test_a_copy_of_a_run_is_held_by_nobody(url: str, tmp_path: Path) -> None:
    async with hf.Engine(url) as engine, executed(engine):
        with hf.SyncCheckpointer(url) as cp:
            cp.copy_to(tmp_path / "copy.db")
        async with hf.Engine(tmp_path / "copy.db") as other:
            assert [orphan.run_id for orphan in await other.orphans()] == ["r"]


@pytest.mark.parametrize("seconds", [0, 0.5, -1, 86_401, float("nan"), float("inf")])
def test_dead_after_must_be_reasonable(seconds: float) -> None:
    with pytest.raises(ValueError, match="dead_after must be between 1 and 86,400 seconds"):
        hf.Engine("memory://", dead_after=seconds)


@in_loop
async def test_a_stream_dropped_at_its_first_event_leaves_the_run_to_others(url: str) -> None:
    async with hf.Engine(url) as engine:
        stream = engine.stream(slow(n=1), run_id="r")
        async for _ in stream:
            break
        await stream.aclose()
    async with hf.Engine(url) as other:
        simulate(other.checkpointer.core, Process())
        assert await other.resume("r", flow=slow) == 20
