"""What a simulated process has: a view of the shared store, a writer, a core and an engine.

In production every call of the store happens in a thread. Here it happens in place, after a random
delay, and other processes run before and inside it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import ClassVar, Final, TypeVar

import pytest

import holdfast as hf
from holdfast.checkpointer import Checkpointer
from holdfast.engine.holding import here as holding
from holdfast.engine.holding import process
from holdfast.engine.holding.presence import Presence
from holdfast.engine.holding.process import Identity
from holdfast.engine.resume import recovery
from holdfast.errors import OutcomeUnknownError, StoreUnavailableError
from holdfast.heads import Position, RunHead
from holdfast.kernel.core import Core, Op, Settings
from holdfast.kernel.journal import Journals
from holdfast.kernel.writer import Writer
from holdfast.model import Entry, Status
from holdfast.seams import Clock, Entropy
from holdfast.store import ANY_HEAD, PAGE, Behind, RunFilter
from holdfast.stores.memory import MemoryStore
from tests.simulation.flows import FLOWS
from tests.simulation.loop import CURRENT, Killed, Loop, Process, VirtualClock
from tests.simulation.world import SLOTS, World

T = TypeVar("T")

_OTHERS: Final = 0.1  # how often others run inside a call of the store
_SLOW: Final = 0.5  # seconds until an unreachable store is tried again


class Machine:
    """A process, and what it has."""

    def __init__(
        self,
        world: World,
        name: str,
        place: str,
        dead_after: float,
        deadline: float,
        engines: int = 1,
    ) -> None:
        self.world = world
        self.name = name
        self.dead_after = dead_after
        self.process = world.loop.add(Process(name))
        self.store = SharedStore(world, self.process)
        self.tasks: list[asyncio.Task[None]] = []
        pid = len(world.places) + 1
        world.places[self.process] = place
        identity = Identity(name, place, pid, f"start of {name}")
        _RUNNING[pid] = self
        self._own = holding.Process(lambda: identity, self._start_beating)
        own, clock = Random(world.loop.random.random()), VirtualClock(world.loop)
        self.engines = []
        for _ in range(engines):
            settings = Settings(deadline=deadline)
            checkpointer = _Checkpointer(self.store, clock, own.randbytes, settings)
            holding.simulate(checkpointer.core, self._own)
            self.engines.append(hf.Engine(checkpointer, flows=FLOWS, dead_after=dead_after))

    def end(self) -> None:
        """What a process does when its interpreter exits."""
        self._own.end()

    def _start_beating(self, beaten: Presence) -> None:
        bell = _Bell()
        vars(beaten)["_bell"] = bell
        self.world.loop.spawn(self.process, _beat(beaten, bell))


class _Bell:
    """What wakes the task that beats."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    def put(self, _: None) -> None:
        """Ring."""
        self.rung.set()


async def _beat(beaten: Presence, bell: _Bell) -> None:
    wait: float | None = 0.0
    while wait is not None:
        try:
            async with asyncio.timeout(wait):
                await bell.rung.wait()
        except TimeoutError:
            pass
        bell.rung.clear()
        await hesitate()
        wait = beaten.tick()


_RUNNING: dict[int, Machine] = {}  # by pid


def here() -> Machine:
    """The machine whose process runs."""
    process = CURRENT.get()
    return next(machine for machine in _RUNNING.values() if machine.process is process)


def _start_of(pid: int) -> str | None:
    machine = _RUNNING[pid]
    return None if machine.process.killed else f"start of {machine.name}"


@contextmanager
def no_real_process() -> Iterator[None]:
    """Around a schedule: processes are looked up among those that are simulated."""
    chance = random.getstate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "start_of", _start_of)
        patch.setattr(recovery, "_LOOK", 1.5)  # seldom: it is the same to those who look
        try:
            yield
        finally:
            random.setstate(chance)
            _RUNNING.clear()
            holding._others.clear()  # or what a process has would keep it there for ever


