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
    if at < len(data) and data[at] < 0x80:  # nearly all of them
        return data[at], at + 1
    number = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise ValueError("a number is cut short")
