"""Where a delta lies: the state that it changes, and the landmark that its chain begins at.

A link:  varint, seq minus that of its base; varint, seq minus that of its landmark
A span:  0; varint, how many landmarks are before it; for each, the nearest first, a varint: seq
         minus that of the landmark. The nearest is its base

So whoever puts a state together can ask for all landmarks at once. Spans of the first kind listed
none: varint, seq minus that of the base; 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.codec import varint


def of_link(seq: int, base: int, landmark: int) -> bytes:
    """The bearings of the change to the state at `base`."""
    out = bytearray()
    varint.put(out, seq - base)
    varint.put(out, seq - landmark)
    return bytes(out)


def of_span(seq: int, trail: Sequence[int]) -> bytes:
    """The bearings of the change since the first of these landmarks."""
    out = bytearray(1)
    varint.put(out, len(trail))
    for landmark in trail:
        varint.put(out, seq - landmark)
    return bytes(out)


def take(seq: int, content: bytes) -> tuple[int, int, int]:
    """The base and the landmark of a delta, and where in its content the change begins.

    Raises `ValueError`.
    """
    back, at = varint.take(content, 0)
    if not back:
        landmarks, at = _trail(seq, content, at)
        return landmarks[0], seq, at
    to_landmark, at = varint.take(content, at)
    if not 0 < back <= (to_landmark or back) <= seq:
        raise ValueError("a delta points outside its run")
    return seq - back, seq - to_landmark, at


def trail(seq: int, content: bytes) -> Sequence[int]:
    """The seqs of the landmarks that a span lists, the nearest first; none if it is a link.

    Raises `ValueError`.
    """
    back, at = varint.take(content, 0)
    return () if back else _trail(seq, content, at)[0]


def _trail(seq: int, content: bytes, at: int) -> tuple[list[int], int]:
    count, at = varint.take(content, at)
    found: list[int] = []
    last = seq
    for _ in range(count):  # which ends at once where the content does
        back, at = varint.take(content, at)
        if not 0 <= seq - back < last:
            raise ValueError("a delta points outside its run")
        last = seq - back
        found.append(last)
    if not found:
        raise ValueError("a delta without a base")
    return found, at
