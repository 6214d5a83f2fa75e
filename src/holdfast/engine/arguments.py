"""A digest of what a step is called with: to notice that a replay calls it differently.

Up to 4 KB of arguments count in full; beyond that, only the type and size of each. Objects that
nothing is known about, such as a connection, count by their type, and secrets by their name: no
digest is made of a value that was revealed.
"""

from __future__ import annotations

import binascii
import dataclasses
import datetime as dt
import decimal
import enum
import hashlib
import json
import math
import uuid
from collections.abc import Collection, Mapping, Sequence, Set
from operator import itemgetter
from pathlib import PurePath
from typing import Any, Final

from holdfast.codec import readable
from holdfast.codec.arrays import is_numpy
from holdfast.codec.registry import codec_for
from holdfast.codec.secrets import Secret
from holdfast.revealed import hidden_leaves, scrubbed

_MOST: Final = 4096
_BYTES: Final = 18  # of the digest: 144 bits, and no padding in base64
_PLAIN: Final = frozenset({int, float, bool, type(None)})
_BY_REPR: Final = (
    str, int, float, complex, bytes, bytearray, dt.date, dt.time, dt.timedelta, dt.tzinfo,
    decimal.Decimal, uuid.UUID, PurePath, type(None))  # fmt: skip


class _TooLargeError(Exception):
    pass


def digest(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The digest of a call's arguments, in 24 characters."""
    text: list[str] = []
    try:
        room = _add(args if type(args) is tuple else tuple(args), text, _MOST)
        if kwargs:
            _add(kwargs, text, room)
    except Exception:
        named = [*enumerate(args), *sorted(kwargs.items())]
        text = [f"{name}:{_kind(value)}:{_size(value)}|" for name, value in named]
    hidden = hidden_leaves()
    if hidden:
        text = ["?" if part in hidden else part for part in text]
    packed = scrubbed("".join(text)).encode("utf-8", "surrogatepass")
    made = hashlib.blake2b(packed, digest_size=_BYTES).digest()
    return binascii.b2a_base64(made, newline=False).decode()


def _add(value: Any, text: list[str], room: int) -> int:
    """Append the text of a value, the same in every process; returns how much room is left.

    Raises `_TooLargeError` when there is none.
    """
    kind = type(value)
    if kind is str:
        if len(value) > room:
            raise _TooLargeError
        part = repr(value)
    elif kind in _PLAIN:
        part = repr(value)
    elif kind is list or kind is tuple:
        _check_room(value, room)
        text.append("[")
        for item in value:
            room = _add(item, text, room - 1)
            text.append(",")
        part = "]"
    elif kind is dict:
        _check_room(value, room)
        text.append("{")
        named = [(_text(key, room), item) for key, item in value.items()]
        for name, item in sorted(named, key=itemgetter(0)) if len(named) > 1 else named:
            text.append(name)
            room = _add(item, text, room - len(name))
        part = "}"
    else:
        part = _rare(value, room)
    text.append(part)
    room -= len(part)
    if room < 0:
        raise _TooLargeError
    return room


def _rare(value: Any, room: int) -> str:
    """The text of a value of a less common type."""
    inner: list[str] = []
    if isinstance(value, Secret):
        return repr(value)
    if codec_for(type(value)) is not None:
        return _coded(value, room)
    if isinstance(value, enum.Enum):
        return f"{_kind(value)}.{value.name}"
    if isinstance(value, Collection):
        _check_room(value, room)
    if isinstance(value, _BY_REPR):
        return repr(value)
    if is_numpy(value) and not value.dtype.hasobject:
        if value.nbytes > room:
            raise _TooLargeError
        return f"{_kind(value)}{value.dtype}{value.shape}{value.tobytes()!r}"
    if isinstance(value, Mapping):
        _add(dict(value), inner, room)
    elif isinstance(value, Set):
        return "".join(("<", *sorted(_text(item, room) for item in value), ">"))
    elif isinstance(value, Sequence):
        _add(list(value), inner, room)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
        inner.append(_kind(value))
        _add(parts, inner, room)
    elif hasattr(type(value), "__pydantic_complete__"):
        inner.append(_kind(value))
        _add({**vars(value), **(value.__pydantic_extra__ or {})}, inner, room)
    else:
        return f"{_kind(value)}{_shape(value)}"
    return "".join(inner)


def _coded(value: Any, room: int) -> str:
    """The text of what a codec stores; frames and tensors are first asked for their size."""
    shape = getattr(value, "shape", ())
    if isinstance(shape, tuple) and math.prod(shape) > room:
        raise _TooLargeError
    text = json.dumps(readable.to_json(value))
    if len(text) > room:
        raise _TooLargeError
    return text


def _check_room(value: Collection[Any], room: int) -> None:
    """Raise `_TooLargeError` if it has more members than there is room for."""
    if len(value) > room:
        raise _TooLargeError


def _text(value: Any, room: int) -> str:
    text: list[str] = []
    _add(value, text, room)
    return "".join(text)


def _kind(value: Any) -> str:
    kind = value if isinstance(value, type) or callable(value) else type(value)
    return str(getattr(kind, "__qualname__", type(value).__qualname__))


def _size(value: Any) -> str:
    try:
        return str(len(value))
    except Exception:
        return _shape(value)


def _shape(value: Any) -> str:
    try:
        shape = value.shape
    except Exception:
        return ""
    return str(shape) if isinstance(shape, tuple) else ""
