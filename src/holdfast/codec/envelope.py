"""An entry's body: a checksummed envelope around a state, whole or as a delta.

Three guards, made in this order:

* the **proof** of a state covers its content as first stored and, of a delta, the proof of the
  state that it changes: so one proof vouches for a whole chain of deltas.
* the **digest** covers the digest of the entry before it, every index field and the proof. It is
  an index field itself, is chained, and never changes.
* the **checksum** in the envelope covers the digest, every index field and the content stored
  *now*. It tells damage apart, and is made anew when retention rewrites a body.

`docs/format.md` documents every byte.
"""

from __future__ import annotations

import binascii
import hashlib
import re
import struct
import zlib
from typing import Any, Final, NamedTuple

import ormsgpack

from holdfast.codec import compress, varint
from holdfast.errors import CheckpointCorruptedError, UnknownFormatError
from holdfast.model import Entry

VERSION: Final = 2

DELTA: Final = 0x01  # the content is a delta against another entry's state
ZSTD: Final = 0x02  # the content is compressed
REWRITTEN: Final = 0x04  # not the content that the proof was made of, which a marker vouches for
READABLE: Final = 0x08  # the content is JSON text
_FLAGS: Final = DELTA | ZSTD | REWRITTEN | READABLE  # 16 sealed, 32 signed, 192 hash: reserved

COMPRESS_KEYFRAME: Final = 4096
COMPRESS_DELTA: Final = 1024
_HEADER: Final = 6
_PROOF: Final = 32
_EMPTY: Final = hashlib.sha256()
_RELEASES: Final = 2047
_PACK_HEADER: Final = struct.Struct("<BBI").pack
_UNPACK_HEADER: Final = struct.Struct("<BBI").unpack_from

_JSON_CLOSE: Final = b"\n}"
_JSON_OPEN: Final = re.compile(
    rb'\{"format": 2, "flags": ([0-9]{1,3}), "checksum": "([0-9a-f]{8})"'
    rb'(?:, "proof": "([0-9a-f]{64})"(?:, "marker": ([0-9]{1,18}))?)?'
    rb'(?:, "content": "([A-Za-z0-9+/=]*)")?, "state":\n'
)
_JSON_FORMAT: Final = re.compile(rb'\{"format": (?!2,)([0-9]{1,9}), "flags": ([0-9]{1,9}),')


Front = tuple[str, int, str, bytes, int | None, int]
Back = tuple[Any, ...]  # step to meta; mypy can't follow the slices, and Entry names them


class Packed(NamedTuple):
    """A state as it is stored: whole, or as a change to another."""

    flags: int
    content: bytes
    proof: bytes


class Stored(NamedTuple):
    """What an envelope holds, as it is stored."""

    flags: int
    content: bytes
    proof: bytes  # of a delta, or of what was first stored and is rewritten now; else empty
    marker: int  # of a rewritten one: the seq of the entry that vouches for it

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


def prove(flags: int, content: bytes, base: bytes = b"") -> bytes:
    """The proof of a content; `base` is the proof of the state that a delta changes."""
    if not content and not base:
        return _OF_NOTHING[flags]
    return _sha256(_BYTE[flags] + base + content)


def keyframe(encoding: bytes, flags: int = 0) -> Packed:
    """A whole state, compressed if that helps; as it is if it is `READABLE`."""
    content = encoding
    if len(encoding) >= COMPRESS_KEYFRAME and not flags & READABLE:
        packed = compress.compress(encoding)
        if len(packed) < len(encoding):
            flags, content = flags | ZSTD, packed
    return Packed(flags, content, prove(flags, content))


def delta(seq: int, base: int, landmark: int, change: bytes, proof: bytes) -> Packed:
    """A state given as a change to the one at `base`, which has that proof."""
    head = bytearray()
    varint.put(head, seq - base)
    varint.put(head, seq - landmark)
    flags = DELTA
    if len(change) >= COMPRESS_DELTA:
        packed = compress.compress(change)
        if len(packed) < len(change):
            varint.put(head, len(change))
            flags, change = DELTA | ZSTD, packed
    content = bytes(head) + change
    return Packed(flags, content, prove(flags, content, proof))


def nothing(flags: int) -> Packed:
    """What an entry without a state holds."""
    return Packed(flags, b"", _OF_NOTHING[flags])


