"""The allocator learns how large encodings are, once."""

from __future__ import annotations

from unittest.mock import patch

from holdfast.codec import memory
from holdfast.codec.values import encode


def test_the_allocator_is_told_once_how_large_encodings_are() -> None:
    told: list[int] = []
    with patch.object(memory, "at_hand", 1 << 17), patch.object(memory, "keep", told.append):
        encode("x" * 1000)
        assert told == []
        encode("x" * 200_000)
        assert told == [200_005]
    with patch.object(memory, "at_hand", 1 << 17):
        memory.keep(300_000)
        assert memory.at_hand == 300_000
        memory.keep(1 << 40)  # more than there is: nothing is asked for
        assert memory.at_hand == 1 << 40
