"""A large state, field by field: what a step left as it was is not made anew from its bytes.

Every step has a state of its own, may change it in place, and may keep it. So a field counts as
unchanged only if it is the very object that was handed out and nothing can change that, or if its
encoding is the same again. A step is handed a copy of a value that no step ever saw. The copy of
lists and dicts of plain data equals what decoding would make, and shares what nothing can change.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from itertools import chain
from operator import is_
from typing import Any, Final
from uuid import UUID

from ormsgpack import packb

from holdfast.codec.records import Ready
from holdfast.codec.reduce import PASS, reduce
from holdfast.codec.revive import field_converters, revive
from holdfast.codec.values import map_header

Decode = Callable[[Any], Any]
Copy = Callable[[Any], Any]

LARGE: Final = 16_384
"""Bytes of a state from which on it is encoded and decoded field by field."""

_LEAST: Final = 512  # bytes that a field should have on average: else they are too many
_WORTH: Final = 4096  # bytes of a field that is copied rather than decoded
_OFTEN: Final = 2  # times that it was unchanged before it is: to prepare that takes long
_FEW: Final = 256  # items of a list that are encoded at once
_UNKNOWN: Final = object()


class Field:
    """Where the value of a field is in an encoding, and what is known of it."""

    __slots__ = ("end", "given", "make", "own", "start", "unchanged")

    def __init__(self, start: int, end: int, before: Field | None = None) -> None:
        self.start = start
        self.end = end
        self.unchanged = 0  # how often
        self.given: Any = _UNKNOWN  # the value, if nothing can change it
        self.make: Callable[[], Any] | None = None  # makes another one, if that is known
        self.own: tuple[Copy, Any] | None = None  # until it is first asked for: a copy of it
        if before is not None:
            self.unchanged = before.unchanged + 1
            self.given, self.make = before.given, before.make

    @property
    def is_worth_copying(self) -> bool:
        """Whether to keep a value of it, and hand out copies."""
        return self.unchanged == _OFTEN and self.end - self.start >= _WORTH


class Apart:
    """The encoding of a state of named fields, all of which are of one flow's type."""

    __slots__ = ("_fields", "encoding")

    def __init__(self, encoding: bytes, fields: dict[str, Field]) -> None:
        self.encoding = encoding
        self._fields = fields

    def followed_by(self, state: object) -> Apart | None:
        """The encoding of the state after this one; None if `values.encode` has to look at it."""
        try:
            fields = state if type(state) is dict else reduce(state)
            if type(fields) is not dict or len(fields) * _LEAST > len(self.encoding):
                return None
            return self._followed_by(fields)
        except Exception:  # noqa: BLE001 - raised again there, with the place that it is about
            return None

    def _followed_by(self, fields: dict[Any, Any]) -> Apart | None:
        old, known = memoryview(self.encoding), self._fields
        head = map_header(len(fields))
        parts: list[bytes | memoryview] = [head]
        found: dict[str, Field] = {}
        at, same = len(head), list(fields) == list(known)
        for name, value in fields.items():
            if type(name) is not str:
                return None
            key, before = packb(name), known.get(name)
            if before is not None and (before.given is value or self._has_all(before, value)):
                body = old[before.start : before.end]
            else:
                # In a list: so deep is the value in the whole state, too, and that is limited.
                body = memoryview(packb([value], default=reduce, option=PASS))[1:]
                if before is not None and not self._has(before, body):
                    before, same = None, False
            parts += key, body
            start = at + len(key)
            at = start + len(body)
            found[name] = field = Field(start, at, before)
            if before is None and len(body) >= _WORTH:
                field.own = _own_copy(value)
        return Apart(self.encoding if same and known else b"".join(parts), found)

    def _has(self, field: Field, body: memoryview) -> bool:
        is_as_long = field.end - field.start == len(body)
        return is_as_long and self.encoding.startswith(body, field.start)

    def _has_all(self, field: Field, value: Any) -> bool:
        """Whether a long list that was often unchanged is so again, encoded a few items at a time.

        One buffer for all of them would take longer to allocate than to fill.
        """
        length = len(value) if type(value) is list and field.make is not None else 0
        if length < _FEW or length > 0xFFFF:
            return False
        at = field.start + 3
        same = self.encoding.startswith(b"\xdc" + length.to_bytes(2), field.start)
        for first in range(0, length if same else 0, _FEW):
            few = packb(value[first : first + _FEW], default=reduce, option=PASS)
            body = memoryview(few)[1 if length - first < 16 else 3 :]
            if not self.encoding.startswith(body, at):
                return False
            at += len(body)
        return same and at == field.end

    def revived(self, kind: Any, decode: Decode) -> Any:
        """The state as an instance of `kind`, all of it the caller's own.

        It must be of the same kind each time. Raises as `decode` and `revive` do.
        """
        try:
            fields = self._values(kind, decode)
        except Exception:  # noqa: BLE001 - raised again below, with the place that it is about
            fields = decode(self.encoding)
        return fields if kind is dict or kind is Any else revive(fields, kind)

    def _values(self, kind: Any, decode: Decode) -> dict[str, Any]:
        converters = field_converters(kind)
        data = memoryview(self.encoding)
        values: dict[str, Any] = {}
        for name, field in self._fields.items():
            if field.given is not _UNKNOWN:
                value = field.given
            elif field.make is not None:
                value = field.make()
            else:
                convert = _as_it_is if converters is None else converters.get(name, _as_it_is)
                if field.own is not None:
                    value = _converted(field, convert)
                else:
                    part = data[field.start : field.end]
                    value = convert(decode(part))
                    if type(value) in _IMMUTABLE:
                        field.given = value
                    elif field.is_worth_copying:
                        field.make = _copies_of(convert(decode(part)))
            values[name] = value if converters is None else Ready(value)
        return values


