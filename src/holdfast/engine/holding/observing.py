"""Whether the holder of a run is alive, and burying it if it is not.

Wall clocks are never compared. A process of this machine is looked up; any other one is dead when
its slot stood still for `dead_after` seconds, as its own beat says, on this process's monotonic
clock. Reads must follow each other closely: after an outage the count begins anew.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from holdfast.codec.meta import Meta
from holdfast.engine.holding import slots
from holdfast.engine.holding.here import process_of
from holdfast.engine.holding.lease import Holder
from holdfast.engine.holding.slots import Beat, Seen, Slot
from holdfast.errors import CheckpointCorruptedError, RunActiveError, StoreError
from holdfast.kernel.core import Core
from holdfast.model import Entry, Kind, Status

Why = Literal["released", "died", "taken_over"]
"""Why a process may claim a run: only "died" counts as a crash."""


class Standing(NamedTuple):
    """Who holds a run, according to its journal and the slots."""

    holder: Holder | None  # who executed it last, if known
    why: Why | None = None  # it may be claimed; None while it is held, or that is undecided
    patience: float = 0.0  # a process elsewhere may need so many seconds to be seen alive or dead
    answered: bool = False  # it paused for an answer, which has come

    @property
    def undecided(self) -> bool:
        """Whether the holder may be alive: it has to be looked at again."""
        return self.patience > 0

    @property
    def name(self) -> str:
        """The holder's host and pid, for people."""
        return "unknown" if self.holder is None else self.holder.process.name


def standing(core: Core, head: Entry, *, bury: bool = True) -> Standing:
    """Who holds the run with this head. Blocks.

    A holder that is found dead is buried, unless it is only to be looked at; its runs may be
    claimed then. Raises `CheckpointCorruptedError`, and `StoreError` in an outage.
    """
    if head.status != Status.RUNNING:
        return Standing(None, "released")
    said = head if head.seq == head.term else core.journals.entry(head.run, head.term)
    if said is None:
        raise CheckpointCorruptedError(head.run, head.term, "the entry that says who holds it")
    if said.kind not in (Kind.OPEN, Kind.CLAIM) or said.status != Status.RUNNING:
        return Standing(None, "released", answered=said.status == Status.PAUSED)
    return standing_of(core, Holder.parse(Meta(said).holder), head.run, bury=bury)


def standing_of(core: Core, holder: Holder | None, run: str, *, bury: bool = True) -> Standing:
    """Whether this holder of a run, or of one that it is about to open, is alive. Blocks."""
    if holder is None:
        return Standing(None, "released")
    presence = process_of(core).known_presence(core)
    if presence is not None and is_here(core, holder):
        held = presence.is_opening(run) or presence.find(run) is not None
        return Standing(holder, None if held else "released")
    if holder.slot < 0 or not core.journals.store.shared:
        return Standing(holder, "died")  # only one process can use the store, and that is we
    return _judged(core, holder, bury)


def is_here(core: Core, holder: Holder) -> bool:
    """Whether it is this process, which knows of each of its runs whether it holds it still."""
    presence = process_of(core).known_presence(core)
    return presence is not None and presence.had(holder.nonce)


def refuse_if_held(core: Core, head: Entry) -> Why:
    """Why the run with this head may be claimed. Raises `RunActiveError` if it is held. Blocks."""
    found = standing(core, head)
    if found.why is None:
        raise active_error(head.run, found)
    return found.why


def active_error(run: str, found: Standing) -> RunActiveError:
    """What to raise for a run that is held, or may be."""
    advice = ""
    if found.undecided:
        advice = (
            f"whether that is alive is clear within {found.patience:.0f} s: wait=True waits for "
            "it, or for the run's end"
        )
    return RunActiveError(run, Status.RUNNING, found.name, advice)


def look_again_within(core: Core) -> float:
    """Seconds within which to look at processes elsewhere again, or the count begins anew."""
    presence = process_of(core).known_presence(core)
    seen = () if presence is None else tuple(presence.seen.values())
    return min((each.every for each in seen), default=math.inf)


def _judged(core: Core, holder: Holder, bury: bool) -> Standing:
    process = process_of(core)
    place = process.identity.place
    known = process.known_presence(core)
    seen = {} if known is None else known.seen
    while True:
        before = core.journals.clock.monotonic()
        try:
            slot = slots.read(core, holder.slot)
        except StoreError:
            seen.pop(holder.slot, None)
            raise
        after = core.journals.clock.monotonic()
        beat = slot.beat
        if slot.head is None or (beat is not None and beat.nonce != holder.nonce):
            return Standing(holder, "died")  # what was seen is about the one that has the slot now
        if beat is None:
            beat = Beat(holder.nonce, "alive", holder.process)
        if beat.state != "alive":
            return Standing(holder, "released" if beat.state == "released" else "died")
        lives = beat.process.lives(place)
        if lives:
            return Standing(holder)
        seen = process.presence(core).seen  # writes nothing: where there are slots, there is an id
        if lives is None and not _stood_still(seen, slot, beat, before, after):
            return Standing(holder, patience=beat.dead_after + beat.every)
        if not bury or slots.write(core, slot, beat._replace(state="buried")) is not None:
            return Standing(holder, "died")


def _stood_still(
    seen: dict[int, Seen], slot: Slot, beat: Beat, before: float, after: float
) -> bool:
    """Whether a slot that was read between these times has stood still long enough."""
    known = seen.get(slot.number)
    since = after
    if known is not None and known.seq == slot.seq and after - known.last <= 2 * beat.every:
        since = known.since
    seen[slot.number] = Seen(slot.seq, since, before, beat.every)
    return before - since >= beat.dead_after
