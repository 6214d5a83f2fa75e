"""Journals of somebody who can write to the store, knows the format and recomputes every digest.

Without a key or signature nothing tells them from honest ones: all that is left is that their
bytes are data, and that opening them ends in time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.codec import bearings, envelope
from holdfast.codec.envelope import Packed
from holdfast.codec.wrapping import DELTA
from holdfast.model import Entry


class Forged(NamedTuple):
    """An entry whose fields and content may be changed; its digest and proof follow from them."""

    entry: Entry
    flags: int
    content: bytes

    def with_fields(self, **fields: object) -> Forged:
        return self._replace(entry=self.entry._replace(**fields))  # type: ignore[arg-type]

    def with_state(self, content: bytes, flags: int = 0, size: int | None = None) -> Forged:
        """Another whole state, or with the flag `DELTA` another change."""
        size = len(content) if size is None else size
        return Forged(self.entry._replace(size=size), flags, content)


def forged(entries: Sequence[Entry], edit: Callable[[Forged], Forged]) -> list[Entry]:
    """The entries of a journal, each edited, with a chain of digests that fits."""
    made: list[Entry] = []
    proofs: dict[int, bytes] = {}
    previous = b""
    for entry in entries:
        if not entry.body:  # a stub: what its digest was made of is gone
            made.append(entry)
            previous = entry.digest
            continue
        stored = envelope.glance(entry)
        changed, flags, content = edit(Forged(entry, stored.flags, stored.content))
        base = b""
        if flags & DELTA:
            base = proofs.get(_base_of(changed.seq, content), b"?" * 32)
        proof = envelope.prove(flags, content, base)
        proofs[changed.seq] = proof
        packed = Packed(flags, content, proof)
        made.append(envelope.seal(changed[:6], changed[7:-1], previous, packed))
        previous = made[-1].digest
    return made


def _base_of(seq: int, content: bytes) -> int:
    """Where a delta says that its base is; nonsense is nowhere."""
    try:
        return bearings.take(seq, content)[0]
    except ValueError:
        return -1
