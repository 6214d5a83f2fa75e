"""The bytes of an envelope: what stands before, beside and behind a content."""

from __future__ import annotations

import binascii
import re
import struct
from typing import Final, NamedTuple

from holdfast.codec import varint
from holdfast.errors import UnknownFormatError
from holdfast.model import Entry

VERSION: Final = 2

DELTA: Final = 0x01  # the content is a delta against another entry's state
ZSTD: Final = 0x02  # the content is compressed
REWRITTEN: Final = 0x04  # not the content that the proof was made of, which a marker vouches for
READABLE: Final = 0x08  # the content is JSON text
SEALED: Final = 0x10  # the content is encrypted, and a tag of the key's holder is behind it
SIGNED: Final = 0x20  # a signature of the digest is behind the content
DEFLATED: Final = 0x40  # a small delta is compressed, with a part of the old state as dictionary
KNOWN: Final = DELTA | ZSTD | REWRITTEN | READABLE | SEALED | SIGNED | DEFLATED
"""All flags that this version knows. 128 is reserved, for another hash function."""

_HEADER: Final = 6
PROOF: Final = 32
"""Bytes of a proof."""

TAG: Final = 16
"""Bytes of the tag behind a sealed content."""

_PACK_HEADER: Final = struct.Struct("<BBI").pack
_UNPACK_HEADER: Final = struct.Struct("<BBI").unpack_from

_JSON_CLOSE: Final = b"\n}"
_JSON_OPEN: Final = re.compile(
    rb'\{"format": 2, "flags": ([0-9]{1,3}), "checksum": "([0-9a-f]{8})"'
    rb'(?:, "proof": "([0-9a-f]{64})"(?:, "marker": ([0-9]{1,18}))?)?'
    rb'(?:, "trailer": "([0-9a-f]+)")?'
    rb'(?:, "content": "([A-Za-z0-9+/=]*)")?, "state":\n'
)
_JSON_FORMAT: Final = re.compile(rb'\{"format": (?!2,)([0-9]{1,9}), "flags": ([0-9]{1,9}),')


class Wrapped(NamedTuple):
    """The parts of an envelope."""

    flags: int
    checksum: int
    beside: bytes  # of a delta its proof, of a rewritten body that and its marker's seq
    content: bytes
    trailer: bytes  # of a sealed or signed one: what proves who made the digest


def dressed(entry: Entry, state: bytes) -> bytes:
    """A packed body as JSON for people: its content in base64, and beside it the state's JSON."""
    flags, checksum, beside, content, trailer = unwrap(entry)
    head = _json_head(flags, checksum, beside, trailer) + b', "content": "'
    text = binascii.b2a_base64(content, newline=False)
    return head + text + b'", "state":\n' + state + _JSON_CLOSE


def undressed(entry: Entry) -> bytes:
    """The body without what was put beside it for people."""
    if not entry.body.startswith(b"{"):
        return entry.body
    return wrap(*unwrap(entry))


def beside_of(proof: bytes, marker: int) -> bytes:
    """What a rewritten body keeps: the proof of what was first stored, and its marker's seq."""
    beside = bytearray(proof)
    varint.put(beside, marker)
    return bytes(beside)


def wrap(flags: int, checksum: int, beside: bytes, content: bytes, trailer: bytes = b"") -> bytes:
    """The body that has these parts."""
    if flags & READABLE:
        head = _json_head(flags, checksum, beside, trailer)
        return head + b', "state":\n' + (content or b"null") + _JSON_CLOSE
    return _PACK_HEADER(VERSION, flags, checksum) + beside + content + trailer


def _json_head(flags: int, checksum: int, beside: bytes, trailer: bytes) -> bytes:
    head = b'{"format": 2, "flags": %d, "checksum": "%08x"' % (flags, checksum)
    if beside:
        head += b', "proof": "%b"' % beside[:PROOF].hex().encode()
    if len(beside) > PROOF:
        head += b', "marker": %d' % varint.take(beside, PROOF)[0]
    if trailer:
        head += b', "trailer": "%b"' % trailer.hex().encode()
    return head


