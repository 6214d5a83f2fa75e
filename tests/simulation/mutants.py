"""Engines that make a mistake in deciding who holds a run. The simulation must find every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import takewhile
from typing import Any

import pytest

from holdfast.engine.child_runs import Parent
from holdfast.engine.holding import observing, slots
from holdfast.engine.holding.lease import Holder, Lease
from holdfast.engine.holding.presence import Presence
from holdfast.engine.holding.slots import Beat, Seen, Slot
from holdfast.engine.resume import takeover
from holdfast.engine.resume.history import History
from holdfast.engine.run import hold
from holdfast.engine.run.loop import Run
from holdfast.errors import LeaseLostError
from holdfast.kernel.appending import append_if
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.model import Kind
from tests.simulation.machine import here
from tests.simulation.schedule import Emphasis, Schedule

Patch = pytest.MonkeyPatch


def claims_without_a_burial(patch: Patch) -> None:
    really = observing._judged
    patch.setattr(observing, "_judged", lambda core, holder, bury: really(core, holder, False))


def has_no_lease(patch: Patch) -> None:
    patch.setattr(Lease, "is_fresh", property(lambda self: not self.lost))


def ignores_gaps_in_what_it_saw(patch: Patch) -> None:
    class Sticky(dict[int, Seen]):
        """What was seen before an outage counts."""

        def pop(self, *_: object) -> None:  # type: ignore[override]
            pass

    def stood_still(
        seen: dict[int, Seen], slot: Slot, beat: Beat, before: float, after: float
    ) -> bool:
        known = seen.get(slot.number)
        since = known.since if known is not None and known.seq == slot.seq else after
        seen[slot.number] = Seen(slot.seq, since, before, beat.every)
        return before - since >= beat.dead_after

    def reset(self: Presence) -> None:
        really(self)
        self.seen = Sticky()

    really = Presence._reset
    patch.setattr(Presence, "_reset", reset)
    patch.setattr(observing, "_stood_still", stood_still)


def goes_by_its_own_dead_after(patch: Patch) -> None:
    def stood_still(seen: Any, slot: Slot, beat: Beat, before: float, after: float) -> bool:
        own = beat._replace(dead_after=here().dead_after)
        return really(seen, slot, own, before, after)

    really = observing._stood_still
    patch.setattr(observing, "_stood_still", stood_still)


def claims_behind_any_head(patch: Patch) -> None:
    def append_at(core: Core, run: str, seq: int, drafts: list[Draft]) -> Any:
        return append_if(core, run, partial(takeover._behind_any, drafts[-1]))

    patch.setattr(takeover, "append_at", append_at)


def ignores_the_nonce(patch: Patch) -> None:
    def judged(core: Core, holder: Holder, bury: bool) -> Any:
        found = slots.read(core, holder.slot).beat
        return really(core, holder if found is None else holder._replace(nonce=found.nonce), bury)

    really = observing._judged
    patch.setattr(observing, "_judged", judged)


def opens_children_before_the_parent_knows(patch: Patch) -> None:
    async def confirm(self: Any) -> None:
        pass

    patch.setattr(Parent, "confirm", confirm)


def executes_children_of_a_lost_parent(patch: Patch) -> None:
    async def confirm(self: Any) -> None:
        with suppress(LeaseLostError):
            await really(self)

    really = Parent.confirm
    patch.setattr(Parent, "confirm", confirm)


def counts_every_claim_as_a_death(patch: Patch) -> None:
    def deaths(self: History) -> int:
        ours = [e for e in self.entries if e.kind in (Kind.CLAIM, Kind.RESULT)]
        return len(list(takewhile(lambda entry: entry.kind == Kind.CLAIM, reversed(ours))))

    patch.setattr(History, "deaths", deaths)


def releases_runs_whose_steps_have_not_ended(patch: Patch) -> None:
    def leave(self: Presence, run: Run, facts: Mapping[str, Any], ending: object) -> None:
        really(self, run, facts, ())

    really = Presence.leave
    patch.setattr(Presence, "leave", leave)


def believes_a_beat_whose_reply_was_lost(patch: Patch) -> None:
    def write(self: Presence, core: Core, lease: Lease, beat: Beat) -> None:
        began = core.journals.clock.monotonic()
        slot = slots.write(core, lease.slot, beat)
        if slot is None:
            slot = slots.read(core, lease.slot.number)
            if slot.beat is None or slot.beat[:2] != (beat.nonce, "alive"):
                self._lose(lease)
                return
        lease.slot, lease.renewed = slot, began

    patch.setattr(Presence, "_write", write)


def takes_what_is_held(patch: Patch) -> None:
    patch.setattr(takeover, "refuse_if_held", lambda core, head: "released")


def takes_what_is_undecided(patch: Patch) -> None:
    def stood_still(*_: object) -> bool:
        return True

    patch.setattr(observing, "_stood_still", stood_still)


def ignores_the_fence(patch: Patch) -> None:
    patch.setattr(hold, "FROM_OUTSIDE", tuple(Kind))


def does_not_notice_its_burial(patch: Patch) -> None:
    def write(self: Presence, core: Core, lease: Lease, beat: Beat) -> None:
        began = core.journals.clock.monotonic()
        slots.write(core, lease.slot, beat)
        lease.slot, lease.renewed = slots.read(core, lease.slot.number), began

    patch.setattr(Presence, "_write", write)


def believes_beats_that_failed(patch: Patch) -> None:
    def renew(self: Presence, core: Core, lease: Lease) -> None:
        really(self, core, lease)
        lease.renewed = core.journals.clock.monotonic()

    really = Presence._renew_in_time
    patch.setattr(Presence, "_renew_in_time", renew)


MUTANTS: dict[Callable[[Patch], None], tuple[Emphasis, int]] = {
    claims_without_a_burial: (Schedule.silence, 5),
    has_no_lease: (Schedule.silence, 100),
    ignores_gaps_in_what_it_saw: (Schedule.blackout, 30),
    goes_by_its_own_dead_after: (Schedule.silence, 7),
    claims_behind_any_head: (Schedule.race, 39),
    ignores_the_nonce: (Schedule.race, 0),
    opens_children_before_the_parent_knows: (Schedule.contest, 32),
    executes_children_of_a_lost_parent: (Schedule.contest, 32),
    counts_every_claim_as_a_death: (Schedule.tug_of_war, 1),
    releases_runs_whose_steps_have_not_ended: (Schedule.abandonment, 0),
    believes_a_beat_whose_reply_was_lost: (Schedule.deafness, 34),
    takes_what_is_held: (Schedule.race, 0),
    takes_what_is_undecided: (Schedule.silence, 5),
    ignores_the_fence: (Schedule.contest, 4),
    does_not_notice_its_burial: (Schedule.silence, 5),
    believes_beats_that_failed: (Schedule.silence, 100),
}
"""Each mistake, the schedules in which it shows soonest, and the seed of one that shows it."""


@contextmanager
def mutated(mutant: Callable[[Patch], None]) -> Iterator[None]:
    """An engine that makes this mistake, meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        yield
