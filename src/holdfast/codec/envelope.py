"""An entry's body: a checksummed envelope around a state, whole or as a delta.

Two guards, made in this order:

* the **digest** covers the digest of the entry before it, every index field and the content as
  first stored. It is an index field itself, is chained, and never changes.
* the **checksum** in the envelope covers the digest, every index field and the content stored
  *now*; it is checked on every read, and made anew when retention rewrites a body.

`docs/format.md` documents every byte.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Any, Final, NamedTuple

import ormsgpack

from holdfast.codec import compress, varint
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Entry

VERSION: Final = 1

DELTA: Final = 0x01  # the content is a delta against another entry's state
ZSTD: Final = 0x02  # the content is compressed
REWRITTEN: Final = 0x04  # not the content that the digest was made over
READABLE: Final = 0x08  # the content is JSON text
_PACKED_FLAGS: Final = DELTA | ZSTD | REWRITTEN

COMPRESS_KEYFRAME: Final = 4096
COMPRESS_DELTA: Final = 1024
_HEADER: Final = 6
_RELEASES: Final = 2047
_PACK_HEADER: Final = struct.Struct("<BBI").pack
_UNPACK_HEADER: Final = struct.Struct("<BBI").unpack_from

_JSON_OPEN: Final = b'{"format": 1, "flags": %d, "checksum": "%08x", "state":\n'
_JSON_CLOSE: Final = b"\n}"


Front = tuple[str, int, str, bytes, int | None, int]
Back = tuple[Any, ...]  # step to meta; mypy can't follow the slices, and Entry names them


class Content(NamedTuple):
    """What an envelope held, decompressed."""

    flags: int
    base: int  # the seq whose state a delta is applied to; the entry's own for a keyframe
    landmark: int  # the seq its links begin at; the entry's own for a keyframe or a span
    payload: bytes

    @property
    def is_delta(self) -> bool:
        """Whether the payload is a delta rather than a whole encoded state."""
        return bool(self.flags & DELTA)


def keyframe(encoding: bytes) -> tuple[int, bytes]:
    """Flags and content for a whole state."""
    if len(encoding) >= COMPRESS_KEYFRAME:
        packed = compress.compress(encoding)
        if len(packed) < len(encoding):
            return ZSTD, packed
    return 0, encoding


def delta(seq: int, base: int, landmark: int, change: bytes) -> tuple[int, bytes]:
    """Flags and content for a state given as a change to the one at `base`."""
    head = bytearray()
    varint.put(head, seq - base)
    varint.put(head, seq - landmark)
    if len(change) >= COMPRESS_DELTA:
        packed = compress.compress(change)
        if len(packed) < len(change):
            varint.put(head, len(change))
            return DELTA | ZSTD, bytes(head) + packed
    return DELTA, bytes(head) + change


def seal(front: Front, back: Back, previous: bytes, flags: int, content: bytes) -> Entry:
    """The entry, with its digest and body, to be appended after the one with digest `previous`.

    Its other fields come in two parts, as they stand before and after the digest: an entry is
    made on every save, and only once.
    """
    rest = ormsgpack.packb((VERSION, flags, *front, *back)) + content
    digest = _sha256(previous + rest)
    return Entry._make((*front, digest, *back, _wrap(flags, zlib.crc32(digest + rest), content)))


def reseal(entry: Entry, flags: int, content: bytes) -> bytes:
    """A new body for an entry that is stored already; its digest stays what it was."""
    flags |= REWRITTEN
    checksum = zlib.crc32(entry.digest + _clear(entry, flags) + content)
    return _wrap(flags, checksum, content)


def unseal(entry: Entry) -> Content:
    """Check the entry against its checksum and open it. Raises `CheckpointCorruptedError`."""
    try:
        flags, content = _checked(entry)
        if not flags & DELTA:
            if flags & ZSTD:
                content = compress.decompress(content, entry.size)
            return Content(flags, entry.seq, entry.seq, content)
        base, landmark, at = _bearings(entry.seq, content)
        if flags & ZSTD:
            size, at = varint.take(content, at)
            if size > 2 * entry.size + 1024:  # `diff` gives up long before
                raise ValueError("a delta is larger than the state it makes")
            payload = compress.decompress(content[at:], size)
        else:
            payload = content[at:]
        return Content(flags, base, landmark, payload)
    except ValueError as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None


def base(entry: Entry) -> int:
    """The seq whose state this one is a change to; its own for a whole one. Checks like `check`."""
    try:
        flags, content = _checked(entry)
        return _bearings(entry.seq, content)[0] if flags & DELTA else entry.seq
    except ValueError as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None


def check(entry: Entry) -> Entry:
    """The entry, if every field of it is as it was written. Raises `CheckpointCorruptedError`."""
    try:
        _checked(entry)
    except ValueError as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None
    return entry


def proves(entry: Entry, previous: bytes) -> bool | None:
    """Whether the digest vouches for the entry as stored; None if its body was rewritten since.

    Raises `CheckpointCorruptedError` when not even the checksum holds.
    """
    try:
        flags, content = _checked(entry)
    except ValueError as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None
    if flags & REWRITTEN:
        return None
    return _sha256(previous + _clear(entry, flags) + content) == entry.digest


def _bearings(seq: int, content: bytes) -> tuple[int, int, int]:
    """The base and the landmark of a delta, and where in its content the change begins."""
    back, at = varint.take(content, 0)
    to_landmark, at = varint.take(content, at)
    if not 0 < back <= (to_landmark or back) <= seq:
        raise ValueError("a delta points outside its run")
    return seq - back, seq - to_landmark, at


def _clear(entry: Entry, flags: int) -> bytes:
    """Every index field but the digest, in one unambiguous form, with the envelope's own."""
    return ormsgpack.packb((VERSION, flags, *entry[:6], *entry[7:18]))


