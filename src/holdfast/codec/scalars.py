"""The scalar types that neither MessagePack nor JSON knows, each with its bytes and its text.

One table serves both stored forms: `codes` are those of the packed form's Ext values, `tags`
those of the readable form. Both are part of the stored format: none is ever reused or changed.

A datetime or time is ISO 8601 text. A `zoneinfo` zone is kept by its key, as RFC 9557 writes it:
`2026-10-25T02:30:00+02:00[Europe/Berlin]`. On the way back the key is only looked up in the
time zone database. Where it is unknown, the fixed offset stands in; where the zone's rules have
changed, the instant is kept rather than the wall time. Any other tzinfo comes back as its fixed
offset. `fold=1` is written as `[_fold=1]`.
"""

from __future__ import annotations

import functools
import re
import struct
import zoneinfo
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

MAX_INT_BYTES: Final = 65_536
"""The largest integer that is stored, in bytes."""


class Scalar(NamedTuple):
    """One type's stored forms. `unpack` and `parse` may raise anything on malformed input."""

    code: int
    tag: str
    type: type
    pack: Callable[[Any], bytes]
    unpack: Callable[[bytes], object]
    show: Callable[[Any], str]
    parse: Callable[[str], object]


def plain_scalar(value: object) -> object | None:
    """The base value of an instance of a subclass; None when that would lose something.

    pandas' Timestamp is a datetime with nanoseconds, and its NaT is a datetime without a date:
    the plain value has to be equal, or there is none.
    """
    for base, rebuild in _REBUILD:
        if isinstance(value, base):
            try:
                plain = rebuild(value)
            except (TypeError, ValueError):
                return None
            return plain if plain == value else None
    return None


def _textual(
    code: int, tag: str, kind: type, show: Callable[[Any], str], parse: Callable[[str], object]
) -> Scalar:
    return Scalar(
        code, tag, kind, lambda v: show(v).encode(), lambda b: parse(b.decode()), show, parse
    )


def _pack_int(value: int) -> bytes:
    size = value.bit_length() // 8 + 1
    if size > MAX_INT_BYTES:
        raise ValueError(f"it takes {size:,} bytes, more than {MAX_INT_BYTES:,}")
    return value.to_bytes(size, "big", signed=True)


def _unpack_int(data: bytes) -> int:
    if not 0 < len(data) <= MAX_INT_BYTES:
        raise ValueError(f"an integer of {len(data):,} bytes")
    return int.from_bytes(data, "big", signed=True)


def _show_int(value: int) -> str:
    # Python prints no more than 640 decimal digits when so configured; hex has no limit.
    return str(value) if value.bit_length() <= 2048 else hex(value)


def _parse_int(text: str) -> int:
    if len(text) > 2 * MAX_INT_BYTES + 3:
        raise ValueError(f"an integer of {len(text):,} digits")
    return int(text, 0)


def _show_complex(value: complex) -> str:
    return f"{value.real!r} {value.imag!r}"


def _parse_complex(text: str) -> complex:
    real, imag = text.split(" ")
    return complex(float(real), float(imag))


def _show_moment(value: datetime | time) -> str:
    text = value.isoformat()
    if isinstance(value.tzinfo, ZoneInfo) and _ZONE_KEY.fullmatch(value.tzinfo.key or ""):
        text += f"[{value.tzinfo.key}]"
    return text + "[_fold=1]" if value.fold else text


def _split_moment(text: str) -> tuple[str, timezone | None, ZoneInfo | None, int]:
    matched = _MOMENT.fullmatch(text)
    if matched is None:
        raise ValueError(f"{text[:60]!r} is not a date or time")
    wall, offset, sign, hours, minutes, seconds, micros, key, fold = matched.groups()
    fixed = None
    if offset:
        # fromisoformat takes an offset of microseconds for UTC, so offsets are read here.
        span = timedelta(
            hours=int(hours),
            minutes=int(minutes),
            seconds=int(seconds or 0),
            microseconds=int(micros or 0),
        )
        fixed = timezone(-span if sign == "-" else span) if span else UTC
    return wall, fixed, _zone(key) if key else None, 1 if fold else 0


