"""The journals of one store, as this process knows them: heads, states, and how they grow."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Final

from holdfast.codec import envelope, wrapping
from holdfast.codec.chain import SMALL_STATE, pack, whole
from holdfast.errors import CheckpointCorruptedError, EntriesLostError, UnknownFormatError
from holdfast.kernel import keyed
from holdfast.kernel.draft import KEEP, Draft
from holdfast.kernel.owner_view import owner_view
from holdfast.kernel.pages import damaged_at
from holdfast.kernel.ticket import Ticket
from holdfast.kernel.tip import Tip
from holdfast.kernel.unclaimed import saying
from holdfast.kernel.values import ValueReader
from holdfast.kernel.writer import Writer
from holdfast.keys.sealing import EntryGuard, Sealer
from holdfast.logs import logger
from holdfast.model import CARRY_STATE, SHARED, THREADS, Entry, Kind, begins_term
from holdfast.seams import Clock, Entropy, on_fork
from holdfast.store import Head, Store, Work

if TYPE_CHECKING:
    from holdfast.kernel.remembering import RememberedHeads

CACHE_BYTES: Final = 64 << 20
_CHECKPOINT, _COMPLETE, _OPEN = Kind.CHECKPOINT.value, Kind.COMPLETE.value, Kind.OPEN.value


class Journals(ValueReader):
    """Grows and reads journals. Thread-safe; blocks only in the methods that say so."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        clock: Clock,
        entropy: Entropy,
        cache_bytes: int = CACHE_BYTES,
        largest_state: int = 1 << 30,
        sealer: Sealer | None = None,
        fields: Sealer | None = None,
    ) -> None:
        """`sealer` closes whole entries; `fields` encrypts fields of states, and only those."""
        super().__init__(store, largest_state, sealer)
        self._flags = wrapping.READABLE if self.is_readable else 0
        self.writer = writer
        self._bound = owner_view(store)
        self.owner = None if self._bound is None else self._bound.owner
        self.clock = clock
        self.entropy = entropy
        self._cache_bytes = cache_bytes
        self._begun = False  # whether the store knows since when there is a key, if there is one
        self.told: Callable[[Ticket], None] | None = None  # of the outcome of every save
        self._shrinks = not store.inline  # what is in memory only is not worth the time
        self.fields = fields
        self.remembered: RememberedHeads | None = None  # outside of the store
        self._reset()
        on_fork(self._reset)

    def check_free(self, run: str, drafts: Sequence[Draft]) -> None:
        """Raise `RunTakenError` if a run of another owner has the id. Blocks.

        Also `BoundOwnerError` if a draft is for another owner than the one these are bound to.
        """
        if self._bound is not None:
            for draft in drafts:
                self._bound.check_given(draft.owner)
            self._bound.check_free(run)

    def check_given(self, owner: str | None) -> None:
        """Raise `BoundOwnerError` for another owner than the one these are bound to."""
        if self._bound is not None:
            self._bound.check_given(owner)

    def new_birth(self) -> str:
        """A birth id for a run that is about to be opened."""
        return self.entropy(10).hex()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._tips: OrderedDict[str, Tip] = OrderedDict()
        self._held = 0

    def tip(self, run: str) -> Tip | None:
        """What is known of the run's head without asking the store, if it can be extended.

        Nothing is until the store was asked whether there must be a key (`begin`).
        """
        tip = self._tips.get(run)
        return tip if tip is not None and not tip.broken and self._begun else None

    def _known(self, run: str) -> Tip | None:
        tip = self._tips.get(run)
        return None if tip is None or tip.broken else tip

    def unheard_of(self, run: str) -> Tip | None:
        """A tip for a run that is new as far as is known here, if only the store can refuse it."""
        asks = self._bound or self.sealer or self.remembered or not self._begun
        return None if asks or run in self._tips else Tip(run, None)

    def checked_head(self, run: str) -> Entry | None:
        """The run's newest entry, proved, and compared with what is remembered of the run."""
        read = super().checked_head
        return read(run) if self.remembered is None else self.remembered.checked(self, run, read)

    def fetch_tip(self, run: str, *, with_state: bool) -> Tip:
        """Ask the store for the run's head, and for the state there if wanted. Blocks."""
        settled = self._settled_tip(run)
        try:
            head = self.checked_head(run)
        except UnknownFormatError:
            raise  # a newer version wrote it, which may have more to say on what follows
        except CheckpointCorruptedError as error:
            return self._blind_tip(run, error)
        return self._learned(run, head, settled, with_state)

    def fetch_head(self, run: str) -> tuple[Entry | None, Tip]:
        """Ask the store for the run's head, and the tip there, which may be ahead of it. Blocks.

        Raises `CheckpointCorruptedError` for a damaged head, which `fetch_tip` tolerates.
        """
        settled, head = self._settled_tip(run), self.checked_head(run)
        return head, self._learned(run, head, settled, with_state=False)

    def _learned(
        self, run: str, head: Entry | None, settled: tuple[Tip, int] | None, with_state: bool
    ) -> Tip:
        """The tip at a head that was just read, or the one that is known to be there already."""
        tip = Tip(run, head)
        self.have_ready(tip)
        if settled is not None and tip.seq < settled[1] and not settled[0].broken:
            if head is not None:  # a run that is gone may have expired
                logger().warning("%s", EntriesLostError(run, settled[1], tip.seq))
            settled[0].broken = True
        try:
            if with_state and head is not None and tip.state_seq is not None:
                base = self.base_of(head)
                tip.base_seq = None if base is None else base.seq
                tip.chain = None if base is None else self.chain(run, base.seq, base)
        except CheckpointCorruptedError:
            tip.damaged = True
        with self._lock:
            known = self._known(run)
            if known is not None and known.is_at_or_ahead_of(tip):
                # Another task asked, too: there must be one tip for one head.
                if known.lacks_state and known.seq == tip.seq:
                    known.chain, known.base_seq = tip.chain, tip.base_seq
                    known.damaged = tip.damaged
                    self._keep(known)
                return known
            self._keep(tip)
        return tip

    def _settled_tip(self, run: str) -> tuple[Tip, int] | None:
        """The tip, and its seq, if the store has acknowledged all up to there."""
        with self._lock:  # else it may have moved on to what is not even queued
            tip = self._known(run)
            seq = -1 if tip is None else tip.seq
        return None if tip is None or self.writer.queued(run) else (tip, seq)

    def _blind_tip(self, run: str, error: CheckpointCorruptedError) -> Tip:
        """A tip behind a head that can't be read: a whole state may still follow it."""
        seq = self.head_seq(run)
        if seq is None:
            raise error
        error = damaged_at(self.store, run, seq, error)
        tip = Tip(run, error.entry)
        tip.damaged = True
        tip.quiet = False  # whatever this head seems to be
        try:
            opening = self.opening(run)
        except CheckpointCorruptedError:
            opening = None
        if opening is not None:  # what a damaged head says of these is not proved
            tip.flow, tip.thread, tip.owner = opening.flow, opening.thread, opening.owner
        self.have_ready(tip)
        if error.entry is None:
            tip.seq, tip.exists, tip.digest = seq, True, error.digest
            tip.term = seq  # for all that is known, it says who holds the run
        with self._lock:
            self._keep(tip)
        return tip

    def extend(
        self,
        tip: Tip,
        drafts: Sequence[Draft],
        deadline: float,
        *,
        only_at: int | None = None,
        only_behind: Head | None = None,
        work: Work | None = None,
    ) -> Ticket | None:
        """Put the drafts behind the tip and submit them; None if it is broken.

        Also None if it is not at the seq `only_at`, or not the head `only_behind`. `work` is run in
        the transaction that appends them. Does not block. The tip moves on at once; what it says is
        true when the ticket says so.
        """
        with self._lock:
            if tip.broken or (only_at is not None and only_at != tip.seq):
                return None
            if only_behind is not None and only_behind != (tip.seq, tip.digest):
                return None
            # Behind a head that could not be read, the store does not know the digest either.
            behind = tip.digest if tip.status is not None or tip.seq < 0 else None
            try:
                entries = []
                for draft in drafts:
                    entries.append(self._place(tip, draft))  # noqa: PERF401 - 1 % of a save
                told = self.told if self.remembered is None else self.remembered.told(self.told)
                ticket = Ticket(entries, tip, deadline, work, drafts, behind, told)
                self.writer.submit(ticket)
            except BaseException:
                tip.broken = True  # it moved on, and nothing went with it
                if self._tips.get(tip.run) is tip:
                    self._drop(tip)
                raise
            self._keep(tip)
        return ticket

    def place(self, tip: Tip, draft: Draft) -> Entry:
        """The entry that would follow the tip, for `Store.trim` and `erase`; the tip stays. Blocks.

        Raises as `prepare` does.
        """
        self.begin()
        return self.placed(tip, draft)

    def placed(self, tip: Tip, draft: Draft) -> Entry:
        """As `place`, for a store that need not know yet since when there is a key."""
        return self._place(copy(tip), draft)

    def forget(self, run: str) -> None:
        """Drop what is known of a run, because someone else changed it. Queued entries fail."""
        with self._lock:
            tip = self._tips.get(run)
            if tip is not None:
                tip.broken = True
                self._drop(tip)

    def _place(self, tip: Tip, draft: Draft) -> Entry:
        """The next entry; the tip moves on to it."""
        if not tip.claimed and (draft.meta or tip.says_due):
            draft = saying(tip, draft)
        kind, status, encoding, parent, step, index, type_, took, flow, thread, owner, meta = draft
        seq = tip.seq + 1
        if parent == KEEP:
            parent = tip.state_seq
        if flow is None:
            flow = tip.flow
        if thread is None:
            thread = tip.thread
        if owner is None:
            owner = tip.owner if self.owner is None else self._owner(tip, kind)
        term = seq if begins_term(kind, status, tip.status) else tip.term
        front = tip.run, seq, kind, self.entropy(10), parent, term
        guard = None
        if self.sealer is not None:
            guard = self.sealer.guard(front, owner)
            meta = guard.meta(meta)
        if encoding is None:
            size, packed = 0, envelope.nothing(self._flags, guard)
        else:
            size, packed = len(encoding), self._packed(tip, kind, seq, encoding, guard)
        at = self.clock.now()
        back = step, index, type_, status, at, took, size, flow, thread, owner, meta
        entry = envelope.seal(front, back, tip.digest, packed, guard)
        if encoding is not None and kind in CARRY_STATE:
            tip.state_seq = seq
        elif tip.state_seq != parent:
            tip.state_seq = tip.base_seq = parent
            tip.chain = None
        if kind == _COMPLETE and not self._shrinks:
            tip.chain = None  # a second copy in memory of what hardly anyone asks for again
        tip.seq = seq
        tip.term = term
        tip.status = status
        tip.digest = entry.digest
        if not tip.exists:  # this opens the run
            tip.exists = True
            tip.flow, tip.thread = entry.flow, entry.thread
            if not tip.run.startswith(THREADS):
                tip.owner = entry.owner
        return entry

    def prepare(self, owner: str | None) -> None:
        """Have ready what closes the entries of an owner. Blocks.

        Raises `CutOverError`, and `KeyMissingError` if the store has a key, and this has none.
        """
        if self.sealer is not None:
            self.sealer.prepare(owner)
        self.begin()

    def have_ready(self, tip: Tip) -> None:
        """Have ready what closes the entries behind this tip. Blocks. Raises as `prepare` does."""
        owner = tip.owner or self.owner
        if self.sealer is not None and not self.sealer.is_ready(owner):
            self.sealer.prepare(owner)
        self.begin()

    def begin(self) -> None:
        """Record since when there is a key. Blocks. Raises as `prepare` does."""
        if not self._begun:
            keyed.begin(self)
            self._begun = True

    def _owner(self, tip: Tip, kind: str) -> str | None:
        """To whom an entry belongs that does not say it: a new run is the owner's who opens it."""
        if (tip.exists and kind != Kind.MEMBER) or tip.run.startswith(SHARED):
            return tip.owner
        return self.owner

    def _packed(
        self, tip: Tip, kind: str, seq: int, encoding: bytes, guard: EntryGuard | None
    ) -> envelope.Packed:
        """A delta where it pays, else a keyframe; the tip then stands on the new state.

        What is not the run's state (a step's own value) leaves the tip where it is. Large inputs
        count as one: the first state is often much like them.
        """
        encoding = bytes(encoding)  # what it carries in memory stays with the caller
        if self._flags & wrapping.READABLE:
            packed = envelope.keyframe(encoding, wrapping.READABLE, guard)
            packed, chain = whole(kind, seq, encoding, packed)
        else:
            packed, chain = pack(
                tip.chain, tip.base_seq, kind, seq, encoding, guard, shrink=self._shrinks
            )
        if kind == _CHECKPOINT or (kind == _OPEN and len(encoding) > SMALL_STATE):
            tip.chain, tip.base_seq = chain, seq
        return packed

    def _keep(self, tip: Tip) -> None:
        """Make the tip the newest of the cache; evict the oldest beyond its size."""
        tips, run, chain = self._tips, tip.run, tip.chain
        known = tips.get(run)
        if known is not tip:
            if known is not None:
                self._drop(known)
            tips[run] = tip
        weight = 0 if chain is None else chain.weight()
        if weight != tip.held:
            self._held += weight - tip.held
            tip.held = weight
        tips.move_to_end(run)
        while self._held + 512 * len(tips) > self._cache_bytes and len(tips) > 1:
            self._drop(next(iter(tips.values())))

    def _drop(self, tip: Tip) -> None:
        """Take the tip out of the cache."""
        del self._tips[tip.run]
        self._held -= tip.held
        tip.held = 0

    def current_state(self, head: Entry) -> bytes:
        """The encoded state that this head stands on; from memory if it is the one we know."""
        with self._lock:  # the tip moves on with every save
            known = self._known(head.run)
            if known and known.chain and (known.seq, known.digest) == (head.seq, head.digest):
                return known.chain.encoding
        tip = Tip(head.run, head)
        assert tip.state_seq is not None, "only heads that stand on a state are asked about"
        chain = self.chain(head.run, tip.state_seq, head)
        if chain.kind != Kind.CHECKPOINT:
            return chain.encoding
        tip.chain = chain
        self._learn(tip)
        return chain.encoding

    def base_state(self, head: Entry, base: Entry) -> bytes:
        """The encoded state of the checkpoint that a delta behind this head builds on.

        From memory if the head is the one we know; else a save behind it need not read it again.
        """
        with self._lock:
            known = self._known(head.run)
            here = known is not None and (known.seq, known.digest) == (head.seq, head.digest)
            if known and known.chain and here and known.base_seq == base.seq:
                return known.chain.encoding
        tip = Tip(head.run, head)
        tip.base_seq, tip.chain = base.seq, self.chain(head.run, base.seq, base)
        self._learn(tip)
        return tip.chain.encoding

    def _learn(self, tip: Tip) -> None:
        """Keep a tip that was just read, unless saves are under way behind it."""
        with self._lock:
            known = self._known(tip.run)
            if known is None or known.seq <= tip.seq:
                self._keep(tip)
