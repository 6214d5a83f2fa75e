"""Unsigned integers in as few bytes as they need (LEB128)."""

from __future__ import annotations


def put(out: bytearray, number: int) -> None:
    """Append `number`, seven bits a byte, lowest first."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def take(data: bytes, at: int) -> tuple[int, int]:
    """The number that starts at `at`, and the offset behind it. Raises `ValueError`."""
    try:
        number = data[at]
        at += 1
        if number < 0x80:  # nearly all of them
            return number, at
        number &= 0x7F
        for shift in range(7, 64, 7):
            byte = data[at]
            at += 1
            if byte < 0x80:
                return number | byte << shift, at
            number |= (byte & 0x7F) << shift
    except IndexError:
        pass
    raise ValueError("a number is cut short")
