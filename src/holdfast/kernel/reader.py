"""Reading journals: entries, heads, branches, and states put together from their deltas. Blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, TypeVar

from holdfast.codec import delta, envelope, readable, values
from holdfast.codec.chain import Chain, Landmark
from holdfast.codec.envelope import Content, Stored
from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import RunHead
from holdfast.kernel.markers import Markers
from holdfast.kernel.pages import Damage, Found, damaged_at, entries_of, head_seq, missing, pass_by
from holdfast.kernel.proving import Prover, prove
from holdfast.model import CARRY_STATE, Entry, Kind, Status, erases
from holdfast.store import PAGE, RunFilter, Store

T = TypeVar("T")

FEW: Final = 8  # entries to read at first where their bodies may be large


class Reader:
    """Reads the journals of a store. What decides which state comes back is proved first.

    Entries that it returns with their bodies are proved, except for deltas: `chain` proves those.
    Damage raises `CheckpointCorruptedError` where something depends on it.
    """

    def __init__(self, store: Store, largest_state: int) -> None:
        self.store = store
        self._largest_state = largest_state
        self._markers = Markers(
            self.entry, lambda run, seq: self.entries(run, after=seq, damage=pass_by)
        )

    def entry(self, run: str, seq: int) -> Entry | None:
        """The entry at one position, proved; None where there is none, or only a stub."""
        found, before = self._pair(run, seq)
        if found is None:
            return None
        if is_stub(found):
            self.check_stub(found)
            return None
        return self._proved(found, before)

    def head(self, run: str) -> Entry | None:
        """The run's newest entry, without its body and unchecked: to list it or to delete it."""
        found = self.store.read(run, newest_first=True, limit=1, bodies=False)
        if found and found[0].status == Status.DELETED and not erases(found[0]):
            reason = "it is gone, and no entry behind it says that it was deleted"
            raise CheckpointCorruptedError(run, found[0].seq, reason)
        return found[0] if found else None

    def head_seq(self, run: str) -> int | None:
        """The seq of the run's newest entry, also where that can't be read."""
        return head_seq(self.store, run)

    def undisturbed(self, run: str, read: Callable[[], T]) -> T:
        """What `read` returns; called again where others deleted what it was reading."""
        known: int | None = -1
        while True:
            try:
                return read()
            except CheckpointCorruptedError:
                before, known = known, self.head_seq(run)
                if known == before:
                    raise

    def checked_head(self, run: str) -> Entry | None:
        """The run's newest entry, proved: its kind and parent say which state is current."""
        head, before = self._pair(run)
        return None if head is None else self._proved(head, before)

    def known_proof(self, entry: Entry) -> bytes | None:
        """The proof of an entry's content, if it is known without reading more."""
        return None

    def check_stub(self, entry: Entry) -> None:
        """Raise `CheckpointCorruptedError` unless a marker says that the entry was deleted."""
        self._markers.check_stub(entry)

    def vouch(self, entry: Entry, stored: Stored) -> None:
        """Raise `CheckpointCorruptedError` unless its marker lists this rewritten body."""
        self._markers.vouch(entry, stored)

    def _pair(self, run: str, seq: int | None = None) -> tuple[Entry | None, bytes | None]:
        """The entry at a seq, or the head, and the digest of the one before it, None if lost."""
        try:
            if seq is None:
                found = self.store.read(run, newest_first=True, limit=2)[::-1]
            else:
                found = self.store.read(run, after=seq - 2, limit=2)
        except CheckpointCorruptedError:
            place = self.head_seq(run) if seq is None else seq
            if place is None:
                raise
            return self._alone(run, place), self._digest_at(run, place - 1)
        place = (found[-1].seq if found else -1) if seq is None else seq
        digests = {entry.seq: entry.digest for entry in found}
        for entry in found:
            if entry.seq == place:
                return entry, digests.get(place - 1)
            if entry.seq > place:
                if place < 0 or erases(entry):
                    break
                raise missing(run, place)
        return None, None

    def _alone(self, run: str, seq: int) -> Entry | None:
        """The entry at a seq, where others near it can't be read."""
        try:
            found = self.store.read(run, after=seq - 1, limit=1)
        except CheckpointCorruptedError as error:
            raise damaged_at(self.store, run, seq, error) from None
        return found[0] if found and found[0].seq == seq else None

    def _proved(self, entry: Entry, before: bytes | None) -> Entry:
        """The entry, if its digest proves it; a delta is proved by `chain`."""
        stored = envelope.glance(entry)
        if stored.is_delta:
            proof = self.known_proof(entry)
            if proof is None:
                envelope.check(entry)
                return entry
        else:
            proof = stored.proof_with()
        if stored.proof:
            self.vouch(entry, stored)
        prove(entry, before, proof)
        return entry

    def entries(
        self,
        run: str,
        *,
        bodies: bool = False,
        newest_first: bool = False,
        after: int | None = None,
        page: int = PAGE,
        damage: Damage | None = None,
    ) -> Iterator[Entry]:
        """Every entry of a run, stubs included, a page at a time: with bodies, as many as fit.

        Raises `CheckpointCorruptedError` at an entry that is missing, or that the store finds
        damaged, or, with bodies, that is not proved; with `damage`, calls that and continues.
        """
        for found in self.scan(
            run, bodies=bodies, newest_first=newest_first, after=after, page=page
        ):
            if not isinstance(found, CheckpointCorruptedError):
                yield found
            elif damage is None:
                raise found
            else:
                damage(found)

    def scan(
        self,
        run: str,
        *,
        bodies: bool = False,
        newest_first: bool = False,
        after: int | None = None,
        page: int = PAGE,
    ) -> Iterator[Found]:
        """As `entries`, with what is wrong with an entry in its place."""
        if not bodies:
            return entries_of(self.store, run, newest_first, after, page, bodies=False)
        return self._backward(run, after, page) if newest_first else self._forward(run, after, page)

    def _forward(self, run: str, after: int | None, page: int) -> Iterator[Found]:
        """Proved entries, oldest first."""
        prover = Prover(self.vouch)
        first = -1 if after is None else after
        # One more, whose digest proves the first.
        for found in entries_of(
            self.store, run, False, first - 1, page + (first >= 0), bodies=True
        ):
            if isinstance(found, CheckpointCorruptedError):
                if found.seq is not None:
                    prover.pass_over(found.seq, found.digest)
            elif is_stub(found) or found.seq <= first:
                prover.pass_over(found.seq, found.digest)
            else:
                try:
                    prover.prove(found)
                except CheckpointCorruptedError as error:
                    error.entry = found
                    yield error
                    continue
            if found.seq is None or found.seq > first:
                yield found

    def _backward(self, run: str, after: int | None, page: int) -> Iterator[Found]:
        """Proved entries, newest first: each when the one before it was read, too."""
        waiting: Entry | None = None
        for found in entries_of(self.store, run, True, after, page + 1, bodies=True):
            if waiting is not None:
                yield self._proved_or_not(waiting, found.digest)
                waiting = None
            if isinstance(found, CheckpointCorruptedError):
                yield found
            else:
                waiting = found
        if waiting is not None:
            yield self._proved_or_not(waiting, None)

    def _proved_or_not(self, entry: Entry, before: bytes | None) -> Found:
        if is_stub(entry):
            return entry
        try:
            return self._proved(entry, before)
        except CheckpointCorruptedError as error:
            error.entry = entry
            return error

    def branch(self, run: str, damage: Damage | None = None) -> Iterator[Entry]:
        """The live checkpoints from the current one back to the first, without abandoned ones."""
        try:
            head = self.checked_head(run)
        except CheckpointCorruptedError as error:
            if damage is None or error.seq is None:
                raise
            damage(error)
            head = next(
                self.entries(
                    run, bodies=True, newest_first=True, after=error.seq, page=1, damage=pass_by
                ),
                None,
            )
        yield from () if head is None else self.branch_of(head, damage)

    def branch_of(self, entry: Entry, damage: Damage | None = None) -> Iterator[Entry]:
        """The live checkpoints from the one that is current at this entry back to the first.

        With `damage`, that is called for damaged ones among them. What they build on is known
        from the entries before them: what was current there.
        """
        wanted = state_seq(entry)
        if wanted is None:
            return
        lost = False
        stored: int | None = None  # what a damaged one builds on, as far as it says so itself
        for found in self.scan(
            entry.run, newest_first=True, bodies=True, after=wanted + 1, page=FEW
        ):
            if isinstance(found, CheckpointCorruptedError):
                if lost and stored is not None:
                    wanted, lost = stored, False
                if lost or found.seq in (wanted, None):
                    if damage is None or lost or found.seq is None:
                        raise found
                    damage(found)
                    lost, stored = True, found.entry and found.entry.parent
                continue
            if lost:
                wanted, lost = current_at(found), False
            if found.seq == wanted:
                if is_stub(found):
                    try:
                        self.check_stub(found)
                    except CheckpointCorruptedError as error:
                        if damage is None:
                            raise
                        damage(error)
                    lost, stored = True, found.parent  # which nothing proves
                else:
                    yield found
                    wanted = found.parent
            if wanted is None:
                return
        if lost:
            return
        raise CheckpointCorruptedError(entry.run, wanted, "a later state builds on it; it is gone")

    def opening(self, run: str) -> Entry | None:
        """The entry that opened the run; None if there is no run."""
        first = self.scan(run, bodies=True, newest_first=False, after=None, page=2)
        for found in islice(first, 2):  # erasing leaves a tombstone before it
            if isinstance(found, CheckpointCorruptedError):
                raise found
            if found.kind == Kind.OPEN:
                return found
        return None

    def trail(
        self, run: str, end: int | None = None, *, start: int = 0, bodies: bool = True
    ) -> list[Entry]:
        """Every live entry that led to the head, or to the seq `end`, oldest first, proved.

        From the seq `start` on. What a rollback left behind is not among them; the rollback
        itself is. Without `bodies` nothing is proved. Raises `CheckpointCorruptedError` for a
        damaged or missing one of them, whatever became of those left behind.
        """
        found: list[Found] = []
        for entry in self.scan(run, bodies=bodies, newest_first=False, after=start - 1):
            if end is not None and entry.seq is not None and entry.seq > end:
                break
            found.append(entry)
        # From the end back, because a rollback may lead to what an earlier one left behind.
        trail: list[Entry] = []
        back_to: int | None = None
        damaged: CheckpointCorruptedError | None = None  # the first, of which others follow
        for entry in reversed(found):
            if isinstance(entry, CheckpointCorruptedError):
                if entry.seq is None or back_to is None or entry.seq <= back_to:
                    damaged = entry
                continue
            opens = entry.kind == Kind.OPEN
            if back_to is not None and entry.seq > back_to and not opens:
                continue
            if entry.kind == Kind.TRIM:
                continue
            if entry.status == Status.DELETED and entry.kind != Kind.TOMBSTONE:
                self.check_stub(entry)
                continue
            trail.append(entry)
            if opens:
                break
            if entry.kind in (Kind.ROLLBACK, Kind.TOMBSTONE):
                if erases(entry):
                    break
                back_to = -1 if entry.parent is None else entry.parent
        if damaged is not None:
            raise damaged
        return trail[::-1]

    def chain(self, run: str, seq: int, last: Entry | None = None) -> Chain:
        """Put the state at `seq` together from its keyframe and deltas, in the store's form.

        Raises `CheckpointCorruptedError`, also where a link is missing.
        """
        chain, flags = self.chain_as_stored(run, seq, last)
        if self._is_own(flags):
            return chain
        encoding = self.in_form(run, seq, chain.encoding, flags)
        return chain._replace(encoding=encoding, foreign=True)

    def in_form(self, run: str, seq: int, encoding: bytes, flags: int) -> bytes:
        """An encoding in the store's own form; copies of runs have the form of their origin."""
        if self._is_own(flags):
            return encoding
        try:
            if flags & envelope.READABLE:
                return values.encode(readable.loads(encoding.decode()))
            return readable.dumps(values.decode(encoding), indent=1).encode()
        except ValueError as error:
            raise CheckpointCorruptedError(run, seq, f"it can't be decoded: {error}") from None

    def _is_own(self, flags: int) -> bool:
        return bool(flags & envelope.READABLE) == (self.store.form == "readable")

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
        deltas: list[tuple[Entry, Stored, Content]] = []
        found: dict[int, Entry] = {}
        stored = look(self.bounded(entry))
        content = envelope.unseal(entry, stored)
        while content.is_delta:
            deltas.append((entry, stored, content))
            if content.base not in found:
                end = seq - 1 if seq - content.base <= FEW else content.base
                found |= self._range(run, min(content.landmark, content.base), end)
            base = found.get(content.base)
            if base is None or not base.size:
                if self._is_rewritten(entry):
                    return self._assembled(run, seq, None, look)
                raise CheckpointCorruptedError(
                    run, seq, f"the state it builds on, {run}@{content.base}, is gone"
                )
            entry = base
            stored = look(self.bounded(entry))
            content = envelope.unseal(entry, stored)
        whole, proof = self.applied(entry, content), stored.proof_with()
        landmark = Landmark(entry.seq, whole, proof, len(entry.body))
        if not deltas:
            return Chain(whole, proof, newest.kind, landmark), stored.flags
        if stored.proof:
            self._markers.vouch(entry, stored)
        last_landmark = deltas[0][2].landmark
        links = link_bytes = 0
        encoding = bytearray(whole)
        if look is envelope.check:
            self._blame(entry, proof, found)
        for entry, stored, content in reversed(deltas):
            encoding = self._patched(entry, content, encoding)
            proof = stored.proof_with(proof)
            if look is envelope.check:
                self._blame(entry, proof, found)
            if content.landmark == entry.seq:
                held = bytes(encoding) if entry.seq == last_landmark else b""
                landmark = landmark.span(entry.seq, held, proof, len(entry.body))
                links = link_bytes = 0
            else:
                links += 1
                link_bytes += len(entry.body)
        before = found.get(seq - 1)
        digest = self._digest_at(run, seq - 1) if before is None else before.digest
        prove(newest, digest, proof)
        state = bytes(encoding) if links else landmark.encoding
        return Chain(state, proof, newest.kind, landmark, links, link_bytes), deltas[0][1].flags

    def _blame(self, entry: Entry, proof: bytes, found: dict[int, Entry]) -> None:
        """Raise for a link that is not proved, as far as the entry before it is known."""
        before = found.get(entry.seq - 1)
        if before is not None:
            prove(entry, before.digest, proof)

    def _digest_at(self, run: str, seq: int) -> bytes | None:
        """The digest of an entry, as it is stored; None if it is lost."""
        try:
            found = self.store.read(run, after=seq - 1, limit=1, bodies=False)
        except CheckpointCorruptedError as error:
            return error.digest
        return found[0].digest if found and found[0].seq == seq else None

    def applied(self, entry: Entry, content: Content, base: bytes = b"") -> bytes:
        """The state that an entry's content is, or makes of the one that it is a change to."""
        if content.is_delta:
            return bytes(self._patched(entry, content, bytearray(base)))
        return bytes(self._checked(entry, content.payload))

    def _patched(self, entry: Entry, content: Content, encoding: bytearray) -> bytearray:
        try:
            patched = delta.apply(encoding, content.payload, entry.size)
        except ValueError as error:
            raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None
        self._checked(entry, patched)
        return patched

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


def is_stub(entry: Entry) -> bool:
    """Whether this is what a deleted entry left, read with its body."""
    return entry.status == Status.DELETED and not entry.body


def state_seq(entry: Entry) -> int | None:
    """The seq of the state that is current once this entry is the head."""
    return (
        entry.seq if entry.kind in CARRY_STATE and entry.status != Status.DELETED else entry.parent
    )


def current_at(entry: Entry) -> int | None:
    """The seq of the state that was current when this entry was the head, deleted or not."""
    return entry.seq if entry.kind in CARRY_STATE else entry.parent


def is_live(entry: Entry) -> bool:
    """Whether this is a checkpoint that was not deleted."""
    return entry.kind in CARRY_STATE and entry.status != Status.DELETED
