"""Reading journals: entries, heads, branches, and states put together from their deltas. Blocks."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import takewhile
from operator import attrgetter
from typing import Final

from holdfast.codec import bearings, delta, envelope, readable, values, wrapping
from holdfast.codec.chain import MAX_SPANS, REACH, Chain, Landmark
from holdfast.codec.envelope import Stored
from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import RunHead
from holdfast.kernel.branches import BranchReader
from holdfast.kernel.proving import prove
from holdfast.keys.sealing import Sealer
from holdfast.model import HIDDEN, Entry, Kind, Status, is_passing
from holdfast.store import PAGE, RunFilter, Store

_Delta = tuple[Entry, Stored, int, int]  # its landmark, and where its change begins

_ANY: Final = (None, Status.DELETED.value)  # of heads; deleted ones are listed only if asked for


class Reader(BranchReader):
    """Reads the journals of a store. What decides which state comes back is proved first."""

    def __init__(self, store: Store, largest_state: int, sealer: Sealer | None = None) -> None:
        super().__init__(store, sealer)
        self._largest_state = largest_state

    def chain(self, run: str, seq: int, last: Entry | None = None) -> Chain:
        """Put the state at `seq` together from its keyframe and deltas, in the store's form.

        Raises `CheckpointCorruptedError`, also where a link is missing.
        """
        chain, flags = self.chain_as_stored(run, seq, last)
        if self._is_own(flags):
            return chain
        encoding = self.in_form(run, seq, chain.encoding, flags)
        return chain._replace(encoding=encoding, foreign=True)

    def encoding(self, entry: Entry) -> bytes:
        """What a proved entry carries, in the store's form. Raises as `chain` does.

        A whole state or value needs no other entries, and nothing of it is computed again.
        """
        plain = wrapping.plain(self.bounded(entry).body)  # as most values of steps are
        if plain is not None and not self.is_readable:
            self._checked(entry, plain)
            return plain
        stored = envelope.glance(entry)
        if stored.is_delta:
            return self.chain(entry.run, entry.seq, entry).encoding
        encoding = self.applied(entry, stored)
        return self.in_form(entry.run, entry.seq, encoding, stored.flags)

    def base_of(self, head: Entry) -> Entry | None:
        """The checkpoint that a delta behind this head builds on: results may follow it."""
        if head.kind == Kind.CHECKPOINT and head.status != Status.DELETED:
            return head
        near = self.branch_of(head, after=head.seq - REACH)
        return next((entry for entry in near if entry.kind == Kind.CHECKPOINT), None)

    def in_form(self, run: str, seq: int, encoding: bytes, flags: int) -> bytes:
        """An encoding in the store's own form; copies of runs have the form of their origin."""
        if self._is_own(flags):
            return encoding
        try:
            if flags & wrapping.READABLE:
                return values.encode(readable.loads_data(encoding.decode()))
            return readable.dumps(values.decode_data(encoding), indent=1).encode()
        except ValueError as error:
            raise CheckpointCorruptedError(run, seq, f"it can't be decoded: {error}") from None

    def _is_own(self, flags: int) -> bool:
        return bool(flags & wrapping.READABLE) == self.is_readable

    @property
    def is_readable(self) -> bool:
        """Whether states are stored as JSON. Encrypted ones are for nobody's eyes."""
        return self.store.form == "readable" and (self.sealer is None or self.sealer.keys is None)

    def chain_as_stored(self, run: str, seq: int, last: Entry | None = None) -> tuple[Chain, int]:
        """As `chain`, in the form that the entry is stored in, and the flags of its envelope."""
        try:
            return self._assembled(run, seq, last, envelope.glance)
        except CheckpointCorruptedError:
            return self._assembled(run, seq, None, envelope.check)  # which of its links is damaged?

    def _assembled(
        self, run: str, seq: int, last: Entry | None, look: Callable[[Entry], Stored]
    ) -> tuple[Chain, int]:
        entry = last if last is not None and last.seq == seq else self.entry(run, seq)
        if entry is None:
            raise CheckpointCorruptedError(run, seq, "the state it builds on is gone")
        newest = entry
        deltas: list[_Delta] = []
        found: dict[int, Entry] = {}
        stored = look(self.bounded(entry))
        while stored.flags & wrapping.DELTA:
            base, landmark, at = envelope.bearings_of(entry, stored)
            deltas.append((entry, stored, landmark, at))
            if base not in found:
                found |= self._before(entry, stored, look)
            before = found.get(base)
            if before is None or not before.size:
                if self._is_rewritten(entry):
                    return self._assembled(run, seq, None, look)
                raise CheckpointCorruptedError(
                    run, seq, f"the state it builds on, {run}@{base}, is gone"
                )
            entry = before
            stored = look(self.bounded(entry))
        whole, proof = self.applied(entry, stored), stored.said_proof
        first = Landmark(entry.seq, whole, proof, len(entry.body), len(whole))
        if not deltas:
            return Chain(whole, proof, newest.kind, first), stored.flags
        if stored.is_rewritten:
            self.vouch(entry, stored)
        if look is envelope.check and entry.seq - 1 in found:
            prove(entry, found[entry.seq - 1].digest, proof)  # or is the keyframe to blame?
        return self._built(first, deltas, look is envelope.check), deltas[0][1].flags

    def _before(
        self, entry: Entry, stored: Stored, look: Callable[[Entry], Stored]
    ) -> dict[int, Entry]:
        """What a delta builds on: the links back to its landmark, or all landmarks of a span."""
        run, seq = entry.run, entry.seq
        base, landmark, _ = envelope.bearings_of(entry, stored)
        trail = bearings.trail(seq, stored.content)
        if len(trail) > 1 and look is not envelope.check:
            places = [(run, before) for before in trail[:MAX_SPANS]]
            return {e.seq: e for e in self.store.entries_at(places, bodies=True)}
        first = min(landmark, base)
        return self._range(run, first - 1 if look is envelope.check else first, base)

    def _built(self, first: Landmark, deltas: list[_Delta], check: bool) -> Chain:
        """The state that these deltas, the newest first, make of the first landmark."""
        newest = deltas[0][0]
        landmark, proof = first, first.proof
        encoding = bytearray(first.state)
        for entry, stored, near, at in reversed(deltas):
            encoding = self._patched(entry, stored, at, encoding)
            proof = envelope.prove(stored.flags, stored.content, proof)
            if proof != stored.proof and (check or entry is newest):
                reason = "its content, or a state that it builds on, is not what was written"
                raise CheckpointCorruptedError(entry.run, entry.seq, reason)
            if near == entry.seq:
                landmark = landmark.span(near, b"", proof, len(entry.body))
        state = bytes(encoding)
        links = [*takewhile(lambda one: one[2] != one[0].seq, deltas)]  # since the last landmark
        spans = deltas[len(links) :]
        if not links:
            landmark = landmark._replace(encoding=state)
        elif spans:  # which only a save has a use for, and only every `MAX_LINKS` saves
            landmark = landmark._replace(encoding=lambda: self._built(first, spans, check).encoding)
        link_bytes = sum(len(entry.body) for entry, *_ in links)
        return Chain(state, proof, newest.kind, landmark, len(links), link_bytes)

    def applied(self, entry: Entry, stored: Stored, base: bytes = b"") -> bytes:
        """The state that an entry's content is, or makes of the one that it is a change to."""
        if stored.is_delta:
            at = envelope.bearings_of(entry, stored)[2]
            return bytes(self._patched(entry, stored, at, bytearray(base)))
        return bytes(self._checked(entry, envelope.unseal(entry, stored, self.opens)))

    def _patched(self, entry: Entry, stored: Stored, at: int, encoding: bytearray) -> bytearray:
        change = envelope.unseal(entry, stored, self.opens, at, encoding)
        try:
            return delta.apply(encoding, change, entry.size)
        except ValueError as error:
            raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None

    def _is_rewritten(self, entry: Entry) -> bool:
        """Whether it has another body by now, as what it built on was deleted."""
        found = self.store.read(entry.run, after=entry.seq - 1, limit=1)
        return bool(found) and found[0].seq == entry.seq and found[0].body != entry.body

    def _range(self, run: str, first: int, last: int) -> dict[int, Entry]:
        """The entries from `first` to `last`."""
        found: dict[int, Entry] = {}
        after = first - 1
        while after < last:
            page = self.store.read(run, after=after, limit=min(PAGE, last - after))
            if not page:
                break
            found.update((e.seq, e) for e in page)
            after = page[-1].seq
        return found

    def bounded(self, entry: Entry) -> Entry:
        """The entry. Raises if its state is larger than any save allows."""
        if entry.size > self._largest_state:
            reason = f"it claims {entry.size:,} bytes of state; raise max_state_bytes to load it"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)
        return entry

    def _checked(self, entry: Entry, encoding: bytes | bytearray) -> bytes | bytearray:
        if len(encoding) != entry.size:
            raise CheckpointCorruptedError(
                entry.run, entry.seq, "its state does not have its recorded size"
            )
        return encoding


