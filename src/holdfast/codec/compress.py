"""zstd compression, and decompression to a known size."""

from __future__ import annotations

import sys
import threading
from typing import Final

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor, ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdCompressor, ZstdDecompressor, ZstdError

LEVEL: Final = 1

_local = threading.local()


def compress(data: bytes) -> bytes:
    """One zstd frame. Compressors are kept per thread: making one costs more than a small input."""
    compressor = getattr(_local, "compressor", None)
    if compressor is None:
        compressor = _local.compressor = ZstdCompressor(level=LEVEL)
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
