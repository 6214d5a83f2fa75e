"""One writer per store: group commit, order, backpressure and both colours in one place.

Whatever gathers while a commit runs goes into the next one. A blocking caller who finds the
queue empty commits by itself; everyone else hands a `Ticket` to the writer's thread and waits
for it, blocking or awaiting.

The fence of DESIGN rests on `Line`: after a conflict or an unknown outcome the line is broken,
and everything else queued on it fails until its owner has re-read the head and drawn a new one.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias

from holdfast.errors import (
    CheckpointSaveError,
    ConflictError,
    HoldfastError,
    OutcomeUnknownError,
    StoreClosedError,
    StoreUnavailableError,
    SyncFailedError,
)
from holdfast.model import Entry
from holdfast.seams import SYSTEM_CLOCK, Clock, fault, on_fork
from holdfast.store import Store

if TYPE_CHECKING:
    import asyncio

MAX_BATCH_ENTRIES: Final = 512
MAX_BATCH_BYTES: Final = 16 << 20
MAX_QUEUE_BYTES: Final = 64 << 20
MAX_QUEUE_TICKETS: Final = 10_000
IDLE_SECONDS: Final = 10.0  # after which the thread ends; the next ticket starts another
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0


Waiter: TypeAlias = "threading.Lock | asyncio.Future[None]"
"""A lock to release, or a future to finish on its loop."""


class Line:
    """What one owner believes about one run's head; broken once it was found to be wrong."""

    __slots__ = ("broken",)

    def __init__(self) -> None:
        self.broken = False


class Ticket:
    """Entries of one run on their way to the store. Resolved exactly once."""

    __slots__ = ("_waiters", "deadline", "done", "entries", "error", "line", "size", "unknown")

    def __init__(self, entries: Sequence[Entry], line: Line, deadline: float) -> None:
        self.entries = entries
        self.line = line
        self.deadline = deadline
        self.size = 256 * len(entries)
        for entry in entries:
            self.size += len(entry.body)
        self.done = False  # the outcome is known: `error` is final, and None means durable
        self.error: HoldfastError | None = None
        self.unknown = False  # a commit failed, and what it left could not be looked at yet
        self._waiters: list[Waiter] | None = None

    def wait_by(self, waiter: Waiter) -> bool:
        """Have the waiter woken once the outcome is known; False if it is known already.

        Takes no lock: whoever resolves sets `done` before looking for waiters, and a waiter is
        there before it looks at `done`, so one of the two sees the other.
        """
        if self._waiters is None:
            self._waiters = [waiter]
        else:
            self._waiters.append(waiter)
        return not self.done

    def resolve(self, error: HoldfastError | None) -> Sequence[Waiter]:
        """Set the outcome; returns who waits for it."""
        if error is not None:
            self.line.broken = True
            self.error = error
        self.done = True
        return self._waiters or ()


