"""Notifications within one process, for stores that only one process can use."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue

from holdfast.changes import Change, Watch
from holdfast.model import HIDDEN, Entry
from holdfast.seams import on_fork


class LocalWatches:
    """Those who watch a store: `queues` has one for each."""

    def __init__(self) -> None:
        self._reset()
        on_fork(self._reset)

    def _reset(self) -> None:
        self.queues: list[SimpleQueue[Change | None]] = []

    def open(self) -> Watch:
        """Watch from now on."""
        watch = _LocalWatch(self)
        self.queues.append(watch.changes)
        return watch

    def forget(self, changes: SimpleQueue[Change | None]) -> None:
        """Tell this one no more."""
        with suppress(ValueError):
            self.queues.remove(changes)

    def tell(self, entries: Iterable[Entry]) -> None:
        """Notify of entries that were just appended."""
        watches = tuple(self.queues)
        if watches:
            for entry in entries:
                if not entry.run.startswith(HIDDEN):
                    for changes in watches:
                        changes.put(Change(entry.run, entry.seq, entry.status))


class _LocalWatch(Watch):
    def __init__(self, watches: LocalWatches) -> None:
        self._watches = watches
        self.changes: SimpleQueue[Change | None] = SimpleQueue()

    def wait(self, seconds: float) -> list[Change]:
        found: list[Change | None] = []
        with suppress(Empty):
            found.append(self.changes.get(timeout=seconds))
            while True:
                found.append(self.changes.get_nowait())
        return [change for change in found if change is not None]

    def wake(self) -> None:
        self.changes.put(None)

    def close(self) -> None:
        self._watches.forget(self.changes)
