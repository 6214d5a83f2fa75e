"""Whether making a set or dict of these members takes long.

Anyone can compute the hash of a number, and choose as many with the same hash as they like: a set
of them takes time by the square of their number. Hashes of text and bytes are secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

TOO_ALIKE: Final = "too many keys or members have the same hash"

_FEW: Final = 1000
_COMPARISONS: Final = 1_000_000  # a few hundredths of a second
_PER_MEMBER: Final = 16


def are_alike(members: Collection[object]) -> bool:
    """Whether too many have the same hash. Raises `TypeError` for what has none."""
    if len(members) <= _FEW:
        return False
    hashes = Counter(map(hash, members))
    if len(hashes) == len(members):
        return False
    compared = sum(count * count for count in hashes.values())
    return compared > _COMPARISONS + _PER_MEMBER * len(members)
