"""Replacing checkpoints by stubs: what goes with them, and what the marker says. Blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any, NamedTuple

from holdfast.codec.meta import CARRIED, Meta, dump_meta, may_claim
from holdfast.codec.seqs import Seqs
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.pages import pass_by
from holdfast.kernel.rewriting import rewrites
from holdfast.kernel.store_view import real_store
from holdfast.kernel.tip import Tip
from holdfast.model import ALIASES, Entry, Kind, Status, alias_journal
from holdfast.store import RunFilter


class Seen(NamedTuple):
    """A run before something of it is deleted."""

    head: Entry
    found: list[Entry]  # newest first
    sound: list[Entry]  # the live ones that are not damaged, oldest first
    branch: list[int]  # the seqs that lead to the current state
    damaged: dict[int | None, CheckpointCorruptedError]


def refuse_if_unproved(core: Core, seen: Seen, bad: int | None) -> None:
    """Raise what keeps the current state, or the one that would be current then, from being known."""
    head, damaged = seen.head, seen.damaged
    current = Tip(head.run, head).state_seq
    if bad is None:
        suspects = [head.seq, current]  # else an older one would become current, without a word
    else:
        if bad == 0:
            core.journals.entry(head.run, 0)  # raises: without its beginning a run is nothing
        suspects = [] if bad == head.seq else [head.seq]
        suspects += [bad - 1] if bad in (head.seq, current) else []
    for seq in suspects:
        if seq in damaged:
            raise damaged[seq]


def write_stubs(
    core: Core, seen: Seen, gone: set[int], begun: Set[int], *, past_damage: bool
) -> bool:
    """Replace entries by stubs behind a marker; False if the head moved."""
    head, found, journals = seen.head, seen.found, core.journals
    tip = Tip(head.run, head)
    if head.seq in seen.damaged:  # it goes, and what it says of the current state is not proved
        tip.state_seq = seen.branch[0] if seen.branch else None
    kept = [entry for entry in seen.sound if entry.seq not in gone]
    draft = _marker_draft(tip, head, gone, kept, seen.branch)
    bodies = rewrites(journals, found, gone, tip.seq + 1, past_damage=past_damage)
    dropped = gone | begun
    _check_before(core, found, dropped)
    listed = _marker_facts(found, dropped, {seq: proof for seq, (_, proof) in bodies.items()})
    listed |= _left_claims(core, found, gone, proved=not past_damage)
    marker = journals.place(tip, draft._replace(meta=dump_meta(listed)))
    changes: dict[int, bytes | None] = {seq: body for seq, (body, _) in bodies.items()}
    done = journals.store.trim(marker, changes | dict.fromkeys(dropped))
    journals.forget(head.run)
    return done


def _marker_draft(
    tip: Tip, head: Entry, gone: Collection[int], stay: Collection[Entry], branch: list[int]
) -> Draft:
    """The marker behind this head: a trim, or a tombstone if the current checkpoint goes."""
    if tip.state_seq not in gone and head.seq not in gone:
        return Draft(Kind.TRIM.value, head.status, step=head.step, type=head.type)
    stays = {entry.seq: entry for entry in stay}
    left = next((stays[seq] for seq in branch if seq in stays), None)
    return Draft(
        Kind.TOMBSTONE.value,
        head.status,
        parent=left.seq if left else None,
        step=left.step if left else None,
        type=left.type if left else None,
    )


def _marker_facts(
    found: list[Entry], dropped: Collection[int], rewritten: Mapping[int, bytes]
) -> dict[str, Any]:
    """What the marker lists: what was dropped, the digests before that, and what was rewritten."""
    facts: dict[str, Any] = {
        "dropped": str(Seqs.of(dropped)),
        "behind": {
            str(entry.seq + 1): entry.digest.hex()
            for entry in found
            if entry.seq + 1 in dropped and entry.seq not in dropped
        },
    }
    if rewritten:
        facts["rewritten"] = {str(seq): proof.hex() for seq, proof in rewritten.items()}
    return facts


def _check_before(core: Core, found: list[Entry], dropped: Collection[int]) -> None:
    """Raise if an entry that is older than the first key is not what was there then.

    The marker will list its digest instead of the entry that proves it, and that goes.
    """
    for entry in found:
        if entry.seq + 1 in dropped and entry.seq not in dropped:
            if core.journals.sealer is None or core.journals.cut_over.end_of(entry.run) is None:
                return
            core.journals.entry(entry.run, entry.seq)


def _left_claims(
    core: Core, found: list[Entry], gone: Collection[int], *, proved: bool
) -> dict[str, Any]:
    """For the marker: what later checkpoints still need of the claims of those that go."""
    claimed = (may_claim(entry.meta) for entry in found if entry.seq in gone)
    if not any(claimed) and not any(CARRIED in entry.meta for entry in found):
        return {}
    from holdfast.evidence.trust.inheriting import carried  # most runs claim nothing

    return carried(core, found, gone, proved=proved)


def aliases_of(core: Core, head: Entry) -> list[str]:
    """The journals of the names that were given to checkpoints of a run, as far as it says them.

    They were given for its owner, or for none. The run is read only if there are any at all.
    """
    run = head.run
    aliases = RunFilter(prefix=ALIASES)
    if not real_store(core.journals.store).runs(aliases, limit=1):
        return []
    return [
        journal
        for entry in core.journals.entries(run, damage=pass_by)
        if entry.kind == Kind.CHECKPOINT and '"alias":' in entry.meta
        for journal in (
            alias_journal(str(Meta(entry).alias)),
            alias_journal(str(Meta(entry).alias), entry.owner),
        )
    ]


def leads_to(run: str, alias: Entry) -> bool:
    """Whether the newest entry of an alias leads to this run; it may be another's by now."""
    return (Meta(alias).step or "").rpartition("@")[0] == run


def is_damaged(core: Core, run: str, seq: int) -> bool:
    """Whether the entry at this seq is damaged. Raises if it is not there at all."""
    try:
        entry = core.journals.entry(run, seq)
        if entry is not None and entry.size:
            core.journals.chain(run, seq, entry)
    except CheckpointCorruptedError as error:
        try:
            found = core.journals.store.read(run, after=seq - 1, limit=1, bodies=False)
        except CheckpointCorruptedError:  # what can't be read is there
            return True
        if found and found[0].seq != seq:
            raise error from None
        return True
    return False


def steps_of(
    found: list[Entry], live: list[Entry], gone: Collection[int]
) -> tuple[bool, frozenset[int]]:
    """Whether a step waits to be committed, and the seqs where those that go were begun.

    A step was begun with the state that it was committed with, so they are deleted together.
    """
    begun = {
        entry.entry_id.hex(): entry.seq
        for entry in found
        if entry.kind == Kind.BEGIN and entry.status != Status.DELETED
    }
    if not begun:
        return False, frozenset()
    for entry in found:
        if entry.kind == Kind.CANCEL:  # it was abandoned
            begun.pop(Meta(entry).begun or "", None)
    committed = {Meta(entry).begun: entry.seq for entry in live}
    ends = {seq: committed.get(name) for name, seq in begun.items()}
    return None in ends.values(), frozenset(seq for seq, end in ends.items() if end in gone)
