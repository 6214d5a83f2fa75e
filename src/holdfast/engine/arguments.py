"""A short digest of what a step is called with: to notice that a replay calls it differently.

Up to 4 KB of arguments count in full; beyond that, only the type and size of each. Objects that
nothing is known about, such as a connection, count by their type.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import enum
import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any, Final

_MOST: Final = 4096
_BYTES: Final = 6  # of the digest: a change goes unnoticed once in 2**48
_BY_REPR: Final = (
    int, float, complex, bytes, bytearray, dt.date, dt.time, dt.timedelta, dt.tzinfo,
    decimal.Decimal, uuid.UUID, PurePath, type(None))  # fmt: skip


class _TooLargeError(Exception):
    pass


def digest(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The digest of a call's arguments, in eight characters."""
    try:
        text = "".join(_limited(_parts((tuple(args), kwargs))))
    except (_TooLargeError, RecursionError):
        named = [*enumerate(args), *sorted(kwargs.items())]
        text = "|".join(f"{name}:{_kind(value)}:{_size(value)}" for name, value in named)
    made = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(made[:_BYTES]).decode()


def _limited(parts: Iterator[str]) -> Iterator[str]:
    left = _MOST
    for part in parts:
        left -= len(part)
        if left < 0:
            raise _TooLargeError
        yield part


def _parts(value: Any) -> Iterator[str]:
    """The value as text, piece by piece; equal values have equal text in every process."""
    if isinstance(value, str):
        yield f"{len(value)}{value!r}" if len(value) <= _MOST else " " * (_MOST + 1)
    elif isinstance(value, enum.Enum):
        yield f"{type(value).__qualname__}.{value.name}"
    elif isinstance(value, bytes | bytearray) and len(value) > _MOST:
        raise _TooLargeError
    elif isinstance(value, _BY_REPR):
        yield repr(value)
    elif isinstance(value, Mapping):
        yield "{"
        for key, item in sorted(value.items(), key=_by_key):
            yield from _parts(key)
            yield from _parts(item)
        yield "}"
    elif isinstance(value, Set):
        yield "".join(("<", *sorted("".join(_limited(_parts(item))) for item in value), ">"))
    elif isinstance(value, Sequence):
        yield "["
        for item in value:
            yield from _parts(item)
            yield ","
        yield "]"
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield _kind(value)
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name, None))
    else:
        yield f"{_kind(value)}{getattr(value, 'shape', '')}"


def _by_key(item: tuple[Any, Any]) -> str:
    return f"{type(item[0]).__name__}{item[0]!r}" if isinstance(item[0], str | int) else ""


def _kind(value: Any) -> str:
    kind = value if isinstance(value, type) or callable(value) else type(value)
    return str(getattr(kind, "__qualname__", type(value).__qualname__))


def _size(value: Any) -> str:
    try:
        return str(len(value))
    except TypeError:
        return str(getattr(value, "shape", ""))
