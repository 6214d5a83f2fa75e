"""What can happen to a stored entry, and which entries an error may name for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ormsgpack

from holdfast.codec import envelope, readable, values, wrapping
from holdfast.codec.meta import Meta
from holdfast.kernel.proving import MARKERS
from holdfast.model import Entry, Status, stub

Edit = dict[tuple[str, int], Entry | None]
"""What takes the place of stored entries; None for one that is taken away."""

KEY = ("run", "seq")


@dataclass(frozen=True)
class Journal:
    """A run as it was stored, and another store's run of the same id."""

    run: str
    entries: list[Entry]
    others: list[Entry]
    proofs: dict[int, bytes] = field(default_factory=dict)  # by seq, of states

    def at(self, seq: int) -> Entry:
        return next(entry for entry in self.entries if entry.seq == seq)

    def before(self, seq: int) -> bytes:
        """The digest before an entry."""
        return next((entry.digest for entry in self.entries if entry.seq == seq - 1), b"")

    @property
    def head(self) -> int:
        return self.entries[-1].seq


@dataclass(frozen=True)
class Damage:
    """One entry, or two, that are not as they were written."""

    name: str
    run: str
    seqs: frozenset[int]
    edit: Edit = field(repr=False)
    may_be_named: frozenset[int] = field(repr=False, default=frozenset())
    """Besides the damaged ones: those that can't be proved without them."""

    @property
    def named(self) -> frozenset[int]:
        return self.seqs | self.may_be_named

    def __str__(self) -> str:
        return f"{self.name} of {self.run}@{','.join(map(str, sorted(self.seqs)))}"


Mutation = Callable[[Journal, Entry], Iterator[tuple[str, Edit]]]


def damages(journal: Journal, seq: int) -> list[Damage]:
    """Every way to damage the entry at this seq."""
    entry = journal.at(seq)
    found = []
    for mutation in MUTATIONS:
        for name, edit in mutation(journal, entry):
            if all(new == journal.at(at) for (_, at), new in edit.items()):
                continue
            seqs = frozenset(at for _, at in edit)
            found.append(Damage(name, journal.run, seqs, edit, _depend_on(journal, seqs)))
    return found


def _depend_on(journal: Journal, seqs: frozenset[int]) -> frozenset[int]:
    """Entries that nothing proves once these are damaged."""
    lost = {*seqs, *(seq + 1 for seq in seqs)}  # of a lost entry, its digest is gone, too
    for entry in reversed(journal.entries):  # a marker vouches for what it lists
        if entry.kind in MARKERS and entry.seq in lost:
            listed = Meta(entry)
            lost |= {seq for seq in range(entry.seq) if seq in listed.dropped}
            lost |= {int(seq) for seq in listed.rewritten}
    for entry in journal.entries:  # a delta needs what it is a change to
        if entry.body and entry.size:
            stored = envelope.check(entry)
            if stored.is_delta and envelope.base(entry, stored) in lost:
                lost.add(entry.seq)
    return frozenset(lost) - seqs


def flips(journal: Journal, entry: Entry) -> Iterator[tuple[str, Edit]]:
    """Each field is another."""
    for name, value in entry._asdict().items():
        if name not in KEY:
            for other in _others(name, value):
                yield f"flip {name}", {_key(entry): entry._replace(**{name: other})}


