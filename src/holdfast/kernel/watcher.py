"""One watcher per store: a thread that tells everyone in this process which runs changed.

It waits for the store's notifications, or polls. It runs while somebody is subscribed, connects
again after an outage, and then says that any run may have changed.

Subscribers are told without locks: a change is put before the waiters are looked at, and a waiter
is there before it looks for changes, so one of the two sees the other.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from holdfast.changes import ANY_RUN, Change, Notifying, Watch
from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.kernel.owner_view import OwnerView
from holdfast.kernel.store_view import real_store
from holdfast.kernel.ticket import Waiter, wake_waiters
from holdfast.logs import logger
from holdfast.model import HIDDEN
from holdfast.seams import on_fork
from holdfast.store import Store

log: Final = logger()

EVERY: Final = 1.0
"""Seconds between two looks at a store that does not notify."""

_NOTIFIED: Final = 5.0  # seconds between looks at a run whose changes are notified: some are missed
_LONGEST_WAIT: Final = 60.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_MOST: Final = 10_000  # changes kept for one subscriber; beyond that, any run may have changed
_EXIT_SECONDS: Final = 5.0


class Subscriber:
    """Keeps the changes of one run, or of all, until they are taken."""

    def __init__(self, run: str | None, every: float, owner: OwnerView | None = None) -> None:
        self.run = run
        self.owner = owner  # what it may see; None: everything
        self.every = every
        self.error: HoldfastError | None = None  # why there are no more changes
        self.closed = False
        self.stale = True  # may have missed changes: has just subscribed, or there was an outage
        self.look_at = 0.0  # when to look at its run
        self.head: tuple[int | None, bytes] | None = None  # what was seen there last
        self.waiters: list[Waiter] = []
        self._changes: deque[Change] = deque()

    def put(self, change: Change) -> None:
        """Keep a change, and wake whoever waits for one."""
        if len(self._changes) >= _MOST:
            self._changes.clear()
            change = ANY_RUN
        self._changes.append(change)
        wake_waiters(tuple(self.waiters))

    def take(self) -> list[Change]:
        """The changes since the last call, of each run the newest only."""
        newest: dict[str | None, Change] = {}
        with suppress(IndexError):
            while True:
                change = self._changes.popleft()
                newest.pop(change.run_id, None)
                newest[change.run_id] = change
        return list(newest.values())

    def end(self, error: HoldfastError | None = None) -> None:
        """There are no more changes: it was closed, or can't go on."""
        self.error = self.error or error
        self.closed = True
        wake_waiters(tuple(self.waiters))


