"""Whether a value that a database gave is the one that was claimed, by the letter.

Databases compare more loosely: "ALICE" may be "alice", "x " may be "x", and "7" may be 7.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from holdfast.codec.values import same


def same_cell(found: Any, claimed: Any) -> bool:
    """Whether they are equal. A number is never equal to a text.

    Drivers have types of their own for times, UUIDs and addresses. A text is equal to these if it
    is how they are written.
    """
    if isinstance(found, memoryview | bytearray):
        found = bytes(found)
    if type(claimed) is bool and type(found) is int:  # many databases keep True as 1
        return bool(found == int(claimed))
    if isinstance(claimed, float) and isinstance(found, Decimal):
        return found.is_finite() and found == Decimal(repr(claimed))
    if isinstance(claimed, str) and not isinstance(found, str):
        return _is_written(found, claimed)
    try:
        return same(found, claimed)
    except (ArithmeticError, TypeError, ValueError):  # some values refuse to be compared
        return False


def _is_written(found: Any, text: str) -> bool:
    """Whether a value of a type that has no JSON form is written like this."""
    if found is None or isinstance(
        found, bytes | bool | int | float | Decimal | list | dict | tuple
    ):
        return False
    if isinstance(found, dt.datetime):
        try:
            claimed = dt.datetime.fromisoformat(text)
        except ValueError:
            return False
        is_date = "T" not in text.upper() and " " not in text.strip()
        return not is_date and claimed == found  # an aware time is never equal to a naive one
    return text == str(found)
