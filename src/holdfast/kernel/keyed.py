"""What a store needs before anything is saved to it with a key. Blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.codec import envelope
from holdfast.codec.meta import dump_meta
from holdfast.codec.wrapping import SEALED, SIGNED
from holdfast.errors import (
    CheckpointCorruptedError,
    CutOverError,
    KeyDestroyedError,
    KeyMissingError,
    OutcomeUnknownError,
    PlaintextError,
)
from holdfast.kernel.cut_over import ends, has_runs
from holdfast.kernel.draft import Draft
from holdfast.kernel.entries import EntryReader
from holdfast.kernel.pages import pass_by
from holdfast.kernel.store_view import real_store
from holdfast.kernel.tip import Tip
from holdfast.keys.data_keys import ID_BYTES, DataKeys, KeyRow
from holdfast.model import CUT_OVER, KEYS, Entry, Kind, Status, verdict_journal
from holdfast.store import RunFilter, Store

if TYPE_CHECKING:
    from holdfast.kernel.journal import Journals
    from holdfast.kernel.writer import Writer
    from holdfast.keys.keyring import Keyring
    from holdfast.keys.sealing import Sealer


_LOOKED_AT: Final = 20  # runs, to find out whether they are encrypted


def begin(journals: Journals) -> None:
    """Record that all there is from now on is sealed or signed, unless that is recorded.

    Raises `CutOverError` if there are runs already, or if they were sealed and not signed so far,
    or the other way round; `KeyMissingError` if it is recorded, and a key for it is not here.
    """
    sealer = journals.sealer
    if sealer is None:
        if journals.head_seq(CUT_OVER) is not None:
            raise KeyMissingError("")
        return
    try:
        last = journals.cut_over.last()
    except PlaintextError:
        raise CutOverError(journals.store.url) from None
    if last is not None:
        flags = envelope.glance(last).flags
        if (flags & SEALED and sealer.keys is None) or (flags & SIGNED and sealer.signer is None):
            raise KeyMissingError("")
        if last.kind == Kind.COMPLETE:
            return
    elif sealer.keys is None and sealer.signer is None:
        raise KeyMissingError("")
    if has_runs(real_store(journals.store)):
        check_first(journals)
        raise CutOverError(journals.store.url)
    cut_over(journals, hidden_only=True)


def cut_over(journals: Journals, *, hidden_only: bool = False) -> int:
    """Record where all journals end that are not sealed; returns how many there are."""
    try:
        journals.cut_over.last()
    except PlaintextError:
        _start_over(journals)
    listed = 0
    for batch in ends(real_store(journals.store), hidden_only=hidden_only):
        _append(
            journals, Draft(Kind.MEMBER.value, Status.OPEN.value, meta=dump_meta({"plain": batch}))
        )
        listed += len(batch)
    _append(journals, Draft(Kind.COMPLETE.value, Status.COMPLETED.value))
    return listed


def check_first(journals: Journals) -> None:
    """Raise `CheckpointCorruptedError` if the record of a cut-over was there once, and is gone.

    Who removed it may have put runs of their own into the store, which nobody should accept.
    """
    if journals.head_seq(CUT_OVER) is not None:
        return
    store = real_store(journals.store)
    for head in store.runs():
        for entry in store.read(head.run, newest_first=True, limit=1):
            if envelope.glance(entry).is_sealed:
                reason = "it is gone, and there are encrypted runs, which begin after it"
                raise CheckpointCorruptedError(CUT_OVER, None, reason)


def is_cut_over(journals: Journals) -> bool:
    """Whether a cut-over was recorded to its end, sealed and signed as it must be now."""
    try:
        last = journals.cut_over.last()
    except PlaintextError:
        return False
    return last is not None and last.kind == Kind.COMPLETE


def _start_over(journals: Journals) -> None:
    """Remove a record that was only sealed, or only signed: all will be listed again."""
    head = journals.head(CUT_OVER)
    assert head is not None, "it was just read"
    meta = dump_meta({"after": head.digest.hex()})
    draft = Draft(Kind.TOMBSTONE.value, Status.DELETED.value, parent=None, meta=meta)
    journals.store.erase(journals.placed(Tip(CUT_OVER, head), draft))


def _append(journals: Journals, draft: Draft) -> None:
    while True:
        tip = Tip(CUT_OVER, EntryReader.checked_head(journals, CUT_OVER))  # not remembered yet
        entry = journals.placed(tip, draft)
        try:
            if journals.store.append([entry])[0]:
                return
        except OutcomeUnknownError:
            if journals.entry_id(CUT_OVER, entry.seq) == entry.entry_id:
                return


def elsewhere(journals: Journals, store: Store, writer: Writer, largest_state: int) -> Journals:
    """Journals of another store, with the same keys."""
    sealer, fields = (
        None if one is None else one.elsewhere(store) for one in (journals.sealer, journals.fields)
    )
    return type(journals)(
        store,
        writer,
        journals.clock,
        journals.entropy,
        largest_state=largest_state,
        sealer=sealer,
        fields=fields,
    )


def ring_keys(journals: Journals) -> DataKeys | None:
    """The data keys of a store, to be opened with a keyring; None if there is no keyring."""
    return next((sealer.keys for sealer in with_ring(journals)), None)


def with_ring(journals: Journals) -> Iterator[Sealer]:
    """What encrypts with a keyring: whole entries, or fields of states."""
    for sealer in (journals.sealer, journals.fields):
        if sealer is not None and sealer.keys is not None:
            yield sealer


def data_keys(journals: Journals) -> DataKeys:
    """The data keys of a store; without a keyring, as they are stored."""
    found = ring_keys(journals)
    if found is not None:
        return found
    return DataKeys(journals.store, None, journals.clock, journals.entropy)


def destroy(journals: Journals, owner: str) -> tuple[str, ...]:
    """Destroy the data keys of an owner, also without a keyring; returns their ids."""
    gone = data_keys(journals).destroy(owner)
    for sealer in with_ring(journals):
        sealer.forget(owner)
    return gone


def has_only_fields(store: Store, ring: Keyring) -> bool:
    """Whether a store has data keys, and not everything in it must be encrypted by them.

    Runs that are encrypted say that it must, also where the record of that was removed.
    """
    kept = ring.data_keys or store
    where = RunFilter(status=Status.DELETED.value, prefix=KEYS)
    if store.last(CUT_OVER) is not None or not kept.runs(where, limit=1):
        return False
    return not any(_is_sealed(store, head.run) for head in store.runs(limit=_LOOKED_AT))


def _is_sealed(store: Store, run: str) -> bool:
    with suppress(CheckpointCorruptedError):
        last = store.last(run)
        return last is not None and envelope.glance(last).is_sealed
    return False


def key_rows(journals: Journals, run: str) -> list[KeyRow]:
    """The wrapped data keys that a run, or encrypted fields in it, need."""
    rows = map(data_keys(journals).row, owners_of(journals, run))
    return [row for row in rows if row.wrapped]


def take_keys(source: Journals, target: Journals, run: str) -> None:
    """Let a target read a run that is about to be copied there: its keys, or that it has none."""
    for row in key_rows(source, run):
        data_keys(target).take_over(row)
    if source.sealer is None or target.sealer is None:
        return
    for name in (run, verdict_journal(run)):
        end = source.cut_over.end_of(name)
        if end is not None and target.cut_over.end_of(name) is None:
            listed = dump_meta({"plain": [(name, *end)]})
            _append(target, Draft(Kind.MEMBER.value, Status.OPEN.value, meta=listed))
            _append(target, Draft(Kind.COMPLETE.value, Status.COMPLETED.value))


def owners_of(journals: Journals, run: str) -> set[str | None]:
    """Whose data keys a run and the journals beside it need."""
    bodies = journals.sealer is not None  # which prove it: a forged owner has another key
    near = journals.entries(run, bodies=bodies, newest_first=True, page=2, damage=pass_by)
    return {None, next((entry.owner for entry in near if entry.status != Status.DELETED), None)}


def confirm(journals: Journals, entry: Entry) -> None:
    """Raise `KeyDestroyedError` if the owner of a new run was forgotten while it was opened."""
    keys = ring_keys(journals)
    if keys is None or entry.owner is None:
        return
    stored = envelope.glance(entry)
    known = keys.known(entry.owner)  # its fields were encrypted with this one, if any were
    used = stored.sealed[:ID_BYTES] if stored.is_sealed else known and known.id
    if used and not keys.is_current(entry.owner, used):
        for sealer in with_ring(journals):
            sealer.forget(entry.owner)
        raise KeyDestroyedError(
            entry.run, entry.seq, "its owner was forgotten, and the key destroyed"
        )
