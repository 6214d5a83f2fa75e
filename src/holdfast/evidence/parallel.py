"""Runs many checks at once, each to a deadline.

Threads rather than a pool: a check that hangs in a system call can't be stopped, only abandoned,
and must delay neither its caller nor the end of the process. One thread starts at once, and another
every few milliseconds while work is left and progress is slow; once there is one for each processor
they start more slowly. So checks answered from memory need one thread, those that hash get as many
as can run, and those that wait get more.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.evidence.context import Context
from holdfast.evidence.verdicts import Verdict, inconclusive
from holdfast.seams import SYSTEM_CLOCK, Clock

MAX_WORKERS: Final = 32
_PROCESSORS: Final = os.cpu_count() or 1
_GROW_SECONDS: Final = (0.002, 0.05)  # until there is a thread for each processor, and then
_FAST: Final = 16  # checks in that time; more threads would only take turns

Begin = Callable[[float], Context]
"""Makes the context of a check, given its deadline."""

Judge = Callable[[Context], Verdict]
"""Runs a check. Does not raise."""


def judge_all(
    checks: Sequence[Judge],
    begin: Begin,
    *,
    each: float,
    total: float,
    workers: int = MAX_WORKERS,
    clock: Clock = SYSTEM_CLOCK,
) -> list[Verdict]:
    """The verdict of each check. Returns after `total` seconds, and what checks asked for to read
    large files (`Context.expects`), at the latest.

    A check that makes no progress for `each` seconds, or is not over by the end, is INCONCLUSIVE;
    its thread is abandoned, and its later result ignored.
    """
    return _Batch(checks, begin, each, clock).run(total, workers)


class _Slot:
    """What one thread is doing. Another reads it, so `current` is set in one assignment."""

    __slots__ = ("abandoned", "current")

    def __init__(self) -> None:
        self.current: tuple[int, Context] | None = None
        self.abandoned = False


class _Batch:
    def __init__(self, checks: Sequence[Judge], begin: Begin, each: float, clock: Clock) -> None:
        self.checks = checks
        self.begin = begin
        self.each = each
        self.clock = clock
        self.pending = deque(range(len(checks)))
        self.found: dict[int, Verdict] = {}  # filled by setdefault only: the first verdict counts
        self.slots: list[_Slot] = []
        self.ended: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        self.end = 0.0
        self._lock = threading.Lock()

    def extend(self, seconds: float) -> None:
        with self._lock:
            self.end += seconds

    def run(self, total: float, workers: int) -> list[Verdict]:
        begun = self.clock.monotonic()
        self.end = begun + total
        before = 0
        try:
            while (done := len(self.found)) < len(self.checks):
                if self.clock.monotonic() >= self.end:
                    break
                self._abandon_late()
                busy = sum(not slot.abandoned for slot in self.slots)
                if self.pending and (not busy or (busy < workers and done - before < _FAST)):
                    self._start()
                before = done
                grow = _GROW_SECONDS[busy >= _PROCESSORS]
                self._wait(grow if self.pending and busy < workers else total)
        finally:
            self.pending.clear()
            for slot in self.slots:
                self._abandon(slot)
        spent = f"{self.end - begun:.4g}"
        late = inconclusive(f"not checked: all {spent} s for this call were used up")
        return [self.found.setdefault(index, late) for index in range(len(self.checks))]

    def _start(self) -> None:
        slot = _Slot()
        thread = threading.Thread(
            target=self._work, args=(slot,), name="holdfast-evidence", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no more threads: those there are do the work, if there are any
            if all(slot.abandoned for slot in self.slots):
                raise
        else:
            self.slots.append(slot)

    def _wait(self, most: float) -> None:
        """Until a thread ends, a deadline passes, or so many seconds."""
        now = self.clock.monotonic()
        # A thread that takes its next check while we wait is late after `each` at the earliest.
        wake = min(self.end, now + self.each, now + most)
        for slot in self.slots:
            current = slot.current
            if current is not None and not current[1].expired:
                wake = min(wake, current[1].deadline)
        try:
            self.slots.remove(self.ended.get(timeout=max(0.0, wake - now) + 0.0005))
        except queue.Empty:
            return

    def _abandon_late(self) -> None:
        now = self.clock.monotonic()
        for slot in self.slots:
            current = slot.current
            if current is not None and now >= current[1].deadline:
                self._abandon(slot)

    def _abandon(self, slot: _Slot) -> None:
        """Give up on what the thread does now. It stays in `slots` until it ends by itself."""
        slot.abandoned = True
        current = slot.current
        if current is not None:
            index, context = current
            self.found.setdefault(index, inconclusive(f"not known after {self.each:g} s"))
            context.expire()

    def _work(self, slot: _Slot) -> None:
        pending, found, monotonic = self.pending, self.found, self.clock.monotonic
        while not slot.abandoned:
            try:
                index = pending.popleft()
            except IndexError:
                break
            context = self.begin(min(monotonic() + self.each, self.end))
            context.within(self)
            slot.current = (index, context)
            verdict = self.checks[index](context)
            if not context.expired:
                found.setdefault(index, verdict)
            slot.current = None
        self.ended.put(slot)
