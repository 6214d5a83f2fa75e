"""How much of one value is sent."""

from __future__ import annotations

from typing import Any, Final

from holdfast.codec.ascii_json import to_ascii

MOST: Final = 1_000_000
"""Characters of a value as JSON, at most."""


def capped(value: Any) -> tuple[Any, bool]:
    """The value, or None and True if it is too large."""
    return (None, True) if len(to_ascii(value)) > MOST else (value, False)
