"""What a process is to one store: its slot, the lease that its beats renew, the runs it executes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import islice
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import ref

from holdfast.engine.holding import slots
from holdfast.engine.holding.lease import Holder, Lease
from holdfast.engine.holding.releases import NO_FACTS, Releases
from holdfast.engine.holding.slots import Beat, Seen, UnderWay
from holdfast.errors import (
    CheckpointSaveError,
    HoldfastError,
    LeaseLostError,
    RunActiveError,
    StoreError,
)
from holdfast.kernel.core import Core
from holdfast.logs import logger
from holdfast.model import Kind, Status
from holdfast.revealed import scrubbed

if TYPE_CHECKING:
    from holdfast.engine.holding.here import Process
    from holdfast.engine.run.loop import Run

log = logger()

_UNKNOWN: Final = (StoreError, CheckpointSaveError, LeaseLostError)
"""After these, what was to be appended may be there."""
_AT_CLOSE: Final = 10.0  # seconds, to write what is owed before a store is closed, and for steps
_MOMENT: Final = 0.01  # seconds, between two looks whether a step has ended
_SOON: Final = 0.2  # seconds, until a run that is about to end is looked at again
_TOLD: Final = 100  # characters of a step's name, or of what it says of its progress
_PATIENCE: Final = 1.0  # seconds, to write a release, or for a cancelled step to end


Ending = asyncio.Task[Any] | Future[Any]
"""Something of a step that was stopped, and has not ended yet: a task, or what a thread does."""


class Offer(NamedTuple):
    """What a worker of this process would do: execute runs of these flows, so many at once."""

    flows: tuple[str, ...]
    at_once: int
    verifies: bool = False  # and check claims for others


class Presence:
    """This process in one store. One lease for all its engines, loops and threads."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._reset()

    def _reset(self) -> None:
        self._runs: dict[str, Run] = {}
        self._claiming: dict[object, str] = {}
        self._opening: dict[object, str] = {}
        self._ending: dict[str, Collection[Ending]] = {}  # of runs that were left
        self._offers: dict[object, Offer] = {}  # of the workers here
        self.permits: dict[str, object] = {}  # that they hold, or are about to: by whom
        self._claims = threading.Lock()  # of those who begin to claim
        self._lease: Lease | None = None
        self._nonces: set[str] = set()
        self._slot = threading.Lock()  # one thread writes the slot at a time
        self._cores: tuple[ref[Core], ...] = ()  # replaced while `_slot` is held
        self._bell: SimpleQueue[None] = SimpleQueue()  # `put` may be called by a finalizer
        self._releases = Releases(self)
        self._idle_since: float | None = None
        self._beating = False
        self.seen: dict[int, Seen] = {}  # by slot: see `observing`

    # --- the runs that are executed here

    def register(self, run: Run) -> None:
        """Make a run known to the rest of this process, until `forget`: it is to be executed."""
        self._runs[run.run_id] = run
        self._process.begun += 1

    def forget(self, run: Run) -> None:
        """The run is not executed any more, though its task has not noticed yet."""
        if self._runs.get(run.run_id) is run:
            del self._runs[run.run_id]
            if self._releases.any:  # its release may have waited for this
                self._bell.put(None)

    def find(self, run_id: str) -> Run | None:
        """The run of this id, if this process executes it."""
        return self._runs.get(run_id)

    def is_executed(self, run_id: str) -> bool:
        """Whether this process executes the run, or is about to."""
        claimed = (*self._claiming.values(), *self._opening.values())
        return run_id in self._runs or run_id in claimed or self.is_ending(run_id)

    def is_ending(self, run_id: str) -> bool:
        """Whether steps of a run that was left have not ended yet."""
        if any(not one.done() for one in tuple(self._ending.get(run_id, ()))):
            return True
        self._ending.pop(run_id, None)
        return False

    async def wait_for_the_end(self, run_id: str) -> None:
        """Wait for steps of a run that was left on this event loop: they were cancelled."""
        loop = asyncio.get_running_loop()
        tasks = [t for t in tuple(self._ending.get(run_id, ())) if isinstance(t, asyncio.Task)]
        here = [task for task in tasks if task.get_loop() is loop]
        if here:
            await asyncio.wait(here, timeout=_PATIENCE)

    def is_opening(self, run_id: str) -> bool:
        """Whether a task of this process is about to open the run, or has left that to the writer."""
        if run_id in tuple(self._opening.values()):
            return True
        queues = (core.journals.writer.queued(run_id) for core in self._known_cores())
        return any(entry.kind == Kind.OPEN for queue in queues for entry in queue)

    def claiming(self, core: Core, run_id: str, *, opening: bool = False) -> _Claiming:
        """One task of this process at a time takes a run over. Raises `RunActiveError`.

        One that is `opening` the run never raises: the store decides who opens it.
        """
        return _Claiming(self, core, run_id, opening)

    def begin_claiming(self, claiming: _Claiming) -> None:
        """See `claiming`."""
        with self._claims:
            if not claiming.opening and self.is_executed(claiming.run_id):
                raise RunActiveError(claiming.run_id, Status.RUNNING)
            (self._opening if claiming.opening else self._claiming)[claiming] = claiming.run_id

    def end_claiming(self, claiming: _Claiming, error: BaseException | None) -> None:
        """See `claiming`. Takes no lock: a finalizer may come here."""
        # First: nothing is released while it counts as executed.
        (self._opening if claiming.opening else self._claiming).pop(claiming, None)
        if error is None or (isinstance(error, HoldfastError) and not isinstance(error, _UNKNOWN)):
            return
        self._owe(claiming.core, claiming.run_id)  # what was to be appended may be on its way

    def _known_cores(self) -> list[Core]:
        return [core for each in self._cores if (core := each()) is not None]

    @property
    def _holds(self) -> bool:
        ending = any(map(self.is_ending, tuple(self._ending)))
        busy = self._runs or self._claiming or self._opening or self._offers
        return ending or bool(busy)

    @contextmanager
    def offering(self, offer: Offer) -> Iterator[None]:
        """Show others what a worker here would execute, and keep the slot even while it is idle."""
        mine = object()
        self._offers[mine] = offer
        try:
            yield
        finally:
            del self._offers[mine]

    def _shown(self, beat: Beat) -> Beat:
        """A beat with what others should know."""
        offers = tuple(self._offers.values())
        flows = tuple(sorted({name for offer in offers for name in offer.flows}))
        at_once = sum(offer.at_once for offer in offers)
        verifies = any(offer.verifies for offer in offers)
        doing = tuple(islice(self._doing(), slots.MOST_STEPS))
        return beat._replace(
            lag=self._lag(), flows=flows, at_once=at_once, verifies=verifies, doing=doing
        )

    def _doing(self) -> Iterator[UnderWay]:
        """The steps that are being executed here, in few words and without secrets."""
        for run in list(self._runs.values()):
            for one in run.under_way():
                yield one._replace(step=one.step[:_TOLD], message=scrubbed(one.message)[:_TOLD])

    # --- the lease

    def holder(self, lease: Lease | None) -> Holder:
        """What an entry says about this process."""
        if lease is None:
            nonce = self._process.nonce
            self._nonces.add(nonce)
            return Holder(-1, nonce, self._process.identity)
        return Holder(lease.slot.number, lease.beat.nonce, lease.beat.process)

    def had(self, nonce: str) -> bool:
        """Whether an entry with this nonce was written by this process."""
        return nonce in self._nonces

    @property
    def living_lease(self) -> Lease | None:
        """The lease, unless it was lost."""
        lease = self._lease
        return None if lease is None or lease.lost else lease

    def lease_at_hand(self, core: Core) -> Lease | None:
        """The lease, if it was renewed just now. To be asked for while `claiming`."""
        lease = self._lease
        if lease is None or lease.lost or lease.age > lease.beat.every:
            return None
        if ref(core) not in self._cores:
            return None
        return lease

    def lease(self, core: Core, dead_after: float) -> Lease | None:
        """The lease under which a run may be opened or claimed; None if the store needs none.

        To be asked for while `claiming`. Blocks; raises `StoreError`.
        """
        if not core.journals.store.shared:
            return None
        with self._slot:
            if ref(core) not in self._cores:
                self._cores = (*self._cores, ref(core))
                core.at_close.append(self.part_from)
            lease = self._lease
            if lease is not None and not lease.lost:
                self._write(core, lease, self._shown(lease.beat))
            if lease is None or lease.lost:
                lease = self._lease = self._take(core, dead_after)
            self._idle_since = None
            if not self._beating:
                self._process.start_beating(self)
                self._beating = True
            return lease

    def renew(self, core: Core, lease: Lease) -> bool:
        """Beat now; whether the lease is fresh. Blocks; raises `StoreError`."""
        with self._slot:
            if not lease.is_fresh and not lease.lost:
                self._write(core, lease, self._shown(lease.beat))
        return lease.is_fresh

    def _take(self, core: Core, dead_after: float) -> Lease:
        clock = core.journals.clock
        began = clock.monotonic()
        identity = self._process.identity
        beat = self._shown(Beat(core.journals.new_birth(), "alive", identity, dead_after))
        slot = slots.take(core, beat, identity.place)
        self._nonces.add(beat.nonce)
        return Lease(slot, beat, began, clock)

    def _write(self, core: Core, lease: Lease, beat: Beat) -> None:
        """Put a beat into our slot. If someone else wrote there, the lease is lost."""
        while True:
            began = core.journals.clock.monotonic()
            slot = slots.write(core, lease.slot, beat)
            if slot is not None:
                break
            found = slots.read(core, lease.slot.number)
            if found.beat is None or found.beat.nonce != beat.nonce or found.beat.state == "buried":
                self._lose(lease)
                return
            # Our own, whose acknowledgement was lost. Others have seen it stand still since then:
            # only a beat that is written now renews the lease.
            lease.slot = found
        late = began - lease.renewed
        if late > lease.beat.dead_after:
            log.warning("the last beat was %.0f s late; others may have given up on us", late)
        lease.slot, lease.renewed = slot, began

    def _lose(self, lease: Lease) -> None:
        """Others declared this process dead: every run of this lease is theirs."""
        lease.lost = True
        log.warning("this process was declared dead: it stops executing the runs it held")
        for run in list(self._runs.values()):
            if run.hold.lease is lease:
                run.stop_from_anywhere()

    # --- beats

    def tick(self) -> float | None:
        """Renew the lease if that is due, and write what is owed. Blocks.

        Returns the seconds until it is to be called again; None: the slot was released.
        """
        with self._slot:
            core = next((core for core in self._known_cores() if not core.closed), None)
            lease = self._lease
            if core is None or lease is None or lease.lost:
                self._beating = bool(self._holds and lease and not lease.lost)
                return lease.beat.every if lease is not None and self._beating else None
            every = lease.beat.every
            if lease.age >= every:
                self._renew_in_time(core, lease)
            self._releases.write(core, every / 2)
            if self._holds or self._releases.any:
                self._idle_since = None
            elif self._idle_since is None:
                self._idle_since = core.journals.clock.monotonic()
            elif lease.clock.monotonic() - self._idle_since >= every and self._release(core):
                self._beating = False
                return None
            due = every if lease.age >= every else every - lease.age
            return min(due, _SOON) if self._releases.any else due

    def _renew_in_time(self, core: Core, lease: Lease) -> None:
        try:
            self._write(core, lease, self._shown(lease.beat))
        except HoldfastError as error:
            if not lease.is_fresh:
                log.warning("the lease of this process can't be renewed: %s", error)
                self.stop_runs()

    def stop_runs(self) -> None:
        """Stop what is executed here: the lease has ended. Takes no lock: a beat may hang."""
        for run in list(self._runs.values()):
            run.stop_from_anywhere()

    def _lag(self) -> float:
        """How late the event loops are that execute runs here."""
        return max((run.lag() for run in list(self._runs.values())), default=0.0)

    def _release(self, core: Core) -> bool:
        """Give the slot back, unless a run is held."""
        lease, self._lease = self._lease, None
        if lease is None or lease.lost:
            return True
        if self._holds:  # someone began to claim, and may have seen the lease: it stays
            self._lease = lease
            return False
        with suppress(HoldfastError):  # then it is buried some time
            slots.write(core, lease.slot, lease.beat._replace(state="released"))
        lease.lost = True
        return True

    # --- runs that were left

    def leave(self, run: Run, facts: Mapping[str, Any], ending: Collection[Ending]) -> None:
        """Say in the run's journal that it is not executed any more, once its steps have ended.

        `ending` may grow until all of it has ended: child runs drop their steps when they stop.
        Takes no lock: a finalizer may call it.
        """
        under_way = [one for one in tuple(ending) if not one.done()]
        if under_way:
            self._ending[run.run_id] = ending
            for one in under_way:
                one.add_done_callback(lambda _: self._bell.put(None))
        lease = run.hold.lease
        if lease is not None and not lease.lost:
            self._owe(run.core, run.run_id, facts, run)

    def _owe(
        self, core: Core, run: str, facts: Mapping[str, Any] = NO_FACTS, left: Run | None = None
    ) -> None:
        self._releases.add(core, run, facts, left)
        self._bell.put(None)

    def part_from(self, core: Core) -> None:
        """The core is about to be closed: write what is owed, and give the slot back. Blocks.

        Steps in other threads are waited for, as far as they can't be stopped, or stop just now.
        """
        until = monotonic() + _AT_CLOSE
        while monotonic() < until and any(map(self._ends_elsewhere, self._write_owed(core))):
            sleep(_MOMENT)
        with self._slot:
            self._releases.write(core, _AT_CLOSE)
            self._release(core)
            self._cores = tuple(each for each in self._cores if each() not in (None, core))
        self._bell.put(None)

    def _write_owed(self, core: Core) -> list[str]:
        """Write what is owed to runs of a core; returns those that can't be released yet. Blocks."""
        with self._slot:
            return self._releases.write(core, _AT_CLOSE)

    def _ends_elsewhere(self, run_id: str) -> bool:
        """Whether what is left of a run may end while this thread waits."""
        run, ours = self._runs.get(run_id), asyncio._get_running_loop()  # noqa: SLF001
        loops = [] if run is None else [run.loop]
        for one in tuple(self._ending.get(run_id, ())):
            if isinstance(one, asyncio.Task):
                loops.append(None if one.done() else one.get_loop())
            elif not one.done():
                return True
        return any(loop not in (None, ours) and loop.is_running() for loop in loops)

    def end(self) -> None:
        """The process ends. Blocks."""
        for core in self._known_cores():
            if not core.closed:
                self.part_from(core)

    def wait_for_bell(self, seconds: float) -> None:
        """Wait until a run is left, or the time has passed."""
        with suppress(Empty):
            self._bell.get(timeout=seconds)

    def disown(self) -> None:
        """This is a forked copy: its runs are its parent's, and its locks may be held for ever."""
        for run in self._runs.values():
            if run.hold.lease is not None:
                run.hold.lease.lost = True
        if self._lease is not None:
            self._lease.lost = True
        self._reset()


class _Claiming:
    """A block in which a run is opened or claimed."""

    def __init__(self, presence: Presence, core: Core, run_id: str, opening: bool) -> None:
        self._presence = presence
        self.core = core
        self.run_id = run_id
        self.opening = opening

    def __enter__(self) -> None:
        self._presence.begin_claiming(self)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._presence.end_claiming(self, error)
