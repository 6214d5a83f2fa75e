"""Whether a journal still has a head that is known from elsewhere. Blocks.

Journals only grow. So what was once the head, at a seq and with a digest, stays where it is: as it
was, rewritten or as a stub, which both keep its digest. Only erasing a run removes it, and leaves
a tombstone above it.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from holdfast.codec import envelope
from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.entries import EntryReader
from holdfast.kernel.pages import head_seq
from holdfast.kernel.proving import prove
from holdfast.kernel.store_view import real_store
from holdfast.model import HIDDEN, VERDICTS, Entry, erases

Fate = Literal["same", "deleted", "expired", "removed", "cut off", "altered", "damaged"]
"""What became of an entry. It is there; its run was deleted, with a tombstone; its run vanished
from a store that lets runs expire. Else something is wrong: the run is gone, it ends before that
seq, another entry is there, or none that can be read."""

FINE: Final = ("same", "deleted", "expired")


class KnownHead(NamedTuple):
    """What was the head of a run, and when, in microseconds since the epoch."""

    run: str
    seq: int
    digest: bytes
    at: int


class Found(NamedTuple):
    """What became of it, and where the run ends now (-1 if nothing is left of it)."""

    fate: Fate
    head: int
    because: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.fate in FINE

    def said(self, seq: int) -> str:
        """What is wrong, for people, if an entry at this seq is known."""
        if self.fate == "removed":
            return "nothing is left of it, and no tombstone says that it was deleted"
        if self.fate == "cut off":
            return (
                f"it ends at seq {self.head}, and seq {seq} was saved: newer entries were cut off"
            )
        if self.fate == "altered":
            return (
                f"its history is another one: {self.because or 'the digest differs'} at seq {seq}"
            )
        return f"its entry at seq {seq} can't be compared: {self.because}"


def find(journals: EntryReader, known: KnownHead) -> Found:
    """What became of a head."""
    try:
        page = journals.store.read(known.run, after=known.seq - 1, limit=1, bodies=False)
    except CheckpointCorruptedError as error:
        page = []
        if error.seq == known.seq:
            if error.digest == known.digest:
                return Found("same", known.seq)
            return Found("damaged", head_seq(journals.store, known.run) or -1, error.reason)
    if page and page[0].seq == known.seq and page[0].digest == known.digest:
        return Found("same", known.seq)
    found = _otherwise(journals, known, page[0] if page else None)
    return Found("expired", found.head) if _is_expired(journals, known, found) else found


def _otherwise(journals: EntryReader, known: KnownHead, near: Entry | None) -> Found:
    """What became of a head that is not where it was; `near` is the first entry at or behind it."""
    try:
        newest = journals.store.read(known.run, newest_first=True, limit=1, bodies=False)
        head = newest[0].seq if newest else None
    except CheckpointCorruptedError as error:
        if error.seq is None:
            return Found("damaged", -1, error.reason)
        head = error.seq
    if head is None:
        return Found("removed", -1)
    if near is not None and near.seq == known.seq:
        return Found("altered", head)
    if head < known.seq:
        return Found("cut off", head)
    try:
        first = real_store(journals.store).read(known.run, limit=1)[0]
        if not erases(first) or first.seq <= known.seq:
            return Found("damaged", head, "it is missing, and later ones are there")
        proved_alone(journals, first)
    except CheckpointCorruptedError as error:
        return Found("damaged", head, error.reason)
    if first.seq == known.seq + 1 and Meta(first).digest_before != known.digest:
        return Found("altered", head, "the tombstone of the run is not behind what was")
    return Found("deleted", head)


def proved_alone(journals: EntryReader, first: Entry) -> None:
    """Raise `CheckpointCorruptedError` unless the first entry of a journal is what was written.

    As it is stored: without a key, its digest has to do.
    """
    stored = envelope.glance(first)
    prove(first, None, stored.said_proof)
    if journals.admits is not None:
        journals.admits(first, stored)


def _is_expired(journals: EntryReader, known: KnownHead, found: Found) -> bool:
    """Whether the run may have expired, and another begun there since."""
    lasting = known.run.startswith(HIDDEN) and not known.run.startswith(VERDICTS)
    if not journals.store.expires or found.ok or lasting:
        return False
    if found.fate == "removed":
        return True
    try:
        first = journals.store.read(known.run, limit=1, bodies=False)
    except CheckpointCorruptedError:
        return False
    return bool(first) and first[0].seq == 0 and first[0].at > known.at
