"""Asks workers to verify a checkpoint, waits for their votes, and counts them.

A vote counts if its process has the slot that it names: then it is a worker of this store, on the
host that its slot says. No vote is kept for later. Who wants to know again, asks again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from holdfast.engine.holding import slots
from holdfast.engine.holding.here import process_of
from holdfast.engine.holding.slots import Beat
from holdfast.engine.voting import rows
from holdfast.errors import StoreError
from holdfast.evidence.trust.checking import Checker, Key
from holdfast.evidence.trust.rule import BoundClaim, Standing
from holdfast.evidence.trust.voting import Decision, Voter, decide
from holdfast.evidence.verdicts import Verdict
from holdfast.evidence.verifier import EvidenceVerifier
from holdfast.kernel.core import Core
from holdfast.model import Entry, check_id, checkpoint_id
from holdfast.operations import reading

WITHIN: Final = 30.0
"""Seconds that workers have to answer."""

_LOOKS: Final = (0.05, 0.5)  # seconds between looks for votes: at first, and at most


class Consensus(NamedTuple):
    """What several verifiers found of a checkpoint."""

    checkpoint_id: str
    standing: Standing  # what the decisions mean for the checkpoint
    decisions: tuple[Decision, ...]  # on each claim that binds it
    silent: tuple[str, ...]  # those who were asked and did not answer in time, by host and pid

    @property
    def holds(self) -> bool:
        """Whether the checkpoint may be trusted."""
        return self.standing.holds

    @property
    def disputed(self) -> tuple[Decision, ...]:
        """The claims that some found true, and others false."""
        return tuple(one for one in self.decisions if one.disputed)


def check_asking(quorum: int | None, within: float) -> None:
    """Raise `TypeError` or `ValueError` for what can't be."""
    if quorum is not None:
        if isinstance(quorum, bool) or not isinstance(quorum, int):
            raise TypeError(f"quorum is a number of votes, not {quorum!r}")
        if quorum < 1:
            raise ValueError(f"quorum must be 1 or more, not {quorum}")
    if isinstance(within, bool) or not isinstance(within, int | float):
        raise TypeError(f"within is a number of seconds, not {within!r}")
    if not 0 < within <= rows.LONGEST:
        raise ValueError(f"within must be more than 0, and at most {rows.LONGEST:,.0f} seconds")


def verify_with_workers(
    core: Core,
    checkpoint: Entry,
    *,
    on: Collection[str] = (),
    quorum: int | None = None,
    within: float = WITHIN,
) -> Consensus:
    """Have workers check what binds a checkpoint, and record what they decided. Blocks."""
    check_asking(quorum, within)
    asked = _Asked(core, quorum, within, on)
    standing = Checker(core, EvidenceVerifier(), others=asked.about_all).check(checkpoint)
    name = checkpoint_id(checkpoint.run, checkpoint.seq)
    return Consensus(name, standing, tuple(asked.decisions), tuple(asked.silent))


def checkpoint_at(core: Core, run_id: str, seq: int | None) -> Entry:
    """A checkpoint of a run, the current one without `seq`. Raises `CheckpointNotFoundError`."""
    if seq is not None:
        return reading.require(core, run_id, seq, None).entry
    newest = next(iter(core.journals.branch(check_id("run_id", run_id))), None)
    if newest is None:
        raise reading.missing_state(core, run_id)
    return newest


class Elsewhere:
    """Asks workers about the claims that can't be checked on this machine, and no others."""

    def __init__(self, core: Core, within: float) -> None:
        self._asked = _Asked(core, None, within, ())

    def __call__(self, checkpoint: Entry, claims: Sequence[BoundClaim]) -> Mapping[Key, Verdict]:
        """The verdicts on the claims of a checkpoint that are labelled with other hosts. Blocks."""
        there = [claim for claim in claims if claim.evidence.is_elsewhere]
        return self._asked.about_all(checkpoint, there) if there else {}


