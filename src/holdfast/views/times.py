"""Moments as people give them: so long ago, or a date and time."""

from datetime import UTC, datetime

from holdfast.checkpoint import aware
from holdfast.retention import parse_age


def point(text: str) -> datetime:
    """A moment: so long ago, such as 24h, or a time with its offset from UTC. Raises `ValueError`."""
    try:
        return datetime.now(UTC) - parse_age(text)
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