class Writer:
    """Appends to one store on behalf of everyone in this process."""

    def __init__(self, store: Store, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._clock = clock
        self._reset()
        on_fork(self._reset)

    def _reset(self) -> None:
        """A child of fork() starts afresh: what was queued is the parent's to write."""
        self._commit = threading.Lock()  # held by whoever is talking to the store
        self._mutex = threading.Lock()  # guards everything below, never held during I/O
        self._bell: SimpleQueue[None] = SimpleQueue()  # wakes the thread sooner than a Condition
        self._room = threading.Condition(self._mutex)
        self._queue: deque[Ticket] = deque()
        self._queued_bytes = 0
        self._thread: threading.Thread | None = None
        self._asleep = False
        self._kicking: asyncio.AbstractEventLoop | None = None  # the loop that will kick us
        self._closed = False

    def submit(self, ticket: Ticket) -> None:
        """Queue a ticket behind those submitted before it, without waiting.

        Follow it with `wait`, `future` or `kick`, or nobody may come to write it.
        """
        if self._store.inline:
            with self._commit:
                self._refuse_if_closed()
                if all(self._store.append(ticket.entries)):
                    ticket.resolve(None)
                else:
                    self._look([ticket])
            return
        with self._mutex:
            self._refuse_if_closed()
            self._queue.append(ticket)
            self._queued_bytes += ticket.size

    @property
    def full(self) -> bool:
        """Whether a well-behaved caller should `wait_for_room` before submitting more."""
        return self._queued_bytes > MAX_QUEUE_BYTES or len(self._queue) >= MAX_QUEUE_TICKETS

    def wait_for_room(self) -> None:
        """Block while the queue is full."""
        self.kick()
        with self._mutex:
            while self.full and not self._closed:
                self._room.wait()

    def wait(self, ticket: Ticket) -> None:
        """Block until the ticket is resolved, writing it here if the store is idle."""
        while not ticket.done and self._commit.acquire(blocking=False):
            try:
                batch = self._take()
                self._write(batch)
            finally:
                self._commit.release()
            if not batch:
                break
        if self._queue:
            self.kick()  # others queued up meanwhile, perhaps this very ticket
        if not ticket.done:
            done = threading.Lock()
            done.acquire()
            if ticket.wait_by(done):
                done.acquire()  # until whoever resolves the ticket releases it

    def future(self, ticket: Ticket) -> asyncio.Future[None]:
        """A future of the running loop that is done when the ticket is resolved."""
        loop = running_loop()
        future = loop.create_future()
        if not ticket.wait_by(future):
            if not future.done():
                future.set_result(None)
        elif self._kicking is not loop:
            # Once a turn of the loop: what its other tasks submit comes along in one batch.
            self._kicking = loop
            loop.call_soon(self._kick_from, loop)
        return future

    def _kick_from(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._kicking is loop:
            self._kicking = None
        self.kick()

    def kick(self) -> None:
        """See to it that what was submitted is written, without waiting for it."""
        with self._mutex:
            if not self._queue:
                return
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="holdfast-writer", daemon=True
                )
                self._thread.start()
                _busy.add(self)
            elif self._asleep:
                self._asleep = False
                self._bell.put(None)

    def drain(self) -> None:
        """Block until everything submitted so far is resolved."""
        with self._mutex:
            last = self._queue[-1] if self._queue else None
        if last is not None:
            self.wait(last)
        with self._commit:
            pass  # the batch that was under way is through

    def close(self) -> None:
        """Drain, then refuse further tickets. The store is left open."""
        self.drain()
        with self._mutex:
            self._closed = True
            self._bell.put(None)
            self._room.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreClosedError(self._store.url)

    # --- the thread

    def _run(self) -> None:
        while self._queue or self._more_comes():
            with self._commit:
                try:
                    self._write(self._take())
                except Exception:
                    # Everyone who waited was told. The thread must live: others count on it.
                    import logging

                    logging.getLogger("holdfast").exception("a store failed in an unexpected way")

    def _more_comes(self) -> bool:
        """Wait for the bell; False when there was nothing to do for a while, and the thread ends."""
        with self._mutex:
            self._asleep = not self._queue
        if self._asleep and not self._closed:
            with suppress(Empty):
                self._bell.get(timeout=IDLE_SECONDS)
                return True
        with self._mutex:
            self._asleep = False
            if self._queue:
                return True
            self._thread = None
            _busy.discard(self)
            return False

    def _take(self) -> list[Ticket]:
        batch: list[Ticket] = []
        entries = size = 0
        with self._mutex:
            while self._queue and entries < MAX_BATCH_ENTRIES and size < MAX_BATCH_BYTES:
                ticket = self._queue.popleft()
                batch.append(ticket)
                entries += len(ticket.entries)
                size += ticket.size
            self._queued_bytes -= size
            self._room.notify_all()
        return batch

    # --- committing, under self._commit

    def _write(self, batch: list[Ticket]) -> None:
        """Append the batch, again and again until each ticket has an outcome or is too late."""
        pause = _FIRST_PAUSE
        trouble: HoldfastError | None = None
        try:
            while batch := self._still_wanted(batch, trouble):
                try:
                    batch = self._append(batch)
                except SyncFailedError as error:
                    self._give_up(batch, error)
                    return
                except OutcomeUnknownError as error:
                    trouble = error
                    batch = self._look(batch)
                except StoreUnavailableError as error:
                    trouble = error
                if not batch:
                    return
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        except BaseException as error:
            self._give_up(batch, OutcomeUnknownError("", repr(error)))
            raise

    def _give_up(self, batch: list[Ticket], error: OutcomeUnknownError) -> None:
        """Tell each run's owner that its entries may be there, and may not."""
        for ticket in batch:
            told = type(error)(ticket.entries[0].run, error.reason)
            told.__cause__ = error
            self.resolve([ticket], told)

    def _still_wanted(self, batch: list[Ticket], trouble: HoldfastError | None) -> list[Ticket]:
        now = self._clock.monotonic()
        wanted = []
        for ticket in batch:
            first = ticket.entries[0]
            if ticket.line.broken:
                self.resolve([ticket], ConflictError(first.run, first.seq))
            elif ticket.deadline < now:
                kind = OutcomeUnknownError if ticket.unknown else CheckpointSaveError
                error = kind(first.run, str(trouble or "its deadline passed while it was queued"))
                error.__cause__ = trouble
                self.resolve([ticket], error)
            else:
                wanted.append(ticket)
        return wanted

    def _append(self, batch: list[Ticket]) -> list[Ticket]:
        """One attempt; returns the tickets to try again."""
        # Sorted: two processes that share runs would else wait for each other's locks. By ticket:
        # of two that begin at one place, the first must win or lose as a whole.
        batch.sort(key=_position)
        entries = [entry for ticket in batch for entry in ticket.entries]
        fault("writer.append.before")
        try:
            outcomes = self._store.append(entries)
        except (StoreUnavailableError, OutcomeUnknownError):
            raise
        except HoldfastError as error:
            if len(batch) == 1:
                self.resolve(batch, error)
            else:  # one bad entry must not fail the others
                for ticket in batch:
                    self._write([ticket])
            return []
        fault("writer.append.after")
        if all(outcomes):
            self.resolve(batch, None)
            return []
        losers = {entry.run for entry, won in zip(entries, outcomes, strict=True) if not won}
        self.resolve([t for t in batch if t.entries[0].run not in losers], None)
        return self._look([t for t in batch if t.entries[0].run in losers])

    def _look(self, batch: list[Ticket]) -> list[Ticket]:
        """After a conflict or a lost reply: one's own entry ids in place mean success.

        Returns the tickets to try again, because nothing of theirs is there or because
        looking failed too: an append that did happen will then be found by its own ids.
        """
        again = []
        for ticket in batch:
            first = ticket.entries[0]
            try:
                found = self._store.read(
                    first.run, after=first.seq - 1, limit=len(ticket.entries), bodies=False
                )
                head = self._store.read(first.run, newest_first=True, limit=1, bodies=False)
            except HoldfastError:
                ticket.unknown = True
                again.append(ticket)
                continue
            ticket.unknown = False
            if [e.entry_id for e in found] == [e.entry_id for e in ticket.entries]:
                self.resolve([ticket], None)
            elif not head or head[0].seq < first.seq:
                again.append(ticket)
            else:
                self.resolve([ticket], ConflictError(first.run, first.seq))
        return again

    def resolve(self, batch: Sequence[Ticket], error: HoldfastError | None) -> None:
        """Give every ticket its outcome; wake each loop once, however many it waits for."""
        loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for ticket in batch:
            for waiter in ticket.resolve(error):
                if isinstance(waiter, _LOCK):
                    waiter.release()
                else:
                    loops.setdefault(waiter.get_loop(), []).append(waiter)
        for loop, futures in loops.items():
            try:
                loop.call_soon_threadsafe(_wake, futures)
            except RuntimeError:  # the loop is closed: nobody waits there any more
                continue


def writer_for(store: Store, clock: Clock = SYSTEM_CLOCK) -> Writer:
    """The store's one writer in this process."""
    with _registry:
        writer = _by_store.get(id(store))
        if writer is None:
            writer = _by_store[id(store)] = Writer(store, clock)  # which keeps the store alive
        return writer


def running_loop() -> asyncio.AbstractEventLoop:
    """The event loop that runs here.

    asyncio is imported when first asked for one: that is a third of the time it takes to import
    holdfast, and a blocking program need not pay it.
    """
    global _get_running_loop
    if _get_running_loop is None:
        import asyncio

        _get_running_loop = asyncio.get_running_loop
    return _get_running_loop()


def _position(ticket: Ticket) -> tuple[str, int]:
    first = ticket.entries[0]
    return first.run, first.seq


def _wake(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


_get_running_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
_LOCK: Final = type(threading.Lock())
_registry = threading.Lock()
_by_store: weakref.WeakValueDictionary[int, Writer] = weakref.WeakValueDictionary()
_busy: set[Writer] = set()


@atexit.register
def _drain_at_exit() -> None:
    for writer in list(_busy):
        writer.close()
