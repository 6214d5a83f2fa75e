"""Many checks at once, none of them longer than it may take.

Threads rather than a pool: a check that hangs in a system call can't be ended, only left alone,
and must hold up neither its caller nor the end of the process. One thread is started at once and
another each few milliseconds while there is work left and it goes slowly, more slowly once there
is one for each processor: checks that are answered from memory are over before threads could get
in each other's way, those that hash have as many as can run, and those that wait get more.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.evidence.context import Context
from holdfast.evidence.verdicts import Verdict, inconclusive
from holdfast.seams import SYSTEM_CLOCK, Clock

MAX_WORKERS: Final = 32
_PROCESSORS: Final = os.cpu_count() or 1
_GROW_SECONDS: Final = (0.002, 0.05)  # until there is a thread for each processor, and then
_FAST: Final = 16  # checks in that time; more threads would only take turns

Begin = Callable[[int, float], Context]
"""The context of the check with this number, given its deadline."""

Judge = Callable[[int, Context], Verdict]
"""Runs the check with this number. Does not raise."""


def judge_all(
    count: int,
    begin: Begin,
    judge: Judge,
    *,
    each: float,
    total: float,
    workers: int = MAX_WORKERS,
    clock: Clock = SYSTEM_CLOCK,
) -> list[Verdict]:
    """The verdicts on checks 0 … count-1. Returns after `total` seconds at the latest.

    A check that takes longer than `each` seconds, or is not over by the end, is INCONCLUSIVE;
    its thread is left to itself, and what it finds later is not heard.
    """
    return _Batch(count, begin, judge, each, clock).run(total, workers)


class _Slot:
    """What one thread is doing. Read by another, so what belongs together is set at once."""

    __slots__ = ("abandoned", "current")

    def __init__(self) -> None:
        self.current: tuple[int, Context] | None = None
        self.abandoned = False


class _Batch:
    def __init__(self, count: int, begin: Begin, judge: Judge, each: float, clock: Clock) -> None:
        self.count = count
        self.begin = begin
        self.judge = judge
        self.each = each
        self.clock = clock
        self.pending = deque(range(count))
        self.found: dict[int, Verdict] = {}  # filled by setdefault only: the first word counts
        self.slots: list[_Slot] = []
        self.ended: queue.SimpleQueue[_Slot] = queue.SimpleQueue()

    def run(self, total: float, workers: int) -> list[Verdict]:
        end = self.clock.monotonic() + total
        before = 0
        try:
            while (done := len(self.found)) < self.count and self.clock.monotonic() < end:
                self._abandon_late()
                busy = sum(not slot.abandoned for slot in self.slots)
                if self.pending and (not busy or (busy < workers and done - before < _FAST)):
                    self._start(end)
                before = done
                grow = _GROW_SECONDS[busy >= _PROCESSORS]
                self._wait(end, grow if self.pending and busy < workers else total)
        finally:
            self.pending.clear()
            for slot in self.slots:
                self._abandon(slot)
        late = inconclusive(f"not checked: all {total:g} s for this call were used up")
        return [self.found.setdefault(index, late) for index in range(self.count)]

    def _start(self, end: float) -> None:
        slot = _Slot()
        thread = threading.Thread(
            target=self._work, args=(slot, end), name="holdfast-evidence", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no more threads: those there are do the work, if there are any
            if all(slot.abandoned for slot in self.slots):
                raise
        else:
            self.slots.append(slot)

    def _wait(self, end: float, most: float) -> None:
        """Until a thread ends, a deadline passes, or so many seconds."""
        now = self.clock.monotonic()
        # A thread that takes its next check while we wait is late after `each` at the earliest.
        wake = min(end, now + self.each, now + most)
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

    def _work(self, slot: _Slot, end: float) -> None:
        pending, found, monotonic = self.pending, self.found, self.clock.monotonic
        while not slot.abandoned:
            try:
                index = pending.popleft()
            except IndexError:
                break
            context = self.begin(index, min(monotonic() + self.each, end))
            slot.current = (index, context)
            verdict = self.judge(index, context)
            if not context.expired:
                found.setdefault(index, verdict)
            slot.current = None
        self.ended.put(slot)
