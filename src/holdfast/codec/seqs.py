"""Sets of seqs, as markers list them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Seqs:
    """Many seqs in little space: written as ranges, such as `3-99,105`."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self.ranges = ranges  # ascending

    @classmethod
    def of(cls, seqs: Iterable[int]) -> Seqs:
        """These seqs."""
        ranges: list[tuple[int, int]] = []
        for seq in sorted(seqs):
            if ranges and ranges[-1][1] == seq - 1:
                ranges[-1] = ranges[-1][0], seq
            else:
                ranges.append((seq, seq))
        return cls(ranges)

    @classmethod
    def parse(cls, text: str) -> Seqs:
        """What `str` gives. Raises `ValueError`."""
        parts = [part.partition("-") for part in text.split(",")] if text else []
        return cls([(int(first), int(last or first)) for first, _, last in parts])

    @classmethod
    def union(cls, many: Iterable[Seqs]) -> Seqs:
        """All that any of them has."""
        ranges: list[tuple[int, int]] = []
        for first, last in sorted(found for seqs in many for found in seqs.ranges):
            if ranges and first <= ranges[-1][1] + 1:
                ranges[-1] = ranges[-1][0], max(last, ranges[-1][1])
            else:
                ranges.append((first, last))
        return cls(ranges)

    def before(self, seq: int) -> Seqs:
        """Those of them that are smaller than this one."""
        return Seqs([(first, min(last, seq - 1)) for first, last in self.ranges if first < seq])

    def __str__(self) -> str:
        return ",".join(
            str(first) if first == last else f"{first}-{last}" for first, last in self.ranges
        )

    def __iter__(self) -> Iterator[int]:
        return (seq for first, last in self.ranges for seq in range(first, last + 1))

    def __contains__(self, seq: int) -> bool:
        at = bisect_right(self.ranges, (seq, math.inf)) - 1
        return at >= 0 and seq <= self.ranges[at][1]
