"""What checkpoints inherit: the claims of those that a fork leaves behind, or that are deleted.

A fork's first checkpoint holds what was left of the claims before it, under "inherited". When
checkpoints are deleted, the marker that says so holds what was left of their claims, under
"carried", for each checkpoint that stays and comes next on its branch. Each such marker names the
`earlier` one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.codec.meta import CARRIED
from holdfast.errors import CheckpointCorruptedError
from holdfast.evidence.checks import needs_snapshot
from holdfast.evidence.trust import rule, storing
from holdfast.evidence.trust.carrying import AT, EARLIER, PACKS, newest_marker
from holdfast.evidence.trust.gathering import Gathering, branch_with_claims
from holdfast.evidence.trust.indexing import known_branch
from holdfast.evidence.trust.rule import CheckpointClaims, Pack, Replaced
from holdfast.kernel.core import Core
from holdfast.kernel.entries import is_live
from holdfast.logs import logger
from holdfast.model import CARRY_STATE, Entry

_log = logger("holdfast.evidence")

Stored = dict[str, Any]
"""A pack as the `meta` of an entry holds it."""


def inherited(core: Core, entry: Entry) -> list[list[Stored]]:
    """The packs that bind a fork of this checkpoint besides its own, oldest first. Blocks.

    Grouped by the checkpoint that they were claimed with. What later claims replaced is dropped,
    or every fork of a long run would carry all of it.
    """
    branch = _claims_up_to(core, entry)
    newer = Replaced()
    found: list[list[Stored]] = []
    for seq, _, packs, own in rule.successive(branch):
        if not own or seq != entry.seq:
            found += [left] if (left := _left(seq, packs, newer)) else []
        newer.add_packs(packs)
    return found[::-1]


def _claims_up_to(core: Core, entry: Entry) -> list[CheckpointClaims]:
    """What was claimed on the branch of a checkpoint, oldest first; only a few are read if they tell."""
    gathering = Gathering(core, needed=False)
    with suppress(CheckpointCorruptedError, ValueError):  # reading all of it tells what is wrong
        known = known_branch(core, entry)
        if known is not None:
            return [gathering.recorded(one) for one in reversed(known)]
    return gathering.branch(branch_with_claims(core, partial(core.journals.branch_of, entry)))


def carried(
    core: Core, entries: Sequence[Entry], gone: Collection[int], *, proved: bool = True
) -> dict[str, Any]:
    """What the marker has to hold that deletes the checkpoints at these seqs. Blocks.

    `entries` are the newest entries of the run, stubs included, newest first. If those that go
    are not `proved`, as they are damaged, their claims are carried as far as they can be read, and
    replace none.
    """
    gathering = Gathering(core, needed=False)
    states = {entry.seq: entry for entry in entries if entry.kind in CARRY_STATE}
    found: dict[str, Any] = {}
    for entry in states.values():
        if not is_live(entry) or entry.seq in gone:
            continue
        going = list(_going_before(entry, states, gone))
        groups = _left_for(core, gathering, entry, going, proved) if going else []
        if groups:
            found[str(entry.seq)] = groups
    earlier = newest_marker(core, entries[0].run)
    return {CARRIED: found | {EARLIER: -1 if earlier is None else earlier.seq}}


def _going_before(entry: Entry, states: dict[int, Entry], gone: Collection[int]) -> Iterator[Entry]:
    """The checkpoints to be deleted between one that stays and the next older one that does."""
    seq, at = entry.seq, entry.parent
    while at is not None and at in states and at < seq:  # a damaged one may lead anywhere
        if at in gone:
            yield states[at]
        elif is_live(states[at]):
            return
        seq, at = at, states[at].parent


def _left_for(
    core: Core, gathering: Gathering, entry: Entry, going: list[Entry], proved: bool
) -> list[dict[str, Any]]:
    """What is left of the claims of deleted checkpoints, for the one that comes after them."""
    newer = Replaced()
    newer.add_packs(gathering.of(core, entry).packs)
    read = partial(gathering.of, core) if proved else partial(_as_stored, gathering)
    branch = [read(one) for one in reversed(going)]
    found: list[dict[str, Any]] = []
    for seq, at, packs, _ in rule.successive(branch):
        left = _left(seq, [pack for pack in packs if pack.binds], newer, without_state=True)
        if left:
            found.append({AT: at, PACKS: left})
        newer.add_packs(packs)
    return found[::-1]


def _as_stored(gathering: Gathering, entry: Entry) -> rule.CheckpointClaims:
    """The claims of a damaged checkpoint as far as they can be read: they replace none."""
    try:
        claims = gathering.recorded(entry)
    except CheckpointCorruptedError as error:
        _log.warning("%s; what it claims is deleted with it", error)
        return rule.CheckpointClaims(entry.seq)
    weak = [
        p._replace(claims=tuple(c._replace(replaces=False) for c in p.claims)) for p in claims.packs
    ]
    return claims._replace(packs=weak)


def _left(
    seq: int, packs: Sequence[Pack], newer: Replaced, *, without_state: bool = False
) -> list[Stored]:
    """What newer claims leave of packs that bind later checkpoints.

    `without_state`: claims that are checked against the state of their own checkpoint go with it.
    """
    found = []
    for pack in packs:
        bound = [
            claim
            for claim in newer.left(seq, pack.claims)
            if not (without_state and needs_snapshot(claim.evidence))
        ]
        required = pack.required - (len(pack.claims) - len(bound))
        if pack.binds and required > 0:
            found.append(storing.left_of(bound, required))
    return found
