"""Reading entries, one by one or all of a run, proved. Blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TypeVar

from holdfast.codec import envelope
from holdfast.codec.envelope import Guard, Open, Stored
from holdfast.errors import (
    CheckpointCorruptedError,
    KeyMissingError,
    PlaintextError,
    WrongKeyError,
)
from holdfast.kernel.cut_over import CutOver
from holdfast.kernel.markers import Markers
from holdfast.kernel.pages import (
    Damage,
    Found,
    damaged_at,
    entries_of,
    head_seq,
    missing,
    pass_by,
)
from holdfast.kernel.proving import MARKERS, Prover, Vouch, prove
from holdfast.kernel.sealed_view import SealedView
from holdfast.keys.sealing import Sealer
from holdfast.model import CARRY_STATE, CUT_OVER, KEYS, Entry, Status, erases
from holdfast.store import PAGE, Store

T = TypeVar("T")


class EntryReader:
    """Reads the entries of journals.

    Those that it returns with their bodies are proved; `Reader.chain` proves what deltas hold.
    Damage raises `CheckpointCorruptedError` where something depends on it.
    """

    def __init__(self, store: Store, sealer: Sealer | None = None) -> None:
        self.store = store if sealer is None else SealedView(store, sealer)
        self.sealer = sealer
        self.cut_over = CutOver(
            partial(self.head_seq, CUT_OVER),
            partial(self.entries, CUT_OVER, bodies=True),
            lambda run: entries_of(self.store, run, True, None, PAGE, bodies=True),
            self._marker,
        )
        self._markers = Markers(
            self._marker, lambda run, seq: self.entries(run, after=seq, damage=pass_by)
        )

    def entry(self, run: str, seq: int) -> Entry | None:
        """The entry at one position, proved; None where there is none, or only a stub."""
        found, before = self._pair(run, seq)
        if found is None:
            return None
        if is_stub(found):
            self.check_stub(found)
            return None
        return self._proved(found, before, self.admit)

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

    def entry_id(self, run: str, seq: int) -> bytes | None:
        """The random id of the entry at a seq: who wrote it recognises it; None if there is none."""
        found = self.store.read(run, after=seq - 1, limit=1, bodies=False)
        return found[0].entry_id if found and found[0].seq == seq else None

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
        return None if head is None else self._proved(head, before, self.admit)

    def proved_at(self, run: str, seq: int | None = None) -> Entry | None:
        """The entry at a seq, or the head, proved: without its key, as far as digests prove it."""
        found, before = self._pair(run, seq)
        return None if found is None else self.proved(found, before)

    def proved(self, entry: Entry, before: bytes | None) -> Entry:
        """As `proved_at`, of an entry that was read with its body, behind the digest `before`."""
        self._proved(entry, before, None)
        if self.sealer is not None:
            with suppress(KeyMissingError, WrongKeyError):
                self.admit(entry, envelope.glance(entry))
        return entry

    def check_stub(self, entry: Entry, before: bytes | None = None) -> None:
        """Raise `CheckpointCorruptedError` unless a marker says that the entry was deleted.

        Also if the digest of the entry `before` it is not the one that it had then.
        """
        self._markers.check_stub(entry, before)

    def vouch(self, entry: Entry, stored: Stored) -> None:
        """Raise `CheckpointCorruptedError` unless its marker lists this rewritten body."""
        self._markers.vouch(entry, stored)

    def _marker(self, run: str, seq: int) -> Entry | None:
        """The marker at a seq, proved; None if there is none.

        One that says it was rewritten itself is none: else markers could vouch for each other
        without end.
        """
        found, before = self._pair(run, seq)
        if found is None or found.kind not in MARKERS or envelope.glance(found).proof:
            return None
        return self._proved(found, before, self.admits)  # which holds no secrets

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

    def _proved(self, entry: Entry, before: bytes | None, admit: Vouch | None) -> Entry:
        """The entry, if its digest proves it; the content of a delta is proved by `chain`."""
        stored = envelope.glance(entry)
        if stored.is_rewritten:
            self.vouch(entry, stored)
        prove(entry, before, stored.said_proof)
        if admit is not None:
            admit(entry, stored)
        return entry

    def admit(self, entry: Entry, stored: Stored) -> None:
        """Raise unless a holder of the key wrote the entry, or there was none yet, or needs none.

        `KeyMissingError`, `WrongKeyError`, `PlaintextError`, or `CheckpointCorruptedError`.
        """
        if self.sealer is None:
            if stored.is_sealed:
                raise KeyMissingError(entry.run, entry.seq)
        elif entry.run.startswith(KEYS):  # data keys are wrapped, each by itself, and never sealed
            return
        elif not self.sealer.authenticate(entry, stored) and not self.cut_over.allows(entry):
            reason = "it is not encrypted or signed, as everything here must be"
            if not self.cut_over.recorded:
                reason += " (was it saved before you had a key? See `holdfast rekey --cut-over`)"
            raise PlaintextError(entry.run, entry.seq, reason)

    @property
    def admits(self) -> Vouch | None:
        """`admit` where there is a key; None where the digests alone have to do."""
        return None if self.sealer is None else self.admit

    @property
    def opens(self) -> Open | None:
        """What opens sealed contents; None without a key."""
        return None if self.sealer is None else self.sealer.open

    def guard_again(self, entry: Entry) -> Guard | None:
        """What closes a new body of an entry, as it was closed before."""
        stored = envelope.glance(entry)
        if not stored.trailer:
            return None
        if self.sealer is None:
            raise KeyMissingError(entry.run, entry.seq)
        return self.sealer.guard_again(entry, stored)

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
        prover = Prover(self.vouch, self.admit)
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
            return self._proved(entry, before, self.admit)
        except CheckpointCorruptedError as error:
            error.entry = entry
            return error

    def _digest_at(self, run: str, seq: int) -> bytes | None:
        """The digest of an entry, as it is stored; None if it is lost."""
        try:
            found = self.store.read(run, after=seq - 1, limit=1, bodies=False)
        except CheckpointCorruptedError as error:
            return error.digest
        return found[0].digest if found and found[0].seq == seq else None


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
