"""One writer per store: group commit, order and backpressure, for sync and async callers alike.

Tickets submitted during a commit go into the next one. Blocking callers take turns: the next one
writes for all who wait. Async callers leave it to the writer's thread.

Ctrl-C may interrupt a blocking caller between any two lines. So a ticket stays in the queue until
its outcome is known, writing it twice is harmless (it is found by its own entry ids), and locks
are only ever taken by `with`.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from holdfast.errors import (
    CheckpointSaveError,
    ConflictError,
    HoldfastError,
    OutcomeUnknownError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
    SyncFailedError,
)
from holdfast.kernel.looking import look_for
from holdfast.kernel.store_view import real_store
from holdfast.kernel.ticket import Line, Ticket, digests_behind, fail_all, wake
from holdfast.logs import logger
from holdfast.model import Entry
from holdfast.seams import SYSTEM_CLOCK, Clock, fault, on_fork
from holdfast.store import ANY_HEAD, Behind, Store, Transactional, Work

if TYPE_CHECKING:
    import asyncio

log: Final = logger()

MAX_BATCH_ENTRIES: Final = 512
MAX_BATCH_BYTES: Final = 16 << 20
MAX_QUEUE_BYTES: Final = 64 << 20
MAX_QUEUE_TICKETS: Final = 10_000
IDLE_SECONDS: Final = 10.0  # then the thread ends; the next ticket starts another
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0


class Writer:
    """Appends to one store on behalf of everyone in this process."""

    def __init__(self, store: Store, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._clock = clock
        self._reset()
        on_fork(self._reset)

    def _reset(self) -> None:
        """A child of fork() starts afresh: what was queued is the parent's to write."""
        self._commit = threading.Lock()  # held by the thread that talks to the store
        self._mutex = threading.Lock()  # guards everything below, never held during I/O
        self._bell: SimpleQueue[None] = SimpleQueue()  # wakes the thread sooner than a Condition
        self._queue: deque[Ticket] = deque()
        self._queued_bytes = 0
        self._thread: threading.Thread | None = None
        self._asleep = False
        self._kicking: asyncio.AbstractEventLoop | None = None  # the loop that will kick us
        self._working = 0  # the thread that runs a ticket's work right now
        self._held_up = False  # whether an outage was logged that is not over yet
        self._closed = False

    def submit(self, ticket: Ticket) -> None:
        """Queue a ticket behind those submitted before it, without waiting.

        Follow it with `wait`, `future` or `kick`, or it may never be written.
        """
        store = self._store
        if self._working:
            self._refuse_from_work()
        if ticket.work is not None and (store.inline or not isinstance(store, Transactional)):
            raise StoreError(
                f"{store.url} can't run commit= in its transaction; use SQLite, "
                "PostgreSQL or MySQL, or make what the step does safe to repeat"
            )
        inline = store.inline
        with self._commit if inline else self._mutex:
            if self._closed:
                raise StoreClosedError(store.url)
            if not inline:
                ticket.size = sum([256 + len(entry.body) for entry in ticket.entries])
                self._queue.append(ticket)
                self._queued_bytes += ticket.size
                return
            digest, run = ticket.behind, ticket.entries[0].run
            if all(store.append(ticket.entries, ANY_HEAD if digest is None else {run: digest})):
                ticket.resolve(None)
            else:
                look_for(store, [ticket], refused=True)

    def queued(self, run: str) -> list[Entry]:
        """The entries of a run that are on their way to the store, in order."""
        with self._mutex:
            return [e for t in self._queue if not t.done for e in t.entries if e.run == run]

    @property
    def full(self) -> bool:
        """Whether a well-behaved caller should `wait_for_room` before submitting more."""
        return self._queued_bytes > MAX_QUEUE_BYTES or len(self._queue) >= MAX_QUEUE_TICKETS

    @property
    def closed(self) -> bool:
        """Whether it takes no more tickets."""
        return self._closed

    def wait_for_room(self) -> None:
        """Block while the queue is full, writing from its front."""
        while self.full:
            with self._commit:
                self._write_some()

    def wait(self, ticket: Ticket) -> None:
        """Block until the ticket is resolved, writing it here unless someone else does."""
        self._refuse_from_work()
        while not ticket.done:
            if not ticket.entries:  # a placeholder: not ours to write, and to be looked at again
                ticket.wait()
                return
            with self._commit:  # its last holder may have written this very ticket
                if not ticket.done:
                    self._write_some()

    def future(self, ticket: Ticket) -> asyncio.Future[None]:
        """A future of the running loop that is done when the ticket is resolved."""
        future = ticket.future()
        loop = future.get_loop()
        if not future.done() and self._kicking is not loop:
            # Once per turn of the loop: what its other tasks submit goes into the same batch.
            loop.call_soon(self._kick_from, loop)
            self._kicking = loop  # last: Ctrl-C may come in between
        return future

    def _kick_from(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._kicking is loop:
            self._kicking = None
        self.kick()

    def kick(self) -> None:
        """Start or wake the writer's thread, without waiting for it."""
        with self._mutex:
            if not self._queue:
                return
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)
                thread.start()  # before it is known: starting may fail
                self._thread = thread
                _busy.add(self)
            elif self._asleep:
                self._asleep = False
                self._bell.put(None)

    def drain(self) -> None:
        """Block until everything submitted so far is resolved."""
        self._refuse_from_work()
        while self._queue:
            with self._commit:
                self._write_some()
        with self._commit:
            pass  # the batch that was being written is done

    def close(self) -> None:
        """Drain, then refuse further tickets. The store is left open."""
        self.drain()
        with self._mutex:
            self._closed = True
            self._bell.put(None)
            thread = self._thread
        if thread is not None:
            thread.join()

    def _refuse_from_work(self) -> None:
        """A ticket's work would wait here for its own end."""
        if self._working == threading.get_ident() and self._commit.locked():
            raise StoreError(
                f"{self._store.url} is in the middle of a commit=, which can't save by itself; "
                "save before or after the step"
            )

    def _run(self) -> None:
        while self._queue or self._more_comes():
            with self._commit:
                try:
                    self._write_some()
                except Exception:
                    # Those who waited have the error. The thread must live for all others.
                    log.exception("a store failed in an unexpected way")

    def _more_comes(self) -> bool:
        """Wait for the bell; False, which ends the thread, after `IDLE_SECONDS` without work."""
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

    def _write_some(self) -> None:
        """Write the next batch of the queue, retrying until all its tickets have outcomes."""
        for pause in self._attempts():
            time.sleep(pause)

    def _attempts(self) -> Iterator[float]:
        """Write the next batch; gives the seconds to wait before each retry.

        New tickets join each retry, so that a short deadline never waits for a long one.
        """
        pause = _FIRST_PAUSE
        trouble: HoldfastError | None = None
        while batch := self._next_batch(trouble):
            # Those on a broken line may be there already, and are only looked for: written now,
            # they could follow the very entry that took the place of the one before them.
            writable = [ticket for ticket in batch if not ticket.line.broken]
            try:
                if writable:
                    self._append(writable)
            except SyncFailedError as error:
                fail_all(writable, error)
            except OutcomeUnknownError as error:
                trouble = error
                look_for(self._store, writable)
            except StoreUnavailableError as error:
                trouble = error
            except Exception as error:
                fail_all(writable, OutcomeUnknownError("", repr(error)))
                self._wake(batch)
                raise
            self._wake(batch)
            if all(ticket.done for ticket in batch):
                if self._held_up and any(ticket.error is None for ticket in batch):
                    self._held_up = False
                    log.warning("saving again: %s answers", self._store.url)
                return
            if trouble is not None:
                self.held_up(trouble)
            yield pause
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _next_batch(self, trouble: HoldfastError | None) -> list[Ticket]:
        """The tickets from the front of the queue that go into one transaction.

        Of each run only those of one line: if two lines met in a batch, the first entry that
        loses would take later ones with it. A ticket with work has a transaction of its own.
        """
        batch: list[Ticket] = []
        refused: list[Ticket] = []
        lines: dict[str, Line] = {}
        entries = size = 0
        with self._mutex:
            queue = list(self._queue)  # also what is done, if Ctrl-C came before it was removed
        for ticket in queue:
            if entries >= MAX_BATCH_ENTRIES or size >= MAX_BATCH_BYTES:
                break
            if not self._still_wanted(ticket, trouble):
                refused.append(ticket)
            elif lines.setdefault(ticket.entries[0].run, ticket.line) is ticket.line:
                batch.append(ticket)
                entries += len(ticket.entries)
                size += ticket.size
        if refused:
            self._wake(refused)
        with_work = [place for place, ticket in enumerate(batch) if ticket.work is not None]
        return batch[: with_work[0] or 1] if with_work else batch

    def _still_wanted(self, ticket: Ticket, trouble: HoldfastError | None) -> bool:
        """Whether to write the ticket; one that lost its head or is too late is resolved.

        While the store answers, none is too late, however long it was queued. In an outage a
        deadline holds also for those that wait behind others, and were never tried.
        """
        first = ticket.entries[0]
        if ticket.unknown:
            look_for(self._store, [ticket])  # before it may count as lost
        if ticket.done:
            return False
        if ticket.line.broken and not ticket.unknown:
            ticket.resolve(ConflictError(first.run, first.seq))
        elif (trouble is not None or ticket.unknown) and ticket.deadline < self._clock.monotonic():
            kind = OutcomeUnknownError if ticket.unknown else CheckpointSaveError
            reason = getattr(trouble, "reason", None) or trouble or "the store can't be read"
            error = kind(first.run, str(reason))
            error.__cause__ = trouble
            ticket.resolve(error)
        return not ticket.done

    def _wake(self, batch: list[Ticket]) -> None:
        """Wake those who wait for a ticket that is done, and remove it from the queue."""
        wake(batch)
        with self._mutex:
            while self._queue and self._queue[0].done:
                self._queued_bytes -= self._queue.popleft().size
            if not self._queue:
                self._queued_bytes = 0

    def _append(self, batch: list[Ticket]) -> None:
        """One attempt at the whole batch; resolves each ticket whose outcome is known."""
        # Sorted, or two processes that share runs could deadlock in the database. By ticket: of
        # two that begin at the same seq, the first must win or lose as a whole.
        if len(batch) > 1:
            batch.sort(key=lambda ticket: ticket.entries[0][:2])  # run and seq
        entries = [entry for ticket in batch for entry in ticket.entries]
        fault("writer.append.before")
        try:
            outcomes = self._put(entries, batch[0].work, digests_behind(batch))
        except (StoreUnavailableError, OutcomeUnknownError):
            raise
        except HoldfastError as error:
            if len(batch) == 1:
                batch[0].resolve(error)
                return
            for ticket in batch:  # one bad entry must not fail the others
                if ticket.line.broken:  # but those that build on it
                    ticket.resolve(ConflictError(*ticket.entries[0][:2]))
                else:
                    self._append([ticket])
            return
        fault("writer.append.after")
        lost = {entry.run for entry, won in zip(entries, outcomes, strict=True) if not won}
        for ticket in batch:
            if ticket.entries[0].run not in lost:
                ticket.resolve(None)
        if lost:
            look_for(self._store, [ticket for ticket in batch if not ticket.done], refused=True)

    def _put(self, entries: list[Entry], work: Work | None, behind: Behind) -> list[bool]:
        if work is None:
            return self._store.append(entries, behind)
        assert isinstance(self._store, Transactional), "others are refused by submit"
        try:
            self._working = threading.get_ident()
            return self._store.append_with(entries, work, behind)
        finally:
            self._working = 0

    def held_up(self, error: HoldfastError) -> None:
        """Log that the store is unavailable and saves are retried, once for each outage."""
        if not self._held_up:
            self._held_up = True
            log.warning("retrying to save: %s", getattr(error, "reason", None) or error)


def writer_for(store: Store, clock: Clock = SYSTEM_CLOCK) -> Writer:
    """The store's one writer in this process, for all views of it."""
    store = real_store(store)
    with _registry:
        writer = _by_store.get(id(store))
        if writer is None:
            writer = _by_store[id(store)] = Writer(store, clock)  # which keeps the store alive
        return writer


_registry = threading.Lock()
_by_store: weakref.WeakValueDictionary[int, Writer] = weakref.WeakValueDictionary()
_busy: set[Writer] = set()


@atexit.register
def _drain_at_exit() -> None:
    for writer in list(_busy):
        with suppress(HoldfastError):  # its callers have the error; drain the other writers
            writer.close()
