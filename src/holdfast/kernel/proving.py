"""What proves that stored entries are the ones that were written.

An entry's digest covers the digest of the entry before it, its index fields and the proof of its
content (`codec/envelope.py`). So an entry is proved by its own bytes and the digest before it; of a
delta, the states that it builds on count as its own bytes. A body that retention rewrote, and a
stub that it left, are proved by a marker: an entry behind them that lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from holdfast.codec import envelope
from holdfast.codec.envelope import Stored
from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Entry, Kind, erases

MARKERS: Final = (Kind.TRIM.value, Kind.TOMBSTONE.value)
FARTHEST: Final = 800  # entries that any delta may lie behind its base

Proof = Literal["proved", "rewritten"]
"""By its digest; or, what retention rewrote, by a marker."""

Vouch = Callable[[Entry, Stored], None]
"""Raises `CheckpointCorruptedError` unless a rewritten body is the one that its marker lists."""


def digest_before(entry: Entry, before: bytes | None) -> bytes:
    """The digest that this entry continues, if that of the entry before it is `before`, or lost."""
    if erases(entry):
        return Meta(entry).digest_before
    if entry.seq == 0:
        return b""
    return (
        before if before and isinstance(before, bytes) else b""
    )  # what is saved behind a lost head continues nothing


def prove(entry: Entry, before: bytes | None, proof: bytes) -> None:
    """Raise `CheckpointCorruptedError` unless the digest is that of this entry, at this place."""
    if envelope.vouches(entry, digest_before(entry, before), proof):
        return
    envelope.check(entry)
    if before or entry.seq == 0 or erases(entry):
        reason = "its digest does not match what is stored, or does not follow the entry before it"
    else:
        reason = f"the entry before it, {entry.run}@{entry.seq - 1}, is lost, so nothing proves it"
    raise CheckpointCorruptedError(entry.run, entry.seq, reason)


def compare(entry: Entry, stored: Stored, base: bytes) -> None:
    """Raise `CheckpointCorruptedError` unless a delta's content is what its proof is of."""
    if stored.proof_with(base) != stored.proof:
        envelope.check(entry)
        reason = "its content, or a state that it builds on, is not what was written"
        raise CheckpointCorruptedError(entry.run, entry.seq, reason)


class Prover:
    """Proves the entries of one run, given in the order of their seqs.

    With `every_byte`, also that the checksum is right, on which nothing else depends; and with
    `admit`, that a holder of the key wrote them.
    """

    def __init__(
        self, vouch: Vouch, admit: Vouch | None = None, *, every_byte: bool = False
    ) -> None:
        self._vouch = vouch
        self._admit = admit
        self._look = envelope.check if every_byte else envelope.glance
        self._digests: dict[int, bytes] = {}  # by seq, of the last entries
        self._proofs: dict[int, bytes] = {}

    def pass_over(self, seq: int, digest: bytes) -> None:
        """Take note of an entry that is not to be proved, or can't be."""
        self._digests[seq] = digest
        self._proofs.pop(seq, None)
        if len(self._digests) > 2 * FARTHEST:
            oldest = seq - FARTHEST
            self._digests = {at: one for at, one in self._digests.items() if at > oldest}
            self._proofs = {at: one for at, one in self._proofs.items() if at > oldest}

    def digest_before(self, entry: Entry) -> bytes | None:
        """The digest of the entry before this one, if it was among those."""
        return self._digests.get(entry.seq - 1)

    def prove(self, entry: Entry) -> Proof | None:
        """Raise `CheckpointCorruptedError` unless the entry is proved; returns by what.

        None for a delta whose base was not among the entries before it, or is not proved itself:
        its fields are proved, and its content is not.
        """
        self.pass_over(entry.seq, entry.digest)
        stored = self._look(entry)
        rewritten = stored.is_rewritten
        if rewritten:
            self._vouch(entry, stored)
        proof = stored.said_proof
        prove(entry, self._digests.get(entry.seq - 1), proof)
        if self._admit is not None:
            self._admit(entry, stored)
        if stored.is_delta:
            base = self._proofs.get(envelope.base(entry, stored))
            if base is None:
                return None
            compare(entry, stored, base)
        if entry.size:
            self._proofs[entry.seq] = proof
        return "rewritten" if rewritten else "proved"
