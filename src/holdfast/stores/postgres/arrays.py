"""Columns of entries as binary PostgreSQL arrays; psycopg takes twice as long to make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from holdfast.model import Entry
from holdfast.store import Behind


class _Type(NamedTuple):
    name: str
    oid: int
    encode: Callable[[Any], bytes]


_TYPES: Final = (
    dict.fromkeys(Entry._fields, _Type("text", 25, str.encode))
    | dict.fromkeys(
        ("seq", "parent", "term", "step_index", "at", "size"), _Type("int8", 20, Struct(">q").pack)
    )
    | dict.fromkeys(("entry_id", "digest", "body"), _Type("bytea", 17, bytes))
    | {"duration": _Type("float8", 701, Struct(">d").pack)}
)
_HEAD: Final = Struct(">iiIii").pack  # dimensions, whether it has NULLs, type, length, first index
_LENGTH: Final = Struct(">i").pack
_NULL: Final = _LENGTH(-1)

ARRAYS: Final = ", ".join(f"%b::{of.name}[]" for of in (*_TYPES.values(), _TYPES["digest"]))
"""The placeholders of `arrays_of`."""


class _Array(NamedTuple):
    encoded: bytes


class _Encoded(Dumper):
    format = Format.BINARY

    def dump(self, obj: _Array) -> bytes:
        return obj.encoded


def takes_arrays(cursor: psycopg.Cursor[Any]) -> None:
    """Let this cursor, and no other, take what `arrays_of` returns."""
    cursor.adapters.register_dumper(_Array, _Encoded)


def arrays_of(entries: Sequence[Entry], behind: Behind) -> list[_Array | None]:
    """Arrays for `unnest`; a column of NULLs only is NULL, which is faster.

    The last one has the digest that the entry before this one must have, where that is known.
    """
    first = dict(behind)
    columns = (*zip(*entries, strict=True), [first.pop(entry.run, None) for entry in entries])
    return [
        _array(of, column) if any(value is not None for value in column) else None
        for of, column in zip((*_TYPES.values(), _TYPES["digest"]), columns, strict=True)
    ]


def _array(of: _Type, column: Sequence[Any]) -> _Array:
    parts = [_HEAD(1, None in column, of.oid, len(column), 1)]
    for value in column:
        if value is None:
            parts.append(_NULL)
        else:
            encoded = of.encode(value)
            parts += (_LENGTH(len(encoded)), encoded)
    return _Array(b"".join(parts))
