"""The contract's tests of watching, as `Checkpointer.watch` does it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final

import pytest

from holdfast.changes import Change, Notifying
from holdfast.checkpointer import SyncCheckpointer
from holdfast.errors import StoreClosedError
from holdfast.kernel.watching import SyncChanges
from holdfast.model import HIDDEN
from holdfast.store import PAGE, Store
from holdfast.testing.invariants import entry, tombstone

EVERY: Final = 0.02
DEADLINE: Final = 60.0
"""Seconds after which a change counts as missed."""


class WatchingContract:
    """Part of `StoreContract`."""

    def test_whoever_watches_all_runs_is_told_which_grew(self, store: Store) -> None:
        store.append([entry("old", 0)])
        with _checkpointer(store) as cp, cp.watch(every=EVERY) as changes:
            assert changes.wait(DEADLINE) == [Change()]  # any of those that are there
            store.append([entry("old", 1), entry("new", 0), entry("new", 1)])
            told(changes, {"old", "new"})
            assert store.append([entry("old", 1)]) == [False]
            store.append([entry("old", 2)])
            told(changes, {"old"})

    def test_whoever_watches_one_run_is_told_its_newest_entry(self, store: Store) -> None:
        with _checkpointer(store) as cp, cp.watch("run", every=EVERY) as changes:
            store.append([entry("run", 0), entry("other", 0)])
            assert changes.wait(DEADLINE) == [Change("run", 0, "open")]
            store.append([entry("other", 1)])
            store.append([entry("run", 1), entry("run", 2, status="paused")])
            newest = changes.wait(DEADLINE)
            if newest == [Change("run", 1, "open")]:  # it looked while they were being appended
                newest = changes.wait(DEADLINE)
            assert newest == [Change("run", 2, "paused")]

    def test_what_is_appended_before_the_first_wait_is_not_missed(self, store: Store) -> None:
        store.append([entry("run", 0)])
        with (
            _checkpointer(store) as cp,
            cp.watch("run", every=EVERY) as one,
            cp.watch(every=EVERY) as every,
        ):
            store.append([entry("run", 1)])
            assert one.wait(DEADLINE) == [Change("run", 1, "open")]
            assert told(every, {None})

    def test_trims_and_erasures_are_changes(self, store: Store) -> None:
        store.append([entry(run, seq, b"x") for run in ("a", "b") for seq in range(3)])
        with (
            _checkpointer(store) as cp,
            cp.watch("a", every=EVERY) as one,
            cp.watch(every=EVERY) as every,
        ):
            assert one.wait(DEADLINE) == [Change("a", 2, "open")]
            told(every, {None})
            assert store.trim(entry("a", 3, kind="trim"), {0: None})
            assert one.wait(DEADLINE) == [Change("a", 3, "open")]
            told(every, {"a"})
            assert store.erase(tombstone("b", 3))
            told(every, {"b"})
            assert store.erase(tombstone("a", 4))
            assert one.wait(DEADLINE) == [Change("a", 4, "deleted")]

    def test_hidden_journals_are_not_shown(self, store: Store) -> None:
        with _checkpointer(store) as cp, cp.watch(every=EVERY) as changes:
            told(changes, {None})
            for seq in range(3):
                store.append([entry(f"{HIDDEN}secret", seq)])
                store.erase(tombstone(f"{HIDDEN}slot", seq))
                store.append([entry(f"run-{seq}", 0)])
                assert told(changes, {f"run-{seq}"}) <= {"run-0", "run-1", "run-2"}

    def test_a_change_is_found_among_many_runs(self, open_store: Callable[[], Store]) -> None:
        count = PAGE + 20
        with closing(open_store()) as store, _checkpointer(store) as cp:
            store.append([entry(f"run-{n:04}", 0) for n in range(count)])
            with cp.watch(every=EVERY) as changes:
                told(changes, {None})
                wanted = {f"run-{n:04}" for n in (0, PAGE, count - 1)}
                store.append([entry(run, 1) for run in sorted(wanted)])
                told(changes, {*wanted})

    def test_watching_a_store_that_is_closed_says_so(self, open_store: Callable[[], Store]) -> None:
        with closing(open_store()) as store:
            store.append([entry("run", 0)])
        with pytest.raises(StoreClosedError):
            store.watch() if isinstance(store, Notifying) else store.poll()


@contextmanager
def _checkpointer(store: Store) -> Iterator[SyncCheckpointer]:
    with SyncCheckpointer(store) as cp:
        yield cp
    names = {thread.name for thread in threading.enumerate()}
    assert "holdfast-watcher" not in names, "its thread is left behind"


def told(changes: SyncChanges, wanted: set[str | None]) -> set[str | None]:
    """The runs that were told of, once all that are wanted are among them."""
    told: set[str | None] = set()
    until = time.monotonic() + DEADLINE
    while not wanted <= told:
        assert time.monotonic() < until, f"not told of {wanted - told}"
        told |= {change.run_id for change in changes.wait(1)}
    return told