def _as_it_is(value: Any) -> Any:
    return value


def _own_copy(value: Any) -> tuple[Copy, Any] | None:
    """What copies a step's value, and a copy of it; None where that takes as long as decoding."""
    kind = type(value)
    copy: Copy | None = None
    if kind is dict and _NATIVE.issuperset(map(type, value.values())):
        copy = dict.copy
    elif kind is list and _are_flat(value, _NATIVE):
        copy = _COPY_FLAT
    elif kind is list and _NATIVE.issuperset(map(type, value)):
        copy = list.copy
    return None if copy is None else (copy, copy(value))


def _converted(field: Field, convert: Decode) -> Any:
    """The field's own copy as its hint asks for. If that is the same, others are made of it."""
    assert field.own is not None
    copy, own = field.own
    field.own = None
    value = convert(own)
    if value is not own:
        return value
    field.make = partial(copy, own)
    return field.make()


def _copies_of(value: Any) -> Callable[[], Any] | None:
    """Makes copies of a value that nobody else has; None if it holds more than plain data."""
    try:
        copy = _copier(value)
    except TypeError:
        return None
    return None if copy is None else partial(copy, value)


def _copier(value: Any) -> Copy | None:
    """What copies a value, as long as that does not change; None if it need not be copied.

    Raises `TypeError` for a value that is not plain data.
    """
    kind = type(value)
    if kind in _IMMUTABLE:
        return None
    if kind is dict:
        inner = {key: copy for key, item in value.items() if (copy := _copier(item)) is not None}
        return partial(_copied_dict, inner) if inner else dict.copy
    if kind is list:
        if value and _are_flat(value, _IMMUTABLE):
            return _COPY_FLAT
        copiers = list(map(_copier, value))
        first = copiers[0] if copiers else None
        if not all(map(is_, copiers, [first] * len(copiers))):
            return partial(_copied_list, copiers)
        return list.copy if first is None else partial(_mapped, first)
    raise TypeError(f"{kind.__name__} is not plain data")


def _are_flat(items: list[Any], shared: frozenset[type]) -> bool:
    """Whether all are dicts of what is to be shared: most large lists are."""
    if not _DICT.issuperset(map(type, items)):
        return False
    return shared.issuperset(map(type, chain.from_iterable(map(dict.values, items))))


def _copied_dict(inner: dict[Any, Copy], value: dict[Any, Any]) -> dict[Any, Any]:
    copied = value.copy()
    for key, copy in inner.items():
        copied[key] = copy(value[key])
    return copied


def _copied_list(copiers: list[Copy | None], value: list[Any]) -> list[Any]:
    pairs = zip(copiers, value, strict=True)
    return [item if copy is None else copy(item) for copy, item in pairs]


def _mapped(copy: Copy, value: list[Any]) -> list[Any]:
    return [*map(copy, value)]


_COPY_FLAT: Final = partial(_mapped, dict.copy)
_DICT: Final = frozenset({dict})
_NATIVE: Final = frozenset({type(None), bool, int, float, str, bytes})  # come back as they are
_IMMUTABLE: Final = _NATIVE | {
    *(complex, Decimal, UUID, dt.datetime, dt.date, dt.time, dt.timedelta)
}
