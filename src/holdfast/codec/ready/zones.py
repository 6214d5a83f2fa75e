"""Time zones as data: the key of a zone, or the seconds of a fixed offset."""

from __future__ import annotations

from datetime import timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from holdfast.codec.paths import Misplaced


def zone_data(zone: tzinfo) -> str | int:
    """A zone as data. Raises `Misplaced` for one that is neither in the database nor fixed."""
    key = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if isinstance(key, str):
        return key
    offset = zone.utcoffset(None)
    if offset is None or offset.microseconds:
        raise Misplaced(f"the time zone {zone!r} can't be stored; use one of zoneinfo")
    return offset // timedelta(seconds=1)


def zone(data: Any) -> tzinfo:
    """The zone that this was. Raises for what is none."""
    return ZoneInfo(data) if isinstance(data, str) else timezone(timedelta(seconds=data))