def seal(front: Front, back: Back, previous: bytes, packed: Packed) -> Entry:
    """The entry, with its digest and body, to be appended after the one with digest `previous`.

    Its other fields come in two parts, as they stand before and after the digest: an entry is
    made on every save, and only once.
    """
    flags, content, proof = packed
    clear = ormsgpack.packb((VERSION, *front, *back))
    digest = _sha256(previous + clear + proof)
    beside = proof if flags & DELTA else b""  # so that its fields are proved without its base
    checksum = _checksum(digest, clear, flags, beside, content)
    return Entry._make((*front, digest, *back, _wrap(flags, checksum, beside, content)))


def reseal(entry: Entry, encoding: bytes, proof: bytes, marker: int) -> tuple[bytes, bytes]:
    """A body with the whole state for an entry that is stored as a delta, and its own proof.

    The entry keeps its digest, and its `proof` there; the entry at the seq `marker` has to vouch
    for the new one.
    """
    flags, content, own = keyframe(encoding)
    flags |= REWRITTEN
    beside = _beside(proof, marker)
    checksum = _checksum(entry.digest, _clear(entry), flags, beside, content)
    return _wrap(flags, checksum, beside, content), own


def unseal(entry: Entry, stored: Stored | None = None) -> Content:
    """Open the entry, which was proved. Raises `CheckpointCorruptedError`."""
    flags, content, *_ = stored or glance(entry)
    try:
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


def base(entry: Entry, stored: Stored | None = None) -> int:
    """The seq whose state this one is a change to; its own for a whole one."""
    stored = stored or glance(entry)
    try:
        return _bearings(entry.seq, stored.content)[0] if stored.is_delta else entry.seq
    except ValueError as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None


def glance(entry: Entry) -> Stored:
    """What the entry's envelope holds, whether or not that is what was written.

    Raises `CheckpointCorruptedError` if it is no envelope, `UnknownFormatError` if it has a format
    of another version.
    """
    try:
        flags, _, beside, content = _unwrap(entry)
        if not flags & REWRITTEN:
            return Stored(flags, content, beside, 0)
        if flags & DELTA:
            raise ValueError("it was rewritten as a delta")
        return Stored(flags, content, beside[:_PROOF], varint.take(beside, _PROOF)[0])
    except CheckpointCorruptedError:
        raise
    except (TypeError, ValueError) as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None


def check(entry: Entry) -> Stored:
    """As `glance`, if every field of the entry fits its checksum: tells which one is damaged.

    Raises `CheckpointCorruptedError`.
    """
    stored = glance(entry)
    flags, checksum, beside, content = _unwrap(entry)
    if not _fits(entry) or (
        _checksum(entry.digest, _clear(entry), flags, beside, content) != checksum
    ):
        reason = "its checksum does not match what is stored"
        raise CheckpointCorruptedError(entry.run, entry.seq, reason)
    return stored


def vouches(entry: Entry, previous: bytes, proof: bytes) -> bool:
    """Whether the digest is that of its fields and this proof behind that entry's digest."""
    return _fits(entry) and _sha256(previous + _clear(entry) + proof) == entry.digest


def _fits(entry: Entry) -> bool:
    """Whether its digest is one at all: a column may hold another type than it was given."""
    return isinstance(entry.digest, bytes)


def _clear(entry: Entry) -> bytes:
    """Every index field but the digest, in one unambiguous form."""
    try:
        return ormsgpack.packb((VERSION, *entry[:6], *entry[7:18]))
    except TypeError as error:  # a column that holds another type than it was given
        reason = f"a field of it is not what it should be: {error}"
        raise CheckpointCorruptedError(entry.run, entry.seq, reason) from None


def dressed(entry: Entry, state: bytes) -> bytes:
    """A packed body as JSON for people: its content in base64, and beside it the state's JSON."""
    flags, checksum, beside, content = _unwrap(entry)
    head = _json_head(flags, checksum, beside) + b', "content": "'
    text = binascii.b2a_base64(content, newline=False)
    return head + text + b'", "state":\n' + state + _JSON_CLOSE


def undressed(entry: Entry) -> bytes:
    """The body without what was put beside it for people."""
    if not entry.body.startswith(b"{"):
        return entry.body
    flags, checksum, beside, content = _unwrap(entry)
    return _wrap(flags, checksum, beside, content)


