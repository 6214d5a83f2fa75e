"""One entry of a journal: what it says of itself, and its value."""

from typing import Any, Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec import readable
from holdfast.codec.meta import Meta
from holdfast.codec.redaction import redacted
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.pages import pass_by
from holdfast.model import Entry, Kind
from holdfast.views.errors import NotFoundError
from holdfast.views.legible import Text, legible, preview

KINDS: Final = tuple(kind.value for kind in Kind if kind not in (Kind.MEMBER, Kind.VERDICT))
"""What an entry of a run can be."""

LARGE: Final = 2 << 20
"""Bytes of a value that is not shown with its entry: it can be downloaded."""


class EntryDetail(NamedTuple):
    """What can be read of an entry."""

    seq: int
    entry: Entry | None
    damage: str  # what is wrong with it, or with its value; empty if nothing is
    facts: dict[str, Any]  # by name, for people
    meta: Any  # its metadata, legible
    value: Text | None  # None if it has none, or a large one


def look(cp: SyncCheckpointer, run: str, seq: int) -> EntryDetail:
    """An entry of a run. Damage is reported in the result. Raises `NotFoundError` if there is none."""
    journals = cp.core.journals
    damage = ""
    try:
        entry = journals.entry(run, seq)
    except CheckpointCorruptedError as error:
        damage, entry = error.reason, error.entry or _stored(cp, run, seq)
    else:
        entry = entry or _stored(cp, run, seq)
        if entry is None:
            raise NotFoundError(f"run {run!r} has no entry {seq}")
    if entry is None:
        return EntryDetail(seq, None, damage, {}, None, None)
    meta: Any = None
    value: Text | None = None
    try:
        meta = legible(dict(Meta(entry).fields))
        if not damage and 0 < entry.size <= LARGE:
            value = preview(value_of(cp, entry))
    except CheckpointCorruptedError as error:
        damage = damage or error.reason
    return EntryDetail(seq, entry, damage, _facts(entry), meta or None, value)


def value_of(cp: SyncCheckpointer, entry: Entry) -> Any:
    """The value of an entry in JSON's form. Raises `CheckpointCorruptedError`."""
    return readable.to_json(cp.core.journals.value(entry.run, entry.seq, as_data=True))


def value_at(cp: SyncCheckpointer, run: str, seq: int) -> Any:
    """The value of the entry at a seq, without secrets.

    Raises `NotFoundError` if it has none, and `CheckpointCorruptedError`.
    """
    entry = cp.core.journals.entry(run, seq)
    if entry is None or not entry.size:
        raise NotFoundError(f"the entry {seq} of run {run!r} has no value")
    return redacted(value_of(cp, entry))


def last_good(cp: SyncCheckpointer, run: str, before: int) -> int | None:
    """The newest checkpoint before a damaged entry that loads; None if none of the next few does."""
    tried = 0
    for info in cp.iter_checkpoints(run, after=before):
        if info.damage:
            continue
        tried += 1
        try:
            if cp.load(run, seq=info.seq) is not None:
                return info.seq
        except CheckpointCorruptedError:
            pass
        if tried == _TRIED:
            break
    return None


_TRIED: Final = 5


def _stored(cp: SyncCheckpointer, run: str, seq: int) -> Entry | None:
    """What is left of an entry that was deleted, or can't be proved."""
    found = cp.core.journals.entries(run, after=seq - 1, page=1, damage=pass_by)
    entry = next(found, None)
    return entry if entry is not None and entry.seq == seq else None


def _facts(entry: Entry) -> dict[str, Any]:
    named = {
        "status": entry.status,
        "type": entry.type,
        "step": entry.step,
        "index": entry.step_index,
        "at": to_datetime(entry.at),
        "builds on": None if entry.parent is None else f"@{entry.parent}",
        "term": f"@{entry.term}",
        "flow": entry.flow,
        "thread": entry.thread,
        "owner": entry.owner,
        "digest": entry.digest.hex(),
    }
    return {name: value for name, value in named.items() if value is not None}
