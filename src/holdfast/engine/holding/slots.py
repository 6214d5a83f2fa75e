"""The rows by which processes know of each other: one slot for each process that holds runs.

A slot is a hidden journal that is replaced, never grown: each beat erases the one before it, by an
append behind exactly that one. So of a holder's beat and an observer's burial one wins, and the
other knows that it lost.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from holdfast.codec.meta import Meta, dump_meta
from holdfast.engine.holding.process import Identity
from holdfast.errors import CheckpointCorruptedError, InvalidIdError
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.reader import all_runs
from holdfast.kernel.tip import Tip
from holdfast.model import PROCESSES, Entry, Kind, Status, check_id, process_journal
from holdfast.operations.children import head_to_delete
from holdfast.store import RunFilter

DEAD_AFTER: Final = 30.0
"""Seconds without a beat after which a process on another machine is dead."""

BEATS: Final = 6
"""How often a process beats in that time."""

MOST_STEPS: Final = 50
"""The most steps that a beat tells of."""

_LONGEST: Final = 86_400.0  # seconds; a row that says more is damaged or hostile
_DIGITS: Final = 9

State = Literal["alive", "released", "buried"]


def check_dead_after(seconds: float) -> None:
    """Raise `ValueError` unless a process may beat that slowly, and `TypeError` for no number."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"dead_after is a number of seconds, not {seconds!r}")
    if not 1 <= seconds <= _LONGEST:
        raise ValueError(f"dead_after must be between 1 and {_LONGEST:,.0f} seconds, not {seconds}")


class UnderWay(NamedTuple):
    """A step that is being executed."""

    run_id: str
    step: str
    fraction: float | None  # how much of it is done, as it said itself
    message: str

    def __str__(self) -> str:
        share = "" if self.fraction is None else f" {100 * self.fraction:.0f} %"
        return f"{self.step}{share} {self.message}".rstrip()


class Beat(NamedTuple):
    """What a slot says about the process that has it."""

    nonce: str  # random; of one time that a process had the slot
    state: State
    process: Identity
    dead_after: float = DEAD_AFTER
    lag: float = 0.0  # seconds that an event loop of the process was late
    flows: tuple[str, ...] = ()  # whose runs the process executes as a worker
    at_once: int = 0  # how many of them
    verifies: bool = False  # the process checks claims for others
    doing: tuple[UnderWay, ...] = ()  # some of the steps that it executes

    @property
    def every(self) -> float:
        """How often the process beats, in seconds."""
        return self.dead_after / BEATS


class Slot(NamedTuple):
    """A slot as it was read: the beat there, and where the next one goes."""

    number: int
    head: Entry | None  # None: nobody had it yet
    beat: Beat | None  # None: it can't be read

    @property
    def seq(self) -> int:
        """How often it was written."""
        return -1 if self.head is None else self.head.seq

    @property
    def is_free(self) -> bool:
        """Whether a process may take it."""
        return self.head is None or (self.beat is not None and self.beat.state != "alive")


class Seen(NamedTuple):
    """What an observer knows of a slot of a process elsewhere, by its own monotonic clock."""

    seq: int
    since: float  # it has stood there for as long as this
    last: float  # when it was read last
    every: float  # how often its process beats


def read(core: Core, number: int) -> Slot:
    """The slot of this number. Raises `StoreUnavailableError`. Blocks."""
    run = process_journal(number)
    try:
        head = core.journals.checked_head(run)
        return Slot(number, head, None if head is None else _parse(head))
    except CheckpointCorruptedError:  # its process repairs it with its next beat
        return Slot(number, head_to_delete(core, run), None)


def every_slot(core: Core) -> Iterator[Slot]:
    """All slots, in no order. Blocks."""
    where = RunFilter(status=Status.DELETED.value, prefix=PROCESSES)
    for head in all_runs(core.journals.store, where):
        number = _number(head)
        if number is not None:
            yield read(core, number)


