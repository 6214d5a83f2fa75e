"""New bodies for states that build on one that is about to be deleted. Blocks."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.codec import envelope
from holdfast.codec.chain import SMALL_STATE
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.entries import is_live
from holdfast.kernel.pages import pass_by
from holdfast.kernel.proving import FARTHEST
from holdfast.kernel.reader import Reader
from holdfast.model import Entry


def rewrites(
    reader: Reader, entries: list[Entry], gone: Collection[int], marker: int, *, past_damage: bool
) -> dict[int, tuple[bytes, bytes]]:
    """New bodies, and their proofs, for those of a run's entries that stay, but build on one that goes.

    One that can't be read raises `CheckpointCorruptedError`; with `past_damage` it stays as it is,
    and what it builds on is gone.
    """
    if not gone:
        return {}
    nearest, farthest = min(gone), max(gone) + FARTHEST
    stay = {
        entry.seq
        for entry in entries
        if is_live(entry) and entry.seq not in gone and entry.size > SMALL_STATE
        if nearest < entry.seq < farthest
    }
    found: dict[int, tuple[bytes, bytes]] = {}
    if not stay:
        return found
    for entry in reader.entries(entries[0].run, bodies=True, after=min(stay) - 1, damage=pass_by):
        if entry.seq > max(stay):
            break
        if entry.seq in stay and envelope.base(entry) in gone:
            try:
                chain, _ = reader.chain_as_stored(entry.run, entry.seq, entry)
            except CheckpointCorruptedError:
                if not past_damage:
                    raise
                continue
            guard = reader.guard_again(entry)
            found[entry.seq] = envelope.reseal(entry, chain.encoding, chain.proof, marker, guard)
    return found
