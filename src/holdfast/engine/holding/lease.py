"""The right to execute runs, and what entries say about who has it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from holdfast.engine.holding.process import Identity
from holdfast.engine.holding.slots import Beat, Slot
from holdfast.seams import Clock

_SLOT: Final = re.compile("-1|[0-9]{1,9}")
_PID: Final = re.compile("[0-9]{1,10}")
_SAFE: Final = 2 / 3  # of `dead_after`: no step begins when the last beat is older


class Lease:
    """The right to execute runs, as long as the slot is beaten. Shared by all runs of a process."""

    __slots__ = ("beat", "clock", "lost", "renewed", "slot")

    def __init__(self, slot: Slot, beat: Beat, renewed: float, clock: Clock) -> None:
        self.slot = slot
        self.beat = beat
        self.renewed = renewed  # by the monotonic clock, before the last beat was written
        self.lost = False  # the process was declared dead, or is a forked copy
        self.clock = clock

    @property
    def age(self) -> float:
        """Seconds since it was renewed."""
        return self.clock.monotonic() - self.renewed

    @property
    def left(self) -> float:
        """Seconds until it ends, unless it is renewed."""
        return _SAFE * self.beat.dead_after - self.age

    @property
    def is_fresh(self) -> bool:
        """Whether a step may begin: nobody can have declared this process dead."""
        return not self.lost and self.left > 0


class Holder(NamedTuple):
    """The process that opened or claimed a run, as the entry says."""

    slot: int  # -1 in a store that only one process uses
    nonce: str
    process: Identity

    def __str__(self) -> str:
        return "|".join(map(str, (self.slot, self.nonce, *self.process)))

    @classmethod
    def parse(cls, text: str | None) -> Holder | None:
        """The holder that this text, made by `str`, describes; None if it is not valid."""
        parts = (text or "").split("|")
        if len(parts) != 6 or not _SLOT.fullmatch(parts[0]) or not _PID.fullmatch(parts[4]):
            return None
        process = Identity(parts[2], parts[3], int(parts[4]), parts[5])
        return cls(int(parts[0]), parts[1], process)
