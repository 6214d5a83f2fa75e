"""What changed between two encodings: a few splices (skip, delete, insert).

A differ for states that grow and change in places: it follows what both sides share with
`startswith` and finds its way again with `find`, both at memory speed, and gives up early
where a whole new encoding is the better answer. The bytes of a delta, repeated to its end:

    varint  bytes of the old encoding to keep
    varint  bytes of the old encoding to leave out
    varint  length of the insert, and the insert
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.codec import varint

MAX_SPLICES: Final = 96
_FEW: Final = 8  # splices that are made in place
_ANCHOR: Final = 24  # bytes that must agree before the two sides count as in step again
_WINDOW: Final = 256  # bytes that are compared as numbers: at once, but slower than by `startswith`
_OVERWRITTEN: Final = 64 + _ANCHOR  # how far to look for where an overwritten part ends
_ALIKE: Final = bytes(_ANCHOR)
_SEARCHES: Final = (  # how far to skip on one side, and how far it may be on the other, at most
    *((skip, 1 << 11) for skip in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
    *((skip, 1 << 16) for skip in (0, 256, 2048)),
)


class Change(NamedTuple):
    """A delta, and where in the old encoding its longest insertion goes: data there is alike."""

    splices: bytes
    place: int


def diff(old: bytes, new: bytes, splices: int = MAX_SPLICES) -> Change | None:
    """The delta that turns `old` into `new`, or None when it would hardly be smaller than `new`."""
    if old is new:
        return Change(b"", 0)
    out = bytearray()
    budget = len(new) // 2
    i = j = kept = longest = place = 0
    for _ in range(splices):
        same = _agreement(old, i, new, j)
        i, j, kept = i + same, j + same, kept + same
        if i == len(old) and j == len(new):
            return Change(bytes(out), place)
        next_i, next_j = _in_step_again(old, i, new, j)
        if len(out) + next_j - j > budget:
            return None
        if next_j - j > longest:
            longest, place = next_j - j, i
        varint.put(out, kept)
        varint.put(out, next_i - i)
        varint.put(out, next_j - j)
        out += new[j:next_j]
        i, j, kept = next_i, next_j, 0
    return None


def apply(encoding: bytearray, delta: bytes, new_size: int) -> bytearray:
    """The new encoding, made of the old one, which may be changed in place.

    Raises `ValueError` when the delta does not fit it, or would not give it this size.
    """
    splices: list[tuple[int, int, bytes]] = []
    at = position = 0
    end, size, take = len(delta), len(encoding), varint.take
    while at < end:
        keep, at = take(delta, at)
        leave, at = take(delta, at)
        length, at = take(delta, at)
        position += keep
        new_size += leave - length
        begin, at = at, at + length
        if position + leave > size or at > end:
            raise ValueError("a delta does not fit the encoding it is applied to")
        splices.append((position, leave, delta[begin:at]))
        position += leave
    if size != new_size:
        raise ValueError("a delta does not make a state of its recorded size")
    if len(splices) > _FEW:
        return _spliced(encoding, splices)
    for position, leave, insert in reversed(splices):  # from the end: earlier offsets stay true
        encoding[position : position + leave] = insert
    return encoding


def _spliced(encoding: bytearray, splices: list[tuple[int, int, bytes]]) -> bytearray:
    """All splices in one go, where moving the rest for each of them would take longer."""
    with memoryview(encoding) as old:
        parts: list[bytes | memoryview] = []
        at = 0
        for position, leave, insert in splices:
            parts += old[at:position], insert
            at = position + leave
        return bytearray().join([*parts, old[at:]])


def _agreement(old: bytes, i: int, new: bytes, j: int) -> int:
    """How many bytes agree from here on."""
    most = min(len(old) - i, len(new) - j)
    same = 0
    step = 2 * _WINDOW
    view = memoryview(new)  # of which slices are no copies
    while same < most:
        step = min(step, most - same)
        if old.startswith(view[j + same : j + same + step], i + same):
            same += step
            step *= 4
        elif step <= _WINDOW:
            unlike = _unlike(old, i + same, new, j + same, step)
            return same + len(unlike) - len(unlike.lstrip(b"\0"))
        else:
            step //= 8
            most = min(most, same + step * 8)
    return same


def _unlike(old: bytes, i: int, new: bytes, j: int, size: int) -> bytes:
    """So many bytes, or what there is of them on both sides: zeros where they agree."""
    a, b = old[i : i + size], new[j : j + size]
    size = min(len(a), len(b))
    differing = int.from_bytes(a[:size], "big") ^ int.from_bytes(b[:size], "big")
    return differing.to_bytes(size, "big")


def _in_step_again(old: bytes, i: int, new: bytes, j: int) -> tuple[int, int]:
    """The nearest positions found from which both sides agree again; both ends if none."""
    if i == len(old) or j == len(new):
        return len(old), len(new)
    # A counter or an id was overwritten: by far the commonest change.
    skip = _unlike(old, i, new, j, _OVERWRITTEN).find(_ALIKE)
    if skip >= 0:
        return i + skip, j + skip
    farthest = max(len(new) // 4, 1 << 11)  # what moved further makes a delta that hardly pays
    for skip, most in _SEARCHES:
        window = min(most, farthest)
        anchor = old[i + skip : i + skip + _ANCHOR]
        found = new.find(anchor, j, j + skip + window) if len(anchor) == _ANCHOR else -1
        if found >= 0:
            return _pull_back(old, i, i + skip, new, j, found)
        anchor = new[j + skip : j + skip + _ANCHOR]
        found = old.find(anchor, i, i + skip + window) if len(anchor) == _ANCHOR else -1
        if found >= 0:
            return _pull_back(old, i, found, new, j, j + skip)
    tail = _common_tail(old, i, new, j)
    return len(old) - tail, len(new) - tail


def _pull_back(old: bytes, i: int, a: int, new: bytes, j: int, b: int) -> tuple[int, int]:
    """Move a meeting point towards the front while the bytes before it agree."""
    while a > i and b > j and old[a - 1] == new[b - 1]:
        a -= 1
        b -= 1
    return a, b


def _common_tail(old: bytes, i: int, new: bytes, j: int) -> int:
    """How many bytes agree at the very end, looking at a bounded number of them."""
    most = min(len(old) - i, len(new) - j, 4096)
    low, high = 0, most
    while low < high:  # agreement of tails is monotone, so it can be halved
        middle = (low + high + 1) // 2
        if old.endswith(new[len(new) - middle :]):
            low = middle
        else:
            high = middle - 1
    return low