_PLAIN: Final = bytes([VERSION, 0])


def plain(body: bytes) -> bytes | None:
    """The content of a proved body without flags: the value as it was encoded. Else None."""
    return body[_HEADER:] if body[:2] == _PLAIN else None


_BESIDE: Final = REWRITTEN | DELTA | SEALED | SIGNED  # with these, more than the content is there
_BEHIND: Final = SEALED | SIGNED
_new: Final = tuple.__new__  # at half the price of a constructor: a load makes one for each delta


def unwrap(entry: Entry) -> Wrapped:
    """The parts of the entry's body. Raises `ValueError`, `UnknownFormatError`."""
    body = entry.body
    if len(body) < _HEADER:
        raise ValueError("the body is too short to be an envelope")
    if body.startswith(b"{"):
        return _unwrap_json(entry)
    version, flags, checksum = _UNPACK_HEADER(body)
    if version != VERSION or flags & ~KNOWN or flags & READABLE:
        raise _unknown(entry, version, flags)
    if not flags & _BESIDE:  # as most are: a whole value, in the clear
        return _new(Wrapped, (flags, checksum, b"", body[_HEADER:], b""))
    at = _HEADER
    if flags & REWRITTEN:
        _, at = varint.take(body, _HEADER + PROOF)
    elif flags & DELTA:
        at += PROOF
    end = len(body) - (_length_behind(flags, body) if flags & _BEHIND else 0)
    if end < at:
        raise ValueError("the body is too short to be an envelope")
    return _new(Wrapped, (flags, checksum, body[_HEADER:at], body[at:end], body[end:]))


def _length_behind(flags: int, trailer: bytes) -> int:
    """How many of these bytes, at their end, are the trailer. Raises `ValueError`."""
    length = TAG if flags & SEALED else 0
    if flags & SIGNED:
        length += trailer[-1] + 1
        if trailer[-1] < 2 or length > len(trailer):
            raise ValueError("the signature was cut")
    return length


def _unknown(entry: Entry, version: int, flags: int) -> UnknownFormatError:
    reason = f"it has the format {version}.{flags}, which this version can't read"
    return UnknownFormatError(entry.run, entry.seq, reason)


def _unwrap_json(entry: Entry) -> Wrapped:
    body = entry.body
    found = _JSON_OPEN.match(body)
    if found is None and (other := _JSON_FORMAT.match(body)):
        raise _unknown(entry, int(other[1]), int(other[2]))
    if found is None or not body.endswith(_JSON_CLOSE):
        raise ValueError("the JSON envelope was altered")
    flags, checksum = int(found[1]), int(found[2], 16)
    if flags & ~KNOWN:
        raise _unknown(entry, VERSION, flags)
    rewritten, readable = bool(flags & REWRITTEN), bool(flags & READABLE)
    has_proof = bool(flags & (REWRITTEN | DELTA))
    if (
        has_proof is (found[3] is None)
        or rewritten is (found[4] is None)
        or bool(flags & (SEALED | SIGNED)) is (found[5] is None)
        or readable is (found[6] is not None)
        or (readable and flags & SEALED)
    ):
        raise ValueError("the JSON envelope was altered")
    beside = bytes.fromhex(found[3].decode()) if has_proof else b""
    if rewritten:
        beside = beside_of(beside, int(found[4]))
    trailer = bytes.fromhex((found[5] or b"").decode())
    if len(trailer) != _length_behind(flags, trailer):
        raise ValueError("the JSON envelope was altered")
    if not readable:
        content = binascii.a2b_base64(found[6], strict_mode=True)
        return Wrapped(flags, checksum, beside, content, trailer)
    content = body[found.end() : -len(_JSON_CLOSE)]
    if not entry.size:
        content = b""  # "null" means no state at all; the state None has a size
    if wrap(flags, checksum, beside, content, trailer) != body:
        raise ValueError("the JSON envelope was altered")
    return Wrapped(flags, checksum, beside, content, trailer)
