"""An entry's index fields as bytes. What is read back is checked: it may be hostile."""

from __future__ import annotations

from typing import Final

import ormsgpack

from holdfast.errors import CheckpointCorruptedError, StoreError
from holdfast.model import Entry

_NOTHING: Final = type(None)
_NUMBER: Final = (int, _NOTHING)
_TEXT: Final = (str, _NOTHING)
_TYPES: Final = {
    "kind": (str,), "entry_id": (bytes,), "parent": _NUMBER, "term": (int,), "digest": (bytes,),
    "step": _TEXT, "step_index": _NUMBER, "type": _TEXT, "status": (str,), "at": (int,),
    "duration": (float, int, _NOTHING), "size": (int,), "flow": _TEXT, "thread": _TEXT,
    "owner": _TEXT, "meta": (str,), "length": (int,),
}  # fmt: skip


def digits(seq: int) -> str:
    """A seq as text of 19 digits, which sorts as the number does."""
    return f"{min(max(seq, 0), 10**19 - 1):019}"


def pack(entry: Entry, length: int) -> bytes:
    """All fields except the run, the seq and the body, then the body's length."""
    try:
        packed: bytes = ormsgpack.packb([*entry[2:-1], length])
    except ormsgpack.MsgpackEncodeError as error:
        raise StoreError(f"{entry.run}@{entry.seq} can't be stored: {error}") from error
    return packed


def unpack(run: str, seq: int, packed: bytes, body: bytes = b"") -> tuple[Entry, int]:
    """The entry and its body's length. Raises `CheckpointCorruptedError` for anything else."""
    try:
        *values, length = ormsgpack.unpackb(packed)
        for (name, types), value in zip(_TYPES.items(), (*values, length), strict=True):
            if type(value) not in types:
                raise TypeError(f"its {name} can't be {value!r:.99}")
    except (ValueError, TypeError) as error:
        raise CheckpointCorruptedError(run, seq, str(error)) from error
    return Entry._make([run, seq, *values, body]), length
