"""Times as people give them: an age such as 24h, or a date and time."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.checkpoint import aware

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def age(text: str) -> timedelta:
    """A length of time such as 90s, 12h, 30d or 8w. Raises `ValueError`."""
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", text.strip())
    if found is None or not int(found[1]):
        raise ValueError(f"{text!r} is not a length of time; give one such as 90s, 12h, 30d or 8w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def point(text: str) -> datetime:
    """A moment: so long ago, such as 24h, or a time with its offset from UTC. Raises `ValueError`."""
    try:
        return datetime.now(UTC) - age(text)
    except (ValueError, OverflowError):
        pass
    try:
        found = datetime.fromisoformat(text.strip())
        if found.tzinfo is not None:
            return aware(found)
    except ValueError:
        pass
    raise ValueError(
        f"{text!r} is not a time; give how long ago, such as 24h, or a time such as "
        "2026-11-19T10:00:00Z"
    )
