"""Keeps the memory of large encodings at hand, instead of asking the system for it each time."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

_MOST: Final = 1 << 25  # glibc learns nothing from larger blocks

at_hand = 1 << 17  # bytes up to which blocks are reused anyway
"""How large the blocks are that the allocator reuses, as far as is known."""


def keep(size: int) -> None:
    """Have the allocator reuse blocks of this size when they are freed.

    glibc returns a large block to the system, and gets the next one from there, empty: each of its
    pages is then faulted in, which takes longer than to encode a state into it. It stops that for
    blocks that are no larger than the largest that was ever freed. So it is shown one, of which no
    page is touched. If its thresholds were set (`MALLOC_MMAP_THRESHOLD_`), they stay as they are;
    other allocators take no notice.
    """
    global at_hand
    if size <= _MOST // 2:
        with suppress(MemoryError):  # where memory is scarce, none is kept
            bytearray(2 * size)
    at_hand = size