class Watcher:
    """Watches one store for its subscribers in this process, in a thread of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._subscribers: dict[int, Subscriber] = {}
        self._watch: Watch | None = None
        self._reset()
        on_fork(self._reset)

    def _reset(self) -> None:
        """A child of fork() has no thread. The next to wait starts one, with its own connection."""
        if self._watch is not None:
            _inherited.append(self._watch)
        self._watch = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending: threading.Thread | None = None
        self._bell: SimpleQueue[None] = SimpleQueue()  # may be rung by a destructor
        self._out = False  # whether an outage was logged that is not over yet

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell the subscriber of changes from now on, first of those that it may have missed.

        It is no error if it is subscribed already: then only the thread is looked after.
        """
        with self._lock:
            if id(subscriber) not in self._subscribers:
                self._subscribers[id(subscriber)] = subscriber
                subscriber.stale = True
                self.wake()
            if self._thread is None:
                for each in self._everyone():
                    each.stale = True
                thread = threading.Thread(target=self._run, name="holdfast-watcher", daemon=True)
                thread.start()  # before it is known: starting may fail
                self._thread = thread
                _running.add(self)

    def leave(self, subscriber: Subscriber) -> None:
        """Tell it no more. The thread ends after the last one. Takes no lock: for destructors."""
        self._subscribers.pop(id(subscriber), None)
        self.wake()

    def wake(self) -> None:
        """Have the thread look around."""
        watch = self._watch
        if watch is None:
            self._bell.put(None)
        else:
            watch.wake()

    def join(self) -> None:
        """Wait for the thread to end, if nobody is subscribed any more."""
        threads = (self._ending, None if self._subscribers else self._thread)
        for thread in threads:
            if thread is not None and thread is not threading.current_thread():
                thread.join(_EXIT_SECONDS)

    def stop(self) -> None:
        """End the thread, whoever is subscribed."""
        self._subscribers.clear()
        self.wake()
        self.join()

    def _everyone(self) -> list[Subscriber]:
        return list(self._subscribers.values())

    def _wanted(self) -> bool:
        """Whether somebody is subscribed; if not, the thread has to end."""
        with self._lock:
            if self._subscribers:
                return True
            self._ending, self._thread = self._thread, None
            _running.discard(self)
            return False

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while self._wanted():
            watch: Watch | None = None
            try:
                with self._open() as watch:
                    self._watch = watch
                    for subscriber in self._everyone():
                        subscriber.stale = True
                    while self._wanted():
                        self._tell(watch)
                        pause = _FIRST_PAUSE
                    return
            except (StoreUnavailableError, OutcomeUnknownError) as error:
                self._log(error)
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except HoldfastError as error:
                self._fail(error)
            except Exception as error:
                log.exception("watching a store failed in an unexpected way")
                self._fail(StoreError(f"{self._store.url}: {error!r}"))
            finally:
                if self._watch is watch:  # else that of the next thread
                    self._watch = None

    def _open(self) -> Watch:
        watch = self._store.watch() if isinstance(self._store, Notifying) else None
        return watch or _Polling(self._store, self._bell)

    def _tell(self, watch: Watch) -> None:
        """Wait once, and put what was found where it belongs."""
        everyone = self._everyone()
        for_all = [subscriber for subscriber in everyone if subscriber.run is None]
        for_one = [subscriber for subscriber in everyone if subscriber.run is not None]
        polling = isinstance(watch, _Polling)
        if isinstance(watch, _Polling):
            watch.follow(min((each.every for each in for_all), default=None))
        now = time.monotonic()
        self._look([each for each in for_one if each.stale or each.look_at <= now], polling)
        for subscriber in for_all:
            if subscriber.stale:
                subscriber.stale = False
                subscriber.put(ANY_RUN)
        self._recovered()
        until = min((each.look_at for each in for_one), default=now + _LONGEST_WAIT)
        found = watch.wait(max(0.0, until - time.monotonic()))
        names = {change.run_id for change in found}
        for change in found:
            if change.run_id is None or not change.run_id.startswith(HIDDEN):
                self._put(change, for_all)
        for subscriber in for_one:
            if None in names or subscriber.run in names:
                subscriber.look_at = 0.0

    def _put(self, change: Change, subscribers: Iterable[Subscriber]) -> None:
        """Tell those of a change who may see it."""
        shown: dict[str, Change | None] = {}
        for subscriber in subscribers:
            view = subscriber.owner
            if view is None:
                subscriber.put(change)
                continue
            if view.owner not in shown:
                shown[view.owner] = view.shown(change)
            told = shown[view.owner]
            if told is not None:
                subscriber.put(told)

    def _look(self, subscribers: Iterable[Subscriber], polling: bool) -> None:
        """Read the heads of these subscribers' runs, each once."""
        heads: dict[tuple[str, str | None], tuple[tuple[int | None, bytes], Change] | None] = {}
        for subscriber in subscribers:
            view = subscriber.owner
            run = subscriber.run or "", None if view is None else view.owner
            if run not in heads:
                heads[run] = self._head(run[0], view or self._store)
            subscriber.stale = False
            pause = subscriber.every if polling else max(subscriber.every, _NOTIFIED)
            subscriber.look_at = time.monotonic() + pause
            found = heads[run]
            if found is not None and found[0] != subscriber.head:
                subscriber.head = found[0]
                subscriber.put(found[1])

    def _head(self, run: str, store: Store) -> tuple[tuple[int | None, bytes], Change] | None:
        try:
            found = store.read(run, newest_first=True, limit=1, bodies=False)
        except CheckpointCorruptedError as error:
            return (error.seq, b"?"), Change(run, error.seq)
        if not found:
            return None
        (head,) = found
        return (head.seq, head.digest), Change(run, head.seq, head.status)

    def _fail(self, error: HoldfastError) -> None:
        for subscriber in self._everyone():
            self._subscribers.pop(id(subscriber), None)
            subscriber.end(error)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._everyone() and (left := until - time.monotonic()) > 0:
            with suppress(Empty):
                self._bell.get(timeout=left)

    def _log(self, error: HoldfastError) -> None:
        """Log an outage once."""
        if not self._out:
            self._out = True
            log.warning("can't watch for now: %s", getattr(error, "reason", None) or error)

    def _recovered(self) -> None:
        if self._out:
            self._out = False
            log.warning("watching again: %s answers", self._store.url)


class _Polling(Watch):
    """Asks the store again and again."""

    def __init__(self, store: Store, bell: SimpleQueue[None]) -> None:
        self._store = store
        self._bell = bell
        self._mark: object = None
        self._every: float | None = None
        self._due = 0.0

    def follow(self, every: float | None) -> None:
        """From now on ask about all runs every so many seconds, or not at all."""
        if every is None:
            self._mark = None
        elif self._mark is None:
            self._mark, _ = self._store.poll()
            self._due = time.monotonic() + every
        elif every != self._every:
            self._due = min(self._due, time.monotonic() + every)
        self._every = every

    def wait(self, seconds: float) -> list[Change]:
        if self._every is not None:
            seconds = min(seconds, max(0.0, self._due - time.monotonic()))
        with suppress(Empty):
            self._bell.get(timeout=seconds)
        if self._every is None or time.monotonic() < self._due:
            return []
        self._mark, found = self._store.poll(self._mark)
        self._due = time.monotonic() + self._every
        return found

    def wake(self) -> None:
        self._bell.put(None)

    def close(self) -> None:
        """There is nothing to release."""


def watcher_for(store: Store) -> Watcher:
    """The store's one watcher in this process, for all views of it."""
    store = real_store(store)
    with _registry:
        watcher = _by_store.get(id(store))
        if watcher is None:
            watcher = _by_store[id(store)] = Watcher(store)  # which keeps the store alive
        return watcher


_registry = threading.Lock()
_by_store: weakref.WeakValueDictionary[int, Watcher] = weakref.WeakValueDictionary()
_running: set[Watcher] = set()
_inherited: list[object] = []
"""Connections of the parent process, which this one must neither use nor close."""


@atexit.register
def _stop_at_exit() -> None:
    for watcher in list(_running):
        watcher.stop()