def _sha256(data: bytes) -> bytes:
    if not _RELEASES < len(data) <= 8 * _RELEASES:
        return hashlib.sha256(data).digest()
    # Given more than this, hashlib releases the GIL, and a busy program waits to get
    # it back for longer than the hashing takes.
    digest = hashlib.sha256(data[:_RELEASES])
    for at in range(_RELEASES, len(data), _RELEASES):
        digest.update(data[at : at + _RELEASES])
    return digest.digest()


def _wrap(flags: int, checksum: int, content: bytes) -> bytes:
    if flags & READABLE:
        return _JSON_OPEN % (flags, checksum) + (content or b"null") + _JSON_CLOSE
    return _PACK_HEADER(VERSION, flags, checksum) + content


def _unwrap(body: bytes) -> tuple[int, int, bytes]:
    if len(body) < _HEADER:
        raise ValueError("the body is too short to be an envelope")
    version, flags, checksum = _UNPACK_HEADER(body)
    if version == VERSION and not flags & ~_PACKED_FLAGS:
        return flags, checksum, body[_HEADER:]
    if body.startswith(b"{"):
        flags = READABLE | (REWRITTEN if body.startswith(b'{"format": 1, "flags": 12,') else 0)
        start = len(_JSON_OPEN % (flags, 0))
        checksum = int(body[start - 20 : start - 12], 16)
        content = body[start : -len(_JSON_CLOSE)]
        if _wrap(flags, checksum, content) != body:
            raise ValueError("the JSON envelope was altered")
        return flags, checksum, content
    raise ValueError(f"the envelope is of format {version}.{flags}, which this version can't read")


def _checked(entry: Entry) -> tuple[int, bytes]:
    try:
        flags, checksum, content = _unwrap(entry.body)
        if flags & READABLE and not entry.size:
            content = b""  # "null" means no state at all; the state None has a size
        actual = zlib.crc32(entry.digest + _clear(entry, flags) + content)
    except TypeError as error:  # a column that holds another type than it was given
        raise ValueError(f"a field of it is not what it should be: {error}") from None
    if actual != checksum:
        raise ValueError("its checksum does not match what is stored")
    return flags, content
