"""An entry's body: a checksummed envelope around a state, whole or as a delta.

With a key its content is sealed, and with a signing key its digest is signed (`Guard`). Three
guards are there in any case, made in this order:

* the **proof** of a state covers its content as first stored and, of a delta, the proof of the
  state that it changes: so one proof vouches for a whole chain of deltas.
* the **digest** covers the digest of the entry before it, every index field and the proof. It is
  an index field itself, is chained, and never changes.
* the **checksum** in the envelope covers the digest, every index field and the content stored
  *now*. It tells damage apart, and is made anew when retention rewrites a body.

`docs/reference/format.md` documents every byte.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple, Protocol
from zlib import crc32

from ormsgpack import packb

from holdfast.codec import bearings, compress, varint
from holdfast.codec.delta import Change
from holdfast.codec.wrapping import (
    DEFLATED,
    DELTA,
    KNOWN,
    PROOF,
    READABLE,
    REWRITTEN,
    SEALED,
    SIGNED,
    TAG,
    VERSION,
    ZSTD,
    Wrapped,
    beside_of,
    unwrap,
    wrap,
)
from holdfast.errors import CheckpointCorruptedError, KeyMissingError
from holdfast.model import Entry

COMPRESS_KEYFRAME: Final = 4096
COMPRESS_DELTA: Final = 128
_EMPTY: Final = hashlib.sha256()
_new: Final = tuple.__new__  # what `_make` and a constructor call, several times as slow
_RELEASES: Final = 2047
_FAR: Final = 1 << 62  # the seq of an entry that may have any base

Front = tuple[str, int, str, bytes, int | None, int]
Back = tuple[Any, ...]  # step to meta; mypy can't follow the slices, and Entry names them


class Packed(NamedTuple):
    """A state as it is stored: whole, or as a change to another."""

    flags: int
    content: bytes
    proof: bytes


class Guard(Protocol):
    """Closes one entry: encrypts its content, signs its digest, or both."""

    flags: int  # SEALED, SIGNED or both

    def close(self, flags: int, beside: bytes, plain: bytes) -> bytes:
        """The content to store. What is `beside` it stays clear, and can't be exchanged."""

    def trailer(self, digest: bytes) -> bytes:
        """What stands behind the content, and proves who made this digest."""


class Open(Protocol):
    """Opens sealed contents. Raises `KeyMissingError`, `CheckpointCorruptedError`."""

    def __call__(self, entry: Entry, flags: int, beside: bytes, content: bytes) -> bytes:
        """What `Guard.close` was given."""


class Stored(NamedTuple):
    """What an envelope holds, as it is stored."""

    flags: int
    content: bytes
    proof: bytes  # of a delta, or of what was first stored and is rewritten now; else empty
    marker: int  # of a rewritten one: the seq of the entry that vouches for it
    trailer: bytes = b""  # of a sealed or signed one

    @property
    def is_sealed(self) -> bool:
        """Whether the content is encrypted."""
        return bool(self.flags & SEALED)

    @property
    def sealed(self) -> bytes:
        """Of a sealed one: what was encrypted, without the bearings of a delta.

        Empty if it was cut: no key opens that.
        """
        if not self.is_delta:
            return self.content
        try:
            return self.content[bearings.take(_FAR, self.content)[2] :]
        except ValueError:
            return b""

    @property
    def tag(self) -> bytes:
        """Of a sealed one: what a holder of the key made of its digest."""
        return self.trailer[:TAG] if self.is_sealed else b""

    @property
    def signature(self) -> tuple[str, bytes] | None:
        """The id of the key that signed the digest, and the signature; None if nobody did.

        Raises `ValueError`.
        """
        if not self.flags & SIGNED:
            return None
        block = self.trailer[len(self.tag) :]
        end = 1 + block[0]
        return block[1:end].decode(), block[end:-1]

    @property
    def is_delta(self) -> bool:
        """Whether the content is a change to another state."""
        return bool(self.flags & DELTA)

    @property
    def is_rewritten(self) -> bool:
        """Whether the content is not what was first stored."""
        return bool(self.flags & REWRITTEN)

    @property
    def said_proof(self) -> bytes:
        """The proof that its digest covers. Of a delta, its content has still to be compared."""
        return self.proof or prove(self.flags, self.content)

    def proof_with(self, base: bytes) -> bytes:
        """The proof of a delta's content, given that of its base."""
        return prove(self.flags, self.content, base)

    @property
    def own_proof(self) -> bytes:
        """Of a rewritten one: the proof of what is stored now, which its marker knows."""
        return prove(self.flags & ~REWRITTEN, self.content)