def glance(core: Core) -> dict[int, Slot]:
    """All slots by number, in one read and unchecked: enough to count, or to see who moves. Blocks."""
    found: dict[int, Slot] = {}
    where = RunFilter(status=Status.DELETED.value, prefix=PROCESSES)
    for head in all_runs(core.journals.store, where):
        number = _number(head)
        if number is not None:
            try:
                found[number] = Slot(number, head, _parse(head))
            except CheckpointCorruptedError:
                found[number] = Slot(number, head, None)
    return found


def _number(head: Entry) -> int | None:
    number = head.run.removeprefix(PROCESSES)
    return int(number) if number.isascii() and number.isdigit() and len(number) <= _DIGITS else None


def write(core: Core, slot: Slot, beat: Beat) -> Slot | None:
    """Put a beat into a slot; None if it was written since it was read. Blocks.

    Raises `StoreError`; after `OutcomeUnknownError` the beat may be there.
    """
    facts: dict[str, Any] = {
        "nonce": beat.nonce,
        "state": beat.state,
        "process": list(beat.process),
        "dead_after": float(beat.dead_after),
        "lag": round(beat.lag, 3),
    }
    if beat.at_once:
        facts |= {"flows": list(beat.flows), "at_once": beat.at_once}
    if beat.verifies:
        facts["verifies"] = True
    if beat.doing:
        facts["doing"] = [list(one) for one in beat.doing]
    entry = replace(core, process_journal(slot.number), slot.head, facts)
    return None if entry is None else Slot(slot.number, entry, beat)


def replace(core: Core, name: str, head: Entry | None, facts: Mapping[str, Any]) -> Entry | None:
    """Replace the one row of a hidden journal; None if that is not its head any more. Blocks."""
    tip = Tip(name, head)
    proved = {**facts, "after": tip.digest.hex()}  # what was before it is gone
    gone = Draft(Kind.TOMBSTONE.value, Status.DELETED.value, parent=None, meta=dump_meta(proved))
    entry = core.journals.place(tip, gone)
    return entry if core.journals.store.erase(entry) else None


def take(core: Core, beat: Beat, place: str) -> Slot:
    """A slot that nobody has, or whose process is seen to be dead, with this beat in it. Blocks."""
    while True:
        known = list(every_slot(core))
        free = [slot for slot in known if slot.is_free or _is_dead(slot, place)]
        if not free:
            highest = max((slot.number for slot in known), default=-1)
            free = [Slot(highest + 1, None, None)]
        taken = write(core, random.choice(free), beat)  # noqa: S311 - processes seldom collide
        if taken is not None:
            return taken


def _is_dead(slot: Slot, place: str) -> bool:
    return slot.beat is not None and slot.beat.process.lives(place) is False


def _parse(head: Entry) -> Beat:
    """The beat in a slot. Raises `CheckpointCorruptedError`."""
    meta = Meta(head)
    state, dead_after, lag = meta.state, meta.dead_after, meta.lag
    if not meta.nonce or state not in get_args(State):
        meta.refuse("it is no beat")
    if not (0 < dead_after <= _LONGEST and 0 <= lag < math.inf):
        meta.refuse("its times are not in range")
    if [type(field) for field in meta.process] != [str, str, int, str]:
        meta.refuse("it names no process")
    process = Identity(*meta.process)
    flows = tuple(name for name in meta.flows if isinstance(name, str))
    return Beat(
        meta.nonce,
        cast("State", state),
        process,
        dead_after,
        lag,
        flows,
        meta.at_once,
        meta.verifies,
        tuple(_steps(meta.doing)),
    )


def _steps(told: Sequence[Any]) -> Iterator[UnderWay]:
    for one in told[:MOST_STEPS]:
        if isinstance(one, list) and len(one) == 4:
            run_id, step, fraction, message = one
            share = fraction if isinstance(fraction, int | float) and 0 <= fraction <= 1 else None
            with suppress(InvalidIdError):  # no run has that name
                yield UnderWay(check_id("run", run_id), str(step), share, str(message))