def all_runs(
    store: Store, where: RunFilter = RunFilter(), *, after: str = "", limit: int | None = None
) -> Iterator[Entry]:
    """The heads of the runs that match, ordered by id, all or `limit`, read a page at a time."""
    while limit is None or limit > 0:
        wanted = PAGE if limit is None else min(limit, PAGE)
        page = store.runs(where, after=after, limit=wanted)
        yield from page
        if len(page) < wanted:
            return
        after = page[-1].run
        limit = None if limit is None else limit - wanted


def all_heads(store: Store) -> Iterator[Entry]:
    """The heads of all journals that last, by name: runs, deleted ones too, and hidden journals.

    Not those of which only the newest entry counts, such as the slots of processes.
    """
    every = (RunFilter(status=status, prefix=prefix) for prefix in ("", HIDDEN) for status in _ANY)
    last: Entry | None = None
    for head in heapq.merge(*(all_runs(store, where) for where in every), key=attrgetter("run")):
        if is_passing(head.run):
            continue
        if last is not None and last.run != head.run:
            yield last
        if last is None or last.run != head.run or last.seq < head.seq:
            last = head  # of one that was deleted meanwhile, the newest
    if last is not None:
        yield last


def all_listed(
    store: Store, where: RunFilter, *, limit: int | None = None
) -> Iterator[tuple[RunHead, Entry]]:
    """The matching runs of the index with their heads, newest first, read a page at a time."""
    before = None
    while limit is None or limit > 0:
        wanted = PAGE if limit is None else min(limit, PAGE)
        page = store.listed(where, before=before, limit=wanted)
        yield from page
        if len(page) < wanted:
            return
        before = page[-1][0].position
        limit = None if limit is None else limit - wanted