def prove(flags: int, content: bytes, base: bytes = b"") -> bytes:
    """The proof of a content; `base` is the proof of the state that a delta changes."""
    if not content and not base:
        return _OF_NOTHING[flags]
    if len(content) <= 8 * _RELEASES:
        return _sha256(_BYTE[flags] + base + content)
    digest = _EMPTY.copy()
    digest.update(_BYTE[flags] + base)  # by itself: a copy of a large content takes as long again
    digest.update(content)
    return digest.digest()


def keyframe(
    encoding: bytes, flags: int = 0, guard: Guard | None = None, *, shrink: bool = True
) -> Packed:
    """A whole state, compressed if that helps and is wanted; as it is if it is `READABLE`."""
    content = encoding
    if shrink and len(encoding) >= COMPRESS_KEYFRAME and not flags & READABLE:
        packed = compress.smaller(encoding)
        if packed is not None:
            flags, content = flags | ZSTD, packed
    if guard is not None:
        flags |= guard.flags
        content = guard.close(flags, b"", content)
    return _new(Packed, (flags, content, prove(flags, content)))


def delta(
    where: bytes,
    change: Change,
    old: bytes,
    proof: bytes,
    guard: Guard | None = None,
    *,
    shrink: bool = True,
) -> Packed:
    """A state given as a change to an `old` one, which has that proof; `where` are its bearings."""
    flags, content = DELTA, change.splices
    if shrink and len(content) >= COMPRESS_DELTA:
        flags, content = _compressed(change, old)
    if guard is not None:
        flags |= guard.flags
        content = guard.close(flags, where, content)
    content = where + content
    return Packed(flags, content, prove(flags, content, proof))


def _compressed(change: Change, old: bytes) -> tuple[int, bytes]:
    """The flags and the content of a change, compressed if that helps."""
    splices, place = change
    before = bytearray()
    varint.put(before, len(splices))
    if len(splices) >= compress.SMALL:
        flags, packed = DELTA | ZSTD, compress.smaller(splices)
    else:
        varint.put(before, place)
        flags, packed = DELTA | DEFLATED, compress.deflated(splices, _nearby(old, place))
    return (DELTA, splices) if packed is None else (flags, bytes(before) + packed)


def _nearby(old: bytes | bytearray, place: int) -> bytes | bytearray:
    """The part of the old state that a small change is compressed with."""
    return old[max(0, place - compress.NEARBY) : place]


def nothing(flags: int, guard: Guard | None = None) -> Packed:
    """What an entry without a state holds."""
    if guard is None:
        return _NOTHING[flags]
    flags |= guard.flags
    content = guard.close(flags, b"", b"")
    return Packed(flags, content, prove(flags, content))


def seal(
    front: Front, back: Back, previous: bytes, packed: Packed, guard: Guard | None = None
) -> Entry:
    """The entry, with its digest and body, to be appended after the one with digest `previous`.

    Its other fields come in two parts, as they stand before and after the digest: an entry is
    made on every save, and only once.
    """
    flags, content, proof = packed
    clear = packb((VERSION, *front, *back))
    digest = _sha256(previous + clear + proof)
    beside = proof if flags & DELTA else b""  # so that its fields are proved without its base
    trailer = b"" if guard is None else guard.trailer(digest)
    checksum = _checksum(digest, clear, flags, beside, content, trailer)
    body = wrap(flags, checksum, beside, content, trailer)
    return _new(Entry, (*front, digest, *back, body))


def reseal(
    entry: Entry, encoding: bytes, proof: bytes, marker: int, guard: Guard | None = None
) -> tuple[bytes, bytes]:
    """A body with the whole state for an entry that is stored as a delta, and its own proof.

    The entry keeps its digest, with what stands for it, and its `proof` there; the entry at the
    seq `marker` has to vouch for the new one.
    """
    flags, content, own = keyframe(encoding, guard=guard)
    flags |= REWRITTEN
    beside = beside_of(proof, marker)
    trailer = b"" if guard is None else guard.trailer(entry.digest)
    checksum = _checksum(entry.digest, _clear(entry), flags, beside, content, trailer)
    return wrap(flags, checksum, beside, content, trailer), own


def unseal(
    entry: Entry,
    stored: Stored,
    open_: Open | None = None,
    at: int = 0,
    old: bytes | bytearray = b"",
) -> bytes:
    """The state that a proved entry holds; of a delta, its change to the `old` state.

    The content of a delta begins `at` an offset, behind its bearings. Raises
    `CheckpointCorruptedError`, `KeyMissingError`.
    """
    flags, content = stored.flags, stored.content
    payload = content[at:]
    try:
        if flags & SEALED:
            if open_ is None:
                raise KeyMissingError(entry.run, entry.seq)
            payload = open_(entry, flags & ~REWRITTEN, content[:at], payload)
        if flags & DEFLATED:
            return _inflated(payload, old)
        if not flags & ZSTD:
            return payload
        if not flags & DELTA:
            return compress.decompress(payload, entry.size)
        size, at = varint.take(payload, 0)
        if size > 2 * entry.size + 1024:  # `diff` gives up long before
            raise ValueError("a delta is larger than the state it makes")
        return compress.decompress(payload[at:], size)
    except ValueError as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None


