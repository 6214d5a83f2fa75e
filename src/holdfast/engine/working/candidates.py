"""Finding what a worker should execute: runs that are due, and runs whose process is dead."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection
from typing import Final, NamedTuple

from holdfast.engine.holding import slots
from holdfast.engine.holding.here import process_of
from holdfast.engine.holding.lease import Holder
from holdfast.engine.holding.observing import look_again_within, standing_of
from holdfast.engine.timers import PARK_AFTER
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.core import Core
from holdfast.operations.children import root_of
from holdfast.store import RunFilter

log = logging.getLogger("holdfast")

LOOK: Final = 10.0  # seconds between two looks at the processes that hold runs
_AHEAD: Final = PARK_AFTER * 1e6  # microseconds: what is due by then is known, and waited for
_MOST: Final = 200  # runs that one look finds


class Candidate(NamedTuple):
    """A run that nobody executes, as far as the index knows."""

    run_id: str
    flow: str


class Finder:
    """Looks for runs of some flows that nobody executes. Everything here blocks."""

    def __init__(self, core: Core, flows: Collection[str]) -> None:
        self._core = core
        self._flows = flows
        self._orphaned: dict[str, Candidate] = {}
        self._look_at = 0.0  # by the monotonic clock: when to look at other processes
        self.due_in = PARK_AFTER  # seconds until the next run is due, at most so many
        self.workers = 1  # how many there are, as far as is known

    def find(self) -> list[Candidate]:
        """What may be executed now, in no order. Raises `StoreError`."""
        clock = self._core.journals.clock
        if clock.monotonic() >= self._look_at:
            self._find_orphans()
            self._look_at = clock.monotonic() + min(LOOK, look_again_within(self._core))
        now = clock.now()
        found = dict(self._orphaned)
        self.due_in = PARK_AFTER
        store = self._core.journals.store
        for row in store.due(now + int(_AHEAD), flows=self._flows, limit=_MOST):
            assert row.due is not None
            if row.due > now:
                self.due_in = (row.due - now) / 1e6
                break
            one = Candidate(row.run, row.flow or "")
            if row.parent is not None:
                root = self._root(row.run)
                if root is None:
                    continue
                one = root
            found.setdefault(one.run_id, one)
        shuffled = list(found.values())
        random.shuffle(shuffled)  # workers seldom want the same one
        return shuffled

    def taken(self, run_id: str) -> None:
        """Somebody executes the run now, or it needs nobody."""
        self._orphaned.pop(run_id, None)

    def _find_orphans(self) -> None:
        """Look at every process that holds runs; those of the dead are orphans."""
        self._orphaned.clear()
        core = self._core
        presence = process_of(core).known_presence(core)
        for text in core.journals.store.holders():
            holder = Holder.parse(text)
            if holder is not None and presence is not None and presence.had(holder.nonce):
                continue
            if standing_of(core, holder, "").why is not None:
                self._add_runs_of(text)
        self.workers = max(1, sum(1 for slot in slots.every_slot(core) if _works(slot)))

    def _add_runs_of(self, holder: str) -> None:
        before = None
        while len(self._orphaned) < _MOST:
            where = RunFilter(holder=holder, roots=True)
            page = self._core.journals.store.listed(where, before=before, limit=_MOST)
            for row, _ in page:
                before = row.position
                if row.flow in self._flows:
                    self._orphaned[row.run] = Candidate(row.run, row.flow or "")
            if len(page) < _MOST:
                return

    def _root(self, run: str) -> Candidate | None:
        """The run to be continued for the sake of a child run, if it is one of ours."""
        try:
            root = root_of(self._core, run)
        except CheckpointCorruptedError as error:
            log.warning("the run that %s is a part of can't be read: %s", run, error)
            return None
        if root is None or root.flow not in self._flows:
            return None
        return Candidate(root.run, root.flow or "")


def _works(slot: slots.Slot) -> bool:
    return slot.beat is not None and slot.beat.state == "alive" and slot.beat.at_once > 0
