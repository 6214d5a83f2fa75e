"""Adding entries of another store to a journal, and checking that they are there. Blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Final

from holdfast.codec import envelope
from holdfast.errors import CheckpointCorruptedError, RunExistsError
from holdfast.kernel.entries import is_stub
from holdfast.model import Entry
from holdfast.store import Store

PAGE: Final = 100
"""Entries to read or add at once."""

PAGE_BYTES: Final = 16 << 20
"""Bytes of their bodies, about."""

identity = attrgetter("seq", "entry_id", "digest")
"""What tells an entry of a journal from any other that could stand there."""


def add(store: Store, entries: list[Entry], states: set[int], lost: Collection[int] = ()) -> None:
    """Append what the store lacks of part of a journal, and check that all of it is there, intact.

    `states` are the seqs of the states that were found there before it; its own are put in. Those
    in `lost` are known to be damaged. Raises `RunExistsError` where something else stands,
    `CheckpointCorruptedError` for damage.
    """
    run, known = entries[0].run, -1
    while True:
        found = store.read(run, after=entries[0].seq - 1, limit=len(entries))
        with blaming(store):
            for ours, wanted in zip(found, entries, strict=False):
                if ours != wanted and not is_stub(ours):  # what was read is proved
                    envelope.check(ours)
                _check(ours, states, lost)
                if identity(ours) != identity(wanted):
                    raise RunExistsError(run)
        if len(found) == len(entries):
            return
        if len(found) == known:  # there is no room for the next one
            raise RunExistsError(run)
        known = len(found)
        store.append(entries[known:])


def pieces(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """The entries in batches of what may be added at once."""
    piece: list[Entry] = []
    weight = 0
    for entry in entries:
        if piece and (len(piece) == PAGE or weight + len(entry.body) > PAGE_BYTES):
            yield piece
            piece, weight = [], 0
        piece.append(entry)
        weight += len(entry.body)
    if piece:
        yield piece


def _check(entry: Entry, states: set[int], lost: Collection[int]) -> None:
    """Raise unless the state that its own is a change to is there."""
    if is_stub(entry):
        return
    base = envelope.base(entry)
    if base != entry.seq and base not in states and base not in lost:
        reason = f"the state it builds on, {entry.run}@{base}, is gone"
        raise CheckpointCorruptedError(entry.run, entry.seq, reason)
    if entry.size:
        states.add(entry.seq)


@contextmanager
def blaming(store: Store) -> Iterator[None]:
    """Name the store in errors about damage found here."""
    try:
        yield
    except CheckpointCorruptedError as error:
        reason = f"{error.reason} (in {store.url})"
        raise CheckpointCorruptedError(error.run_id, error.seq, reason) from None
