"""What `watch()` of a checkpointer returns: changes to await, or to block for."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Self

from holdfast.changes import Change
from holdfast.errors import StoreClosedError
from holdfast.kernel.core import Core
from holdfast.kernel.owner_view import owner_view
from holdfast.kernel.ticket import finish, running_loop
from holdfast.kernel.watcher import EVERY, Subscriber, watcher_for
from holdfast.model import check_id


class _Changes:
    """Changes of one run, or of all runs, from when it was made."""

    def __init__(self, core: Core, run_id: str | None = None, *, every: float = EVERY) -> None:
        if run_id is not None:
            check_id("run_id", run_id)
        if not every > 0:
            raise ValueError(f"every must be a number of seconds above 0, not {every!r}")
        store = core.journals.store
        self._subscriber = Subscriber(run_id, every, owner_view(store))
        self._watcher = core.watcher = watcher_for(store)
        self._untold: deque[Change] = deque()  # taken, but not iterated over yet
        core.watching.add(self)

    def _end(self, error: StoreClosedError | None = None) -> None:
        self._subscriber.end(error)
        self._watcher.leave(self._subscriber)

    def __del__(self) -> None:
        if hasattr(self, "_watcher"):
            self._end()

    def _found(self) -> list[Change] | None:
        """What to return without waiting; None if there is nothing yet."""
        found = [*self._untold, *self._subscriber.take()]
        self._untold.clear()
        if found or (self._subscriber.closed and self._subscriber.error is None):
            return found
        if self._subscriber.error is not None:
            raise self._subscriber.error
        self._watcher.subscribe(self._subscriber)
        return None


class Changes(_Changes):
    """Changes of runs, awaited: `async for`, or `wait`. A context manager.

    Use it in one task at a time.
    """

    async def wait(self, timeout: float | None = None) -> list[Change]:
        """Wait until something changed, or for so many seconds; return what, of each run once.

        The first call returns at once: with the newest entry of the one run that is watched, if it
        exists, or with a `Change` that says that any run may have changed. So what happened before
        it is not missed. Empty after the timeout, and once this was closed.
        """
        loop = running_loop()
        until = None if timeout is None else loop.time() + timeout
        while True:
            future = loop.create_future()
            timer = None if until is None else loop.call_at(until, finish, [future])
            self._subscriber.waiters.append(future)  # before looking, or a change could be missed
            try:
                found = self._found()
                if found is None:
                    await future
                    found = self._found()
                if found is not None:
                    return found
            finally:
                self._subscriber.waiters.remove(future)
                if timer is not None:
                    timer.cancel()
            if until is not None and loop.time() >= until:
                return []

    def close(self) -> None:
        """Stop watching, without waiting; a `wait` in another task returns. Twice is fine."""
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        self._untold.extend(await self.wait())
        if not self._untold:
            raise StopAsyncIteration
        return self._untold.popleft()


class SyncChanges(_Changes):
    """Changes of runs: `for`, or `wait`, which block. A context manager.

    Use it in one thread at a time.
    """

    def wait(self, timeout: float | None = None) -> list[Change]:
        """Block until something changed, or for so many seconds; return what, of each run once.

        The first call returns at once: with the newest entry of the one run that is watched, if it
        exists, or with a `Change` that says that any run may have changed. So what happened before
        it is not missed. Empty after the timeout, and once this was closed.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            event = threading.Event()
            self._subscriber.waiters.append(event)
            try:
                found = self._found()
                if found is None:
                    event.wait(None if until is None else max(0.0, until - time.monotonic()))
                    found = self._found()
                if found is not None:
                    return found
            finally:
                self._subscriber.waiters.remove(event)
            if until is not None and time.monotonic() >= until:
                return []

    def close(self) -> None:
        """Stop watching; a `wait` in another thread returns. Twice is fine."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        self._untold.extend(self.wait())
        if not self._untold:
            raise StopIteration
        return self._untold.popleft()


def stop_watching(core: Core) -> None:
    """End what watches by this checkpointer. Blocks for a moment."""
    for changes in list(core.watching):
        changes._end(StoreClosedError(core.journals.store.url))  # noqa: SLF001
    core.watcher.join()