class SharedStore(MemoryStore):
    """One process's view of the store that all share."""

    inline: ClassVar[bool] = False
    shared: ClassVar[bool] = True
    url = "simulated://"

    def __init__(self, world: World, process: Process) -> None:
        super().__init__()
        self._world = world
        self._process = process
        self._journals = world.journals
        self._names = world.names
        self._rows = world.rows
        self.outage: str | None = None  # "before": calls do nothing; "after": no reply comes
        self.calls = 0
        self.triggers: dict[int, Callable[[], object]] = {}  # what happens at which call
        self.at_pauses: list[Callable[[], object]] = []  # what happens when runs pause

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if self.at_pauses and any(entry.status == Status.PAUSED for entry in entries):
            self.at_pauses.pop()()
            self._world.loop.run_others(self._process, 40)
        self._reach(writes=True)
        won = super().append(entries, behind)
        self._replied(self._world.appended(self._process, entries, won))
        self._world.told(self._process, entries, won)
        return won

    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        self._reach(run)
        return super().read(run, after=after, limit=limit, newest_first=newest_first, bodies=bodies)

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        self._reach()
        return super().runs(where, after=after, limit=limit)

    def listed(
        self,
        where: RunFilter = RunFilter(),
        *,
        before: Position | None = None,
        limit: int = PAGE,
    ) -> list[tuple[RunHead, Entry]]:
        self._reach()
        return super().listed(where, before=before, limit=limit)

    def due(
        self, now: int, *, flows: Collection[str] | None = None, limit: int = PAGE
    ) -> list[RunHead]:
        self._reach()
        return super().due(now, flows=flows, limit=limit)

    def holders(self) -> dict[str, int]:
        self._reach()
        return super().holders()

    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        raise NotImplementedError

    def erase(self, tombstone: Entry) -> bool:
        self._reach(writes=True)
        return self._replied(self._world.erased(self._process, tombstone, super().erase(tombstone)))

    def close(self) -> None:
        """The others keep it."""

    def _reach(self, run: str = "", *, writes: bool = False) -> None:
        """Let others run, then fail if the store is out of reach."""
        self._pass()
        outage = self._world.outage or self.outage
        failed = outage == "before" or (outage is not None and not writes)
        if run.startswith(SLOTS):
            self._world.looked(self._process, run, failed=failed)
        if failed:
            self._world.failed(self._process)
            raise StoreUnavailableError(self.url, "out of reach")

    def _replied(self, outcome: T) -> T:
        self._pass()
        if self._world.outage == "after" or self.outage == "after":
            self._world.failed(self._process)
            raise OutcomeUnknownError("", "no reply")
        return outcome

    def _pass(self) -> None:
        """Others run, and something may happen."""
        if self._process.killed:
            raise Killed
        loop = self._world.loop
        self.calls += 1
        trigger = self.triggers.pop(self.calls, None)
        if trigger is not None:
            trigger()
        if trigger is not None or loop.random.random() < _OTHERS:
            loop.run_others(self._process, int(loop.random.random() * 6) + 1)


class _Writer(Writer):
    """A writer whose thread is a task."""

    _writing = False

    def kick(self) -> None:
        """Start writing, without waiting for it."""
        if self._queue and not self._writing:
            self._writing = True
            asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._queue:
                await hesitate()
                for pause in self._attempts():
                    await asyncio.sleep(pause)
        finally:
            self._writing = False

    def try_once(self) -> None:
        """Write what is queued, unless the store is out of reach."""
        if self._queue:
            next(self._attempts(), None)

    def _write_some(self) -> None:
        for pause in self._attempts():
            _block(pause)


class _Core(Core):
    """A core whose reading threads are the loop itself, after a while."""

    def drive(self, op: Op[T]) -> T:
        """Run an operation to its end, in place."""
        return super().drive(self._virtual(op))

    def _virtual(self, op: Op[T]) -> Op[T]:
        """An operation that waits in virtual time, while the writer's thread does its work."""
        writer = self.journals.writer
        assert isinstance(writer, _Writer)
        try:
            request = next(op)
            while True:
                if isinstance(request, partial) and request.func is time.sleep:
                    request = partial(_block, _SLOW)
                writer.try_once()
                try:
                    sent = yield request
                except BaseException as error:  # noqa: BLE001 - the operation decides
                    request = op.throw(error)
                else:
                    request = op.send(sent)
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def off_loop(self, call: Callable[[], T]) -> T:
        """Call something that blocks; others run before and after."""
        if isinstance(call, partial) and call.func is time.sleep:
            return await asyncio.sleep(_SLOW)  # type: ignore[func-returns-value, return-value]
        await hesitate()
        result = call()
        await hesitate()
        return result


def _block(seconds: float) -> None:
    """Wait in place: the process does nothing else."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    loop.block(CURRENT.get(), seconds)


async def hesitate() -> None:
    """Let others run: often not at all, sometimes for long."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    chance = loop.random.random()
    if chance < 0.5:
        return
    if chance < 0.75:
        await asyncio.sleep(0)
    else:
        await asyncio.sleep(loop.random.random() * (0.05 if chance < 0.97 else 1.0))


class _Checkpointer(Checkpointer):
    """A checkpointer of one process."""

    def __init__(
        self, store: SharedStore, clock: Clock, entropy: Entropy, settings: Settings
    ) -> None:
        self._store = store
        self._owns_store = False
        self._core = _Core(Journals(store, _Writer(store, clock), clock, entropy), settings)
