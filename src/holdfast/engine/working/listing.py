"""Who executes the runs of a store, for people who look."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.engine.holding import slots
from holdfast.engine.holding.here import process_of
from holdfast.engine.holding.lease import Holder
from holdfast.engine.holding.observing import standing_of
from holdfast.engine.holding.slots import UnderWay
from holdfast.kernel.core import Core
from holdfast.kernel.owner_view import owner_view


class WorkerInfo(NamedTuple):
    """A process that executes runs, or waits for them."""

    host: str
    pid: int
    state: Literal["alive", "dead", "unknown"]  # unknown: elsewhere, and not looked at for long
    flows: tuple[str, ...]  # that it works for; empty: it executes only what it started itself
    at_once: int  # how many runs it would execute
    runs: int  # how many it holds
    seen_at: datetime  # its last beat, by its own clock
    lag: float  # seconds that its event loop was blocked at that time
    verifies: bool = False  # it checks claims when others ask for it


def doing_now(core: Core) -> dict[str, list[UnderWay]]:
    """The steps that living processes execute, by run, as their last beats say. Blocks."""
    bound = owner_view(core.journals.store)
    found: dict[str, list[UnderWay]] = {}
    for slot in slots.glance(core).values():
        told = slot.beat.doing if slot.beat is not None and slot.beat.state == "alive" else ()
        for one in told:
            # No owner hears of another's runs, nor of one that nothing is known of any more.
            if bound is None or bound.row(one.run_id) is not None:
                found.setdefault(one.run_id, []).append(one)
    return found


def list_workers(core: Core) -> list[WorkerInfo]:
    """The processes that have a slot, by host and pid. Writes nothing. Blocks."""
    held: dict[str, int] = {}
    for text, count in core.journals.store.holders().items():
        holder = Holder.parse(text)
        if holder is not None:
            held[holder.nonce] = held.get(holder.nonce, 0) + count
    presence = process_of(core).known_presence(core)
    found = []
    for slot in slots.every_slot(core):
        beat = slot.beat
        if beat is None or slot.head is None or beat.state != "alive":
            continue
        holder = Holder(slot.number, beat.nonce, beat.process)
        standing = standing_of(core, holder, "", bury=False)
        ours = presence is not None and presence.had(beat.nonce)
        alive = ours or standing.why is None
        found.append(
            WorkerInfo(
                beat.process.host,
                beat.process.pid,
                "unknown" if standing.undecided else "alive" if alive else "dead",
                beat.flows,
                beat.at_once,
                held.get(beat.nonce, 0),
                to_datetime(slot.head.at),
                beat.lag,
                beat.verifies,
            )
        )
    return sorted(found)