def _inflated(payload: bytes, old: bytes | bytearray) -> bytes:
    take = varint.take
    size, at = take(payload, 0)
    place, at = take(payload, at)
    if size >= compress.SMALL or place > len(old):
        raise ValueError("a delta does not fit the state that it changes")
    return compress.inflate(payload[at:], size, _nearby(old, place))


def bearings_of(entry: Entry, stored: Stored) -> tuple[int, int, int]:
    """The base and landmark of a delta, and where its change begins; a whole state's are its own.

    Raises `CheckpointCorruptedError`.
    """
    if not stored.flags & DELTA:
        return entry.seq, entry.seq, 0
    try:
        return bearings.take(entry.seq, stored.content)
    except ValueError as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None


def base(entry: Entry, stored: Stored | None = None) -> int:
    """The seq whose state this one is a change to; its own for a whole one."""
    return bearings_of(entry, stored or glance(entry))[0]


def glance(entry: Entry) -> Stored:
    """What the entry's envelope holds, whether or not that is what was written.

    Raises `CheckpointCorruptedError` if it is no envelope, `UnknownFormatError` if it has a format
    of another version.
    """
    return _taken_apart(entry)[0]


def _taken_apart(entry: Entry) -> tuple[Stored, Wrapped]:
    try:
        parts = unwrap(entry)
        flags, _, beside, content, trailer = parts
        if not flags & REWRITTEN:
            return _new(Stored, (flags, content, beside, 0, trailer)), parts
        if flags & DELTA:
            raise ValueError("it was rewritten as a delta")
        marker = varint.take(beside, PROOF)[0]
        return Stored(flags, content, beside[:PROOF], marker, trailer), parts
    except CheckpointCorruptedError:
        raise
    except (TypeError, ValueError) as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None


def check(entry: Entry) -> Stored:
    """As `glance`, if every field of the entry fits its checksum: tells which one is damaged.

    Raises `CheckpointCorruptedError`.
    """
    stored, (flags, checksum, beside, content, trailer) = _taken_apart(entry)
    if not _fits(entry) or (
        _checksum(entry.digest, _clear(entry), flags, beside, content, trailer) != checksum
    ):
        reason = "its checksum does not match what is stored"
        raise CheckpointCorruptedError(entry.run, entry.seq, reason)
    return stored


def vouches(entry: Entry, previous: bytes, proof: bytes) -> bool:
    """Whether the digest is that of its fields and this proof behind that entry's digest."""
    return _sha256(previous + _clear(entry) + proof) == entry.digest


def _fits(entry: Entry) -> bool:
    """Whether its digest is one at all: a column may hold another type than it was given."""
    return isinstance(entry.digest, bytes)


def _clear(entry: Entry) -> bytes:
    """Every index field but the digest, in one unambiguous form."""
    try:
        return packb((VERSION, *entry[:6], *entry[7:18]))
    except TypeError as error:  # a column that holds another type than it was given
        reason = f"a field of it is not what it should be: {error}"
        raise CheckpointCorruptedError(entry.run, entry.seq, reason) from None


def _sha256(data: bytes) -> bytes:
    digest = _EMPTY.copy()  # OpenSSL takes longer to make a new one than to hash a small state
    if not _RELEASES < len(data) <= 8 * _RELEASES:
        digest.update(data)
        return digest.digest()
    # Given more than this, hashlib releases the GIL, and a busy program waits to get
    # it back for longer than the hashing takes.
    for at in range(0, len(data), _RELEASES):
        digest.update(data[at : at + _RELEASES])
    return digest.digest()


_BYTE: Final = [bytes([flags]) for flags in range(KNOWN + 1)]
_OF_NOTHING: Final = [_sha256(flags) for flags in _BYTE]
_NOTHING: Final = [Packed(flags, b"", proof) for flags, proof in enumerate(_OF_NOTHING)]


def _checksum(
    digest: bytes, clear: bytes, flags: int, beside: bytes, content: bytes, trailer: bytes = b""
) -> int:
    before = crc32(digest + clear + _BYTE[flags] + beside)
    return crc32(content + trailer, before)  # mostly there is no trailer, and nothing is copied