class _Asked:
    """Asks about checkpoints, and keeps what was decided."""

    def __init__(self, core: Core, quorum: int | None, within: float, on: Collection[str]) -> None:
        self._core = core
        self._quorum = quorum
        self._within = within
        self._on = frozenset(on)
        self.decisions: list[Decision] = []
        self.silent: list[str] = []

    def about_all(self, checkpoint: Entry, claims: Sequence[BoundClaim]) -> dict[Key, Verdict]:
        """What verifiers decide on these claims, which bind a checkpoint. Blocks."""
        voters = _ask(self._core, checkpoint, self._within, self._on)
        others: set[str] = set()
        if self._on:
            found = _verifiers(self._core, ()).values()
            others = {beat.process.host for beat in found} - self._on
        now = self._core.journals.clock.now()
        decided = [decide(claim, voters, self._quorum, now, others) for claim in claims]
        self.decisions += decided
        self.silent += [one.name for one in voters if one.found is None]
        return {claim.key: one.verdict for claim, one in zip(claims, decided, strict=True)}


def _ask(core: Core, checkpoint: Entry, within: float, on: Collection[str]) -> list[Voter]:
    """Those who were asked, with what they found, if they answered in time."""
    clock = core.journals.clock
    until = clock.monotonic() + within
    beats = _verifiers(core, on)
    answers: dict[int, Mapping[str, Verdict]] = {}
    if beats:
        identity = core.journals.new_birth()
        placed = _place(core, checkpoint, identity, within, until)
        if placed is not None:
            number, row = placed
            try:
                answers = _wait(core, number, identity, checkpoint, beats, until)
            finally:
                with suppress(StoreError):  # then a worker does it some time
                    rows.withdraw(core, number, row)
    return [
        Voter(beat.process.name, beat.process.host, answers.get(slot))
        for slot, beat in sorted(beats.items())
    ]


def _verifiers(core: Core, on: Collection[str]) -> dict[int, Beat]:
    """The processes that verify for others, by slot: on these hosts, or on all."""
    place = process_of(core).identity.place
    return {
        slot.number: slot.beat
        for slot in slots.every_slot(core)
        if slot.beat is not None
        and slot.beat.state == "alive"
        and slot.beat.verifies
        and slot.beat.process.lives(place) is not False
        and (not on or slot.beat.process.host in on)
    }


def _place(
    core: Core, checkpoint: Entry, identity: str, within: float, until: float
) -> tuple[int, Entry] | None:
    """Make the request, as soon as there is room for it; None if there is none in time."""
    clock = core.journals.clock
    since: dict[int, tuple[str, float]] = {}
    while True:
        placed = rows.place_request(core, identity, checkpoint, within)
        now = clock.monotonic()
        if placed is not None or now >= until:
            return placed
        found = rows.requests(core)
        since = rows.seen_since(found, since, now)
        for request in rows.overdue(found, since, now):
            rows.withdraw(core, request.number, request.head)
        _pause(_LOOKS[1], until - now)


def _wait(
    core: Core,
    number: int,
    identity: str,
    checkpoint: Entry,
    beats: Mapping[int, Beat],
    until: float,
) -> dict[int, Mapping[str, Verdict]]:
    """What the verifiers found, by slot, once all have answered or the time is over."""
    clock = core.journals.clock
    place = process_of(core).identity.place
    pause, most = _LOOKS
    while True:
        answers = {
            vote.holder.slot: vote.found
            for vote in rows.votes(core, number, identity, checkpoint.digest.hex())
            if vote.holder.slot in beats and vote.holder.nonce == beats[vote.holder.slot].nonce
        }
        left = until - clock.monotonic()
        waits_for = (beat for slot, beat in beats.items() if slot not in answers)
        if left <= 0 or all(beat.process.lives(place) is False for beat in waits_for):
            return answers
        _pause(pause, left)
        pause = min(2 * pause, most)


def _pause(seconds: float, left: float) -> None:
    time.sleep(max(0.0, min(seconds, left)))