def _others(name: str, value: Any) -> Iterator[Any]:
    if isinstance(value, bytes):
        for place in sorted({0, 1, 2, len(value) // 2, len(value) - 1}):
            if 0 <= place < len(value):
                yield value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]
        if not value:
            yield b"x"
    elif isinstance(value, str):
        yield value[:-1] + ("x" if not value.endswith("x") else "y")
        if name == "status":
            yield Status.COMPLETED.value if value != Status.COMPLETED else Status.FAILED.value
    elif isinstance(value, float):
        yield value + 1.0
    elif isinstance(value, int):
        yield value + 1
    else:
        yield {"parent": 0, "step_index": 7, "duration": 0.5}.get(name, "x")


def cuts(journal: Journal, entry: Entry) -> Iterator[tuple[str, Edit]]:
    """The body ends too early."""
    if entry.body:
        for size in (0, 5, len(entry.body) // 2, len(entry.body) - 1):
            yield "cut", {_key(entry): entry._replace(body=entry.body[:size])}


def deletes(journal: Journal, entry: Entry) -> Iterator[tuple[str, Edit]]:
    """It is gone. (Whether the newest one is, nothing in a journal can tell.)"""
    if entry.seq < journal.head:
        yield "delete", {_key(entry): None}


def swaps(journal: Journal, entry: Entry) -> Iterator[tuple[str, Edit]]:
    """It stands where the next one belongs, which stands in its place."""
    if entry.seq < journal.head:
        other = journal.at(entry.seq + 1)
        yield (
            "swap",
            {
                _key(entry): other._replace(seq=entry.seq),
                _key(other): entry._replace(seq=other.seq),
            },
        )


def replays(journal: Journal, entry: Entry) -> Iterator[tuple[str, Edit]]:
    """It comes from another store's run of the same id, or from another place of the run."""
    for other in journal.others:
        if other.seq == entry.seq:
            yield "replay", {_key(entry): other}
    for other in journal.entries:
        if other.kind == entry.kind and other.seq not in (entry.seq, entry.seq + 1):
            yield "replay of another seq", {_key(entry): other._replace(seq=entry.seq)}
            return


def forgeries(journal: Journal, entry: Entry) -> Iterator[tuple[str, Edit]]:
    """It says something else, and its checksum agrees."""
    if not entry.body:
        return
    for forged, packed in _edits(journal, entry):
        yield "forge with checksum", {_key(entry): _sealed(forged, packed.flags, packed.content)}
        base = journal.proofs.get(_base(entry), b"") if packed.flags & wrapping.DELTA else b""
        proof = envelope.prove(packed.flags, packed.content, base)
        again = envelope.seal(
            forged[:6], forged[7:18], journal.before(entry.seq),
            envelope.Packed(packed.flags, packed.content, proof),
        )  # fmt: skip
        if entry.seq < journal.head:  # without a key, nothing tells a forged end of the chain
            yield "forge with digest", {_key(entry): again}


def forged_flags(journal: Journal, entry: Entry) -> Iterator[tuple[str, Edit]]:
    """It says that retention rewrote it."""
    if not entry.body:
        return
    stored = envelope.check(entry)
    real = journal.proofs.get(entry.seq) or envelope.prove(stored.flags, stored.content)
    markers = {e.seq for e in journal.entries if e.kind in MARKERS and e.seq > entry.seq}
    for forged, packed in _edits(journal, entry):
        if packed.flags & wrapping.DELTA:
            state = _other_state(entry, packed.flags)
            forged, packed = forged._replace(size=len(state)), envelope.keyframe(state)
        for marker in sorted({min(markers, default=journal.head), journal.head + 1}):
            for proof in (real, bytes(32)):
                beside = wrapping.beside_of(proof, marker)
                flags = packed.flags | wrapping.REWRITTEN
                yield (
                    "forge with flag",
                    {_key(entry): _sealed(forged, flags, packed.content, beside)},
                )


def made_stubs(journal: Journal, entry: Entry) -> Iterator[tuple[str, Edit]]:
    """It looks as if it had been deleted."""
    if entry.status != Status.DELETED:
        yield "forge as deleted", {_key(entry): stub(entry)}


MUTATIONS: tuple[Mutation, ...] = (
    flips, cuts, deletes, swaps, replays, forgeries, forged_flags, made_stubs,
)  # fmt: skip


def _edits(journal: Journal, entry: Entry) -> Iterator[tuple[Entry, envelope.Packed]]:
    """The entry with another state or value, and with other fields."""
    stored = envelope.check(entry)
    flags = stored.flags & ~wrapping.REWRITTEN
    if entry.size and stored.is_delta:
        content = _changed_delta(entry, stored)
        if content is not None:
            yield entry, envelope.Packed(flags, content, b"")
    elif entry.size:
        state = _other_state(entry, flags)
        packed = envelope.keyframe(state, flags & wrapping.READABLE)
        yield entry._replace(size=len(state)), packed
    same = envelope.Packed(flags, stored.content, b"")
    yield entry._replace(owner="mallory", status=_other_status(entry)), same
    if stored.proof:
        return
    if entry.meta:
        fields = dict(Meta(entry).fields)
        fields["metadata"] = {"forged": True}
        yield entry._replace(meta=readable.dumps(fields)), same


def _other_status(entry: Entry) -> str:
    return Status.COMPLETED.value if entry.status != Status.COMPLETED else Status.FAILED.value


def _other_state(entry: Entry, flags: int) -> bytes:
    forged = {"forged": True}
    if flags & wrapping.READABLE:
        return readable.dumps(forged, indent=1).encode()
    return values.encode(forged)


def _changed_delta(entry: Entry, stored: envelope.Stored) -> bytes | None:
    """The change, with one of the bytes that it puts in changed."""
    if stored.flags & (wrapping.ZSTD | wrapping.DEFLATED) or len(stored.content) < 8:
        return None
    content = bytearray(stored.content)
    content[-1] ^= 1
    return bytes(content)


def _base(entry: Entry) -> int:
    return envelope.base(entry)


def _sealed(entry: Entry, flags: int, content: bytes, beside: bytes = b"") -> Entry:
    """The entry with this content, and a checksum that agrees."""
    bare = entry._replace(body=b"")
    clear = ormsgpack.packb((wrapping.VERSION, *bare[:6], *bare[7:18]))
    checksum = envelope._checksum(entry.digest, clear, flags, beside, content)
    return entry._replace(body=wrapping.wrap(flags, checksum, beside, content))


def _key(entry: Entry) -> tuple[str, int]:
    return entry.run, entry.seq