def _bearings(seq: int, content: bytes) -> tuple[int, int, int]:
    """The base and the landmark of a delta, and where in its content the change begins."""
    back, at = varint.take(content, 0)
    to_landmark, at = varint.take(content, at)
    if not 0 < back <= (to_landmark or back) <= seq:
        raise ValueError("a delta points outside its run")
    return seq - back, seq - to_landmark, at


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


_BYTE: Final = [bytes([flags]) for flags in range(_FLAGS + 1)]
_OF_NOTHING: Final = [_sha256(flags) for flags in _BYTE]


def _checksum(digest: bytes, clear: bytes, flags: int, beside: bytes, content: bytes) -> int:
    return zlib.crc32(digest + clear + _BYTE[flags] + beside + content)


def _beside(proof: bytes, marker: int) -> bytes:
    """What a rewritten body keeps: the proof of what was first stored, and its marker's seq."""
    beside = bytearray(proof)
    varint.put(beside, marker)
    return bytes(beside)


def _wrap(flags: int, checksum: int, beside: bytes, content: bytes) -> bytes:
    if flags & READABLE:
        head = _json_head(flags, checksum, beside)
        return head + b', "state":\n' + (content or b"null") + _JSON_CLOSE
    return _PACK_HEADER(VERSION, flags, checksum) + beside + content


def _json_head(flags: int, checksum: int, beside: bytes) -> bytes:
    head = b'{"format": 2, "flags": %d, "checksum": "%08x"' % (flags, checksum)
    if not beside:
        return head
    head += b', "proof": "%b"' % beside[:_PROOF].hex().encode()
    if len(beside) == _PROOF:
        return head
    return head + b', "marker": %d' % varint.take(beside, _PROOF)[0]


def _unwrap(entry: Entry) -> tuple[int, int, bytes, bytes]:
    """Flags, checksum, what is beside a rewritten content, and the content. Raises `ValueError`."""
    body = entry.body
    if len(body) < _HEADER:
        raise ValueError("the body is too short to be an envelope")
    if body.startswith(b"{"):
        return _unwrap_json(entry)
    version, flags, checksum = _UNPACK_HEADER(body)
    if version != VERSION or flags & ~_FLAGS or flags & READABLE:
        raise _unknown(entry, version, flags)
    at = _HEADER
    if flags & REWRITTEN:
        _, at = varint.take(body, _HEADER + _PROOF)
    elif flags & DELTA:
        at += _PROOF
    return flags, checksum, body[_HEADER:at], body[at:]


def _unknown(entry: Entry, version: int, flags: int) -> UnknownFormatError:
    reason = f"it has the format {version}.{flags}, which this version can't read"
    return UnknownFormatError(entry.run, entry.seq, reason)


def _unwrap_json(entry: Entry) -> tuple[int, int, bytes, bytes]:
    body = entry.body
    found = _JSON_OPEN.match(body)
    if found is None and (other := _JSON_FORMAT.match(body)):
        raise _unknown(entry, int(other[1]), int(other[2]))
    if found is None or not body.endswith(_JSON_CLOSE):
        raise ValueError("the JSON envelope was altered")
    flags, checksum = int(found[1]), int(found[2], 16)
    if flags & ~_FLAGS:
        raise _unknown(entry, VERSION, flags)
    rewritten, readable = bool(flags & REWRITTEN), bool(flags & READABLE)
    has_proof = bool(flags & (REWRITTEN | DELTA))
    if (
        has_proof is (found[3] is None)
        or rewritten is (found[4] is None)
        or readable is (found[5] is not None)
    ):
        raise ValueError("the JSON envelope was altered")
    beside = bytes.fromhex(found[3].decode()) if has_proof else b""
    if rewritten:
        beside = _beside(beside, int(found[4]))
    if not readable:
        return flags, checksum, beside, binascii.a2b_base64(found[5], strict_mode=True)
    content = body[found.end() : -len(_JSON_CLOSE)]
    if not entry.size:
        content = b""  # "null" means no state at all; the state None has a size
    if _wrap(flags, checksum, beside, content) != body:
        raise ValueError("the JSON envelope was altered")
    return flags, checksum, beside, content
