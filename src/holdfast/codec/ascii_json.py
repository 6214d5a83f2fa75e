"""Documents as JSON in ASCII: stored text may come from anyone, and can't disguise itself there."""

import json
from datetime import datetime
from enum import Enum
from typing import Any


def to_ascii(document: Any, *, indent: int | None = None) -> str:
    """A document as text without escape sequences or characters that look like others."""
    text = json.dumps(document, indent=indent, default=plain)
    return text.replace("\x7f", "\\u007f")


def plain(value: Any) -> Any:
    """What JSON has for a time or an enum, as `default=` of `json.dumps`."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} has no JSON form here")
