"""Compression where it gains enough, and decompression to a known size.

Large data becomes a zstd frame. Less than `SMALL` bytes are deflated: that takes a fifth of the
time to open, and with what stands nearby as a dictionary it halves even one short message.
"""

from __future__ import annotations

import sys
import threading
import zlib
from typing import Final

if sys.version_info >= (3, 14):
    from compression.zstd import CompressionParameter, ZstdCompressor, ZstdDecompressor, ZstdError
else:
    from backports.zstd import CompressionParameter, ZstdCompressor, ZstdDecompressor, ZstdError

LEVEL: Final = 1

SMALL: Final = 4096
"""Bytes below which data is deflated."""

NEARBY: Final = 4096
"""Bytes of a dictionary, at most."""

# A window of 8 KB, for the dictionary and the data; a small hash table, as it is cleared each time;
# fixed codes, because to read a table of others takes as long as to open a small message.
_DEFLATE: Final = (4, zlib.DEFLATED, -13, 5, zlib.Z_FIXED)
_INFLATE: Final = -15

LARGE: Final = 1 << 18
"""Bytes from which on speed counts more: a table that fits the processor's nearest cache makes it
a fifth faster, and what is stored a tenth larger."""

_LARGE_HASH: Final = 12
_SAMPLED: Final = LARGE  # bytes from which on a sample is tried first:
_PIECES: Final = 4  # so many pieces,
_PIECE: Final = 1 << 11  # of so many bytes each,
_GAIN: Final = 0.85  # which must shrink to this part of their size

_local = threading.local()


def smaller(data: bytes) -> bytes | None:
    """The data as one zstd frame; None where that would hardly be smaller."""
    if len(data) > _SAMPLED:
        starts = range(0, len(data), len(data) // _PIECES)
        sample = b"".join(data[at : at + _PIECE] for at in starts)
        if len(compress(sample)) > _GAIN * len(sample):
            return None
    packed = compress(data)
    return packed if len(packed) < len(data) else None


def compress(data: bytes) -> bytes:
    """One zstd frame. Compressors are kept per thread: making one costs more than a small input."""
    name = "large" if len(data) >= LARGE else "small"
    compressor = getattr(_local, name, None)
    if compressor is None:
        options: dict[int, int] = {CompressionParameter.compression_level: LEVEL}
        if name == "large":
            options[CompressionParameter.hash_log] = _LARGE_HASH
        compressor = ZstdCompressor(options=options)
        setattr(_local, name, compressor)
    packed: bytes = compressor.compress(data, mode=ZstdCompressor.FLUSH_FRAME)
    return packed


def decompress(data: bytes, size: int) -> bytes:
    """The frame's content, exactly `size` bytes. Raises `ValueError`, and never expands further."""
    decompressor = ZstdDecompressor()
    try:
        plain = decompressor.decompress(data, max_length=size + 1)
    except ZstdError as error:
        raise ValueError(f"not a zstd frame: {error}") from None
    if len(plain) != size or not decompressor.eof or decompressor.unused_data:
        raise ValueError("a compressed body does not have its recorded size")
    return plain


def deflated(data: bytes, nearby: bytes | bytearray) -> bytes | None:
    """The data as a raw deflate stream with a dictionary; None where that would not be smaller."""
    packer = zlib.compressobj(*_DEFLATE, zdict=nearby)
    packed = packer.compress(data) + packer.flush()
    return packed if len(packed) < len(data) else None


def inflate(data: bytes, size: int, nearby: bytes | bytearray) -> bytes:
    """The stream's content, as `decompress`."""
    unpacker = zlib.decompressobj(_INFLATE, zdict=nearby)
    try:
        plain = unpacker.decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError(f"not a deflate stream: {error}") from None
    if len(plain) != size or not unpacker.eof or unpacker.unused_data:
        raise ValueError("a compressed body does not have its recorded size")
    return plain