def _parse_datetime(text: str) -> datetime:
    if len(text) <= _COMMON_LENGTH and not text.endswith("]"):
        return datetime.fromisoformat(text)
    wall, fixed, zone, fold = _split_moment(text)
    moment = datetime.fromisoformat(wall).replace(tzinfo=fixed, fold=fold)
    if zone is None:
        return moment
    zoned = moment.replace(tzinfo=zone)
    return zoned if zoned.utcoffset() == moment.utcoffset() else moment.astimezone(zone)


def _parse_time(text: str) -> time:
    wall, fixed, zone, fold = _split_moment(text)
    return time.fromisoformat(wall).replace(tzinfo=zone or fixed, fold=fold)


def _zone(key: str) -> ZoneInfo | None:
    # The pattern admits neither dots nor a leading slash, so no key leaves the database.
    if key not in _known_zones and not _is_zone(key):
        return None
    try:
        zone = ZoneInfo(key)
    except (KeyError, ValueError, OSError):
        return None
    _known_zones.add(key)
    return zone


def _is_zone(key: str) -> bool:
    """Whether the database has it. `ZoneInfo` would import a module of tzdata by this name."""
    parts = key.split("/")
    if any(Path(root, *parts).is_file() for root in zoneinfo.TZPATH):
        return True
    packaged = _packaged_zones()
    return packaged is not None and packaged.joinpath(*parts).is_file()


@functools.cache  # where tzdata is not installed, it is looked for once
def _packaged_zones() -> Traversable | None:
    from importlib import resources  # takes longer to import than all of this module

    try:
        return resources.files("tzdata.zoneinfo")
    except ImportError:
        return None


_known_zones: set[str] = set()  # no more than the database has


def _show_timedelta(value: timedelta) -> str:
    return f"P{value.days}DT{value.seconds}.{value.microseconds:06}S"


def _parse_timedelta(text: str) -> timedelta:
    matched = _DURATION.fullmatch(text)
    if matched is None:
        raise ValueError(f"{text[:60]!r} is not a duration")
    days, seconds, micros = (int(part) for part in matched.groups())
    return timedelta(days, seconds, micros)


_KEY = r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,4}"
_ZONE_KEY: Final = re.compile(_KEY)
_MOMENT: Final = re.compile(
    r"([0-9T:.-]{1,32}?)(([+-])(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{6}))?)?)?"
    rf"(?:\[({_KEY})\])?(\[_fold=1\])?",
    re.ASCII,
)
_COMMON_LENGTH: Final = len("2026-10-25T02:30:00.000000+02:00")
_DURATION: Final = re.compile(r"P(-?\d{1,9})DT(\d{1,5})\.(\d{6})S", re.ASCII)

SCALARS: Final = (
    Scalar(17, "int", int, _pack_int, _unpack_int, _show_int, _parse_int),
    _textual(18, "decimal", Decimal, str, Decimal),
    Scalar(
        19,
        "complex",
        complex,
        lambda v: struct.pack(">dd", v.real, v.imag),
        lambda b: complex(*struct.unpack(">dd", b)),
        _show_complex,
        _parse_complex,
    ),
    _textual(20, "datetime", datetime, _show_moment, _parse_datetime),
    _textual(21, "date", date, date.isoformat, date.fromisoformat),
    _textual(22, "time", time, _show_moment, _parse_time),
    _textual(23, "timedelta", timedelta, _show_timedelta, _parse_timedelta),
    Scalar(24, "uuid", UUID, lambda v: v.bytes, lambda b: UUID(bytes=b), str, UUID),
)

_REBUILD: Final[tuple[tuple[type, Callable[[Any], object]], ...]] = (
    (
        datetime,  # before date, whose subclass it is
        lambda v: datetime(
            v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond, v.tzinfo, fold=v.fold
        ),
    ),
    (date, lambda v: date(v.year, v.month, v.day)),
    (time, lambda v: time(v.hour, v.minute, v.second, v.microsecond, v.tzinfo, fold=v.fold)),
    (timedelta, lambda v: timedelta(v.days, v.seconds, v.microseconds)),
    (UUID, lambda v: UUID(int=v.int)),
    (Decimal, Decimal),
    (complex, lambda v: complex(v.real, v.imag)),
)
