"""SQLite keeps any value in any column: entries with a value of the wrong type are damaged."""

from __future__ import annotations

from typing import Final

from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import RunHead
from holdfast.model import Entry, lost

_NOTHING: Final = type(None)
_TEXT: Final = (str, _NOTHING)
_NUMBER: Final = (int, _NOTHING)
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "run": (str,), "seq": (int,), "kind": (str,), "entry_id": (bytes,), "parent": _NUMBER,
    "term": (int,), "digest": (bytes,), "step": _TEXT, "step_index": _NUMBER, "type": _TEXT,
    "status": (str,), "at": (int,), "duration": (float, int, _NOTHING), "size": (int,),
    "flow": _TEXT, "thread": _TEXT, "owner": _TEXT, "meta": (str,), "body": (bytes,),
}  # fmt: skip
_good: Final[set[tuple[type, ...]]] = set()  # which columns are NULL: a few hundred at most


def checked(found: list[Entry]) -> list[Entry]:
    """The entries, if each value has the type of its column; else `CheckpointCorruptedError`."""
    for entry in found:
        types = tuple(map(type, entry))
        if types not in _good:
            _check(entry)
            _good.add(types)
    return found


def head_or_lost(head: Entry, row: RunHead | None = None) -> Entry:
    """A run's newest entry in a list; if it is damaged, what its row in the index says of it."""
    try:
        checked([head])
    except CheckpointCorruptedError as error:
        found = lost(head.run, error.seq or 0, error.digest or b"")
        if row is None:
            return found
        return found._replace(
            status=row.status, at=row.changed, flow=row.flow, thread=row.thread, owner=row.owner
        )
    return head


def _check(entry: Entry) -> None:
    for (name, types), value in zip(_TYPES.items(), entry, strict=True):
        if type(value) not in types:
            seq = entry.seq if type(entry.seq) is int else None
            error = CheckpointCorruptedError(entry.run, seq, f"its {name} can't be {value!r:.99}")
            error.digest = entry.digest if type(entry.digest) is bytes else b""
            raise error
