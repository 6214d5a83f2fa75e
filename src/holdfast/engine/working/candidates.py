"""Finding what a worker should execute: runs that are due, and runs whose process is dead."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from holdfast.engine.holding import slots
from holdfast.engine.holding.here import process_of
from holdfast.engine.holding.lease import Holder
from holdfast.engine.holding.observing import look_again_within, standing_of
from holdfast.engine.holding.presence import Presence
from holdfast.engine.holding.slots import Slot
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.core import Core
from holdfast.logs import about, logger
from holdfast.operations.children import root_of
from holdfast.store import RunFilter

log = logger()

_LOOKS: Final = 3  # at the processes that hold runs, in the time after which one counts as dead
_AT_NEWS: Final = 0.4  # so much of that time passes between two looks while others change runs
_AHEAD: Final = 10.0  # seconds: what is due by then is known, and waited for
_MOST: Final = 200  # runs that one look finds
_FURTHEST: Final = 20_000  # runs it passes over for that: not ours, or could not be executed here


class Candidate(NamedTuple):
    """A run that nobody executes, as far as the index knows."""

    run_id: str
    flow: str
    orphaned: bool = False  # its process is dead


class Finder:
    """Looks for runs of some flows that nobody executes. Everything here blocks."""

    def __init__(
        self,
        core: Core,
        flows: Collection[str],
        dead_after: float,
        may_try: Callable[[Candidate], bool],
    ) -> None:
        self._core = core
        self._flows = flows
        self._may_try = may_try  # False for what could not be executed just now
        self._look_at = _MOST  # rows of the index, to find that many runs among them
        self.every = dead_after / _LOOKS  # seconds between two looks at the processes, at most
        self.at_news = self.every * _AT_NEWS  # and while others change runs
        self._orphaned: dict[str, Candidate] = {}
        self._looked_at: float | None = None  # at the processes, by the monotonic clock
        self._seen: dict[int, Slot] = {}  # by number
        self._near: list[Holder] = []  # processes of this machine that were alive then
        self._roots: dict[str, Candidate | None] = {}  # by child run
        self.due_in = _AHEAD  # seconds until the next run is due, if that is soon
        self.workers = 1  # how many there are, as far as is known

    def find(self, *, news: bool) -> list[Candidate]:
        """What may be executed now, in no order. Raises `StoreError`.

        `news`: others have changed runs since the last look.
        """
        clock = self._core.journals.clock
        if self._looked_at is None or self.somebody_died() or self._is_time(news):
            self._look_at_processes()
            self._looked_at = clock.monotonic()
        now = clock.now()
        found = self._orphaned | self._due(now)
        shuffled = list(found.values())
        random.shuffle(shuffled)  # workers seldom want the same one
        return shuffled

    def _due(self, now: int) -> dict[str, Candidate]:
        """The runs that are due. Those that are not to be tried must not hide what is behind them."""
        while True:
            found: dict[str, Candidate] = {}
            self.due_in = _AHEAD
            rows = self._core.journals.store.due(
                now + round(_AHEAD * 1e6), flows=self._flows, limit=self._look_at
            )
            for row in rows:
                if row.due is not None and row.due > now:
                    self.due_in = (row.due - now) / 1e6
                    break
                child = row.parent is not None
                one = self._root(row.run) if child else Candidate(row.run, row.flow or "")
                if one is not None:
                    found.setdefault(one.run_id, one)
            if len(rows) < self._look_at or self.due_in < _AHEAD:
                self._look_at = max(_MOST, self._look_at // 2)
                return found
            if self._look_at >= _FURTHEST or self._is_enough(found):
                return found
            self._look_at = min(2 * self._look_at, _FURTHEST)

    def _is_enough(self, found: Mapping[str, Candidate]) -> bool:
        """Whether some of these runs may be tried now: then the others can wait."""
        return any(map(self._may_try, found.values()))

    def somebody_died(self) -> bool:
        """Whether a process of this machine is gone that held runs. Asks no store."""
        place = process_of(self._core).identity.place
        return any(holder.process.lives(place) is False for holder in self._near)

    def taken(self, run_id: str) -> None:
        """Somebody executes the run now, or it needs nobody."""
        self._orphaned.pop(run_id, None)

    def _is_time(self, news: bool) -> bool:
        assert self._looked_at is not None
        pause = min(self.at_news if news else self.every, look_again_within(self._core))
        return self._core.journals.clock.monotonic() - self._looked_at >= pause

    def _look_at_processes(self) -> None:
        """Look at every process that holds runs; those of the dead are orphans."""
        core = self._core
        before, self._seen = self._seen, slots.glance(core)
        self.workers = max(1, sum(map(_works, self._seen.values())))
        self._orphaned.clear()
        self._near = []
        presence = process_of(core).known_presence(core)
        place = process_of(core).identity.place
        for text in core.journals.store.holders():
            holder = Holder.parse(text)
            if holder is not None and presence is not None and presence.had(holder.nonce):
                if not core.journals.store.shared:  # nobody else could: no release is written
                    self._add_runs_of(text, presence)
                continue
            if holder is not None and _has_moved(holder, before, self._seen):
                continue
            if standing_of(core, holder, "").why is not None:
                self._add_runs_of(text)
            elif holder is not None and holder.process.lives(place):
                self._near.append(holder)

    def _add_runs_of(self, holder: str, ours: Presence | None = None) -> None:
        before = None
        while len(self._orphaned) < _MOST or not self._is_enough(self._orphaned):
            where = RunFilter(holder=holder, roots=True)
            page = self._core.journals.store.listed(where, before=before, limit=_MOST)
            for row, _ in page:
                before = row.position
                left = ours is None or not ours.is_executed(row.run)
                if row.flow in self._flows and left:
                    self._orphaned[row.run] = Candidate(row.run, row.flow or "", orphaned=True)
            if len(page) < _MOST:
                return

    def _root(self, run: str) -> Candidate | None:
        """The run to be continued for the sake of a child run, if it is one of ours."""
        if run not in self._roots:
            if len(self._roots) > _FURTHEST:
                self._roots.clear()
            self._roots[run] = self._found_root(run)
        return self._roots[run]

    def _found_root(self, run: str) -> Candidate | None:
        try:
            root = root_of(self._core, run)
        except CheckpointCorruptedError as error:
            log.warning(
                "the run that %s is a part of can't be read: %s", run, error, extra=about(run)
            )
            return None
        if root is None or root.flow not in self._flows:
            return None
        return Candidate(root.run, root.flow or "")


def _works(slot: Slot) -> bool:
    return slot.beat is not None and slot.beat.state == "alive" and slot.beat.at_once > 0


def _has_moved(holder: Holder, before: dict[int, Slot], now: dict[int, Slot]) -> bool:
    """Whether a process elsewhere gave a sign of life between two looks."""
    then, here = before.get(holder.slot), now.get(holder.slot)
    if then is None or here is None or here.beat is None or here.beat.nonce != holder.nonce:
        return False
    return here.beat.state == "alive" and here.seq > then.seq
