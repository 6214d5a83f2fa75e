"""The checkpoints of a run, and the state at each: before, after, and what changed."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import Checkpoint, CheckpointInfo, RunInfo, to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec import readable
from holdfast.codec.redaction import redacted
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.kernel.entries import is_live, state_seq
from holdfast.kernel.pages import pass_by
from holdfast.kernel.playback import Branch
from holdfast.model import CARRY_STATE, Entry, Kind, checkpoint_id
from holdfast.operations.diff import Change, diff_values
from holdfast.operations.reading import is_folded, newest_readable
from holdfast.views import threads
from holdfast.views.differences import Differences, differences
from holdfast.views.legible import Field, at_pointer, escaped, fields_of, preview, text_of

FIELDS: Final = 100
"""Keys of a state that are shown at once."""

LARGE: Final = 2 << 20
"""Bytes of states that are not read together with a page, but for it later."""

_INTERNAL: Final = ("__", "branch:")


class Row(NamedTuple):
    """A checkpoint in a list."""

    seq: int
    name: str  # the step, or what else there is to call it
    at: datetime
    took: float | None
    size: int
    status: str
    is_current: bool  # False where a rollback left it behind
    damage: str | None


class Selected(NamedTuple):
    """One checkpoint: what is before it, and how much there is to read."""

    seq: int
    entry: Entry | None  # None if it can't be read
    before: int | None  # the seq of the checkpoint that it builds on
    weight: int  # bytes of the states to compare
    damage: str = ""

    @property
    def is_large(self) -> bool:
        """Whether a page should not wait for it."""
        return self.weight > LARGE


class Fields(NamedTuple):
    """The parts of a state, as far as a page shows them."""

    fields: list[Field]
    total: int
    start: int  # the number of the first of them


def rows(
    cp: SyncCheckpointer, info: RunInfo, *, after: int | None = None, limit: int = 100
) -> tuple[list[Row], bool]:
    """Checkpoints of a run, newest first, and whether there are older ones.

    Give the last `seq` as `after` for the next page.
    """
    is_thread = info.flow == threads.FLOW
    listed = cp.iter_checkpoints(info.run_id, after=after)
    wanted = (one for one in listed if not is_thread or one.damage or _is_checkpoint(one.entry))
    found = list(islice(wanted, limit + 1))
    branch = _branch(cp, info.run_id, found[-1].seq - 1 if found else None)
    shown = [_row(one, branch, is_thread=is_thread) for one in found[:limit]]
    return shown, len(found) > limit


def current(cp: SyncCheckpointer, info: RunInfo) -> int | None:
    """The seq of the run's current checkpoint, whether or not it can be read."""
    if info.flow == threads.FLOW:
        place = threads.newest(cp, info.run_id)
        return None if place is None else int(place.rpartition("@")[2])
    head = newest_readable(cp.core.journals, info.run_id)
    return None if head is None else state_seq(head)


def select(cp: SyncCheckpointer, info: RunInfo, seq: int) -> Selected:
    """The checkpoint at a seq. Damage is reported in the result.

    Raises `CheckpointNotFoundError` if there is none.
    """
    journals = cp.core.journals
    try:
        entry = journals.entry(info.run_id, seq)
    except CheckpointCorruptedError as error:
        return Selected(seq, None, None, 0, str(error))
    if entry is None or entry.kind not in CARRY_STATE:
        raise CheckpointNotFoundError(info.run_id, checkpoint_id(info.run_id, seq))
    if info.flow == threads.FLOW:
        return _of_thread(cp, entry)
    before = entry.parent
    weight = entry.size if is_folded(entry) else entry.size + _size_at(cp, info.run_id, before)
    return Selected(seq, entry, before, weight)


def change(cp: SyncCheckpointer, info: RunInfo, chosen: Selected) -> Differences:
    """What the step of a checkpoint changed. Raises `CheckpointCorruptedError`."""
    entry = chosen.entry
    assert entry is not None, "it can be read"
    if info.flow != threads.FLOW and is_folded(entry):
        return _new_result(cp, entry)
    new = state_of(cp, info, chosen.seq)
    old: Any = {} if isinstance(new, dict) else None
    if chosen.before is not None:
        old = state_of(cp, info, chosen.before)
    return compared(info, old, new)


def compared(info: RunInfo, old: Any, new: Any) -> Differences:
    """How two states of a run differ, or of two runs of a flow."""
    found = diff_values(old, new, "before", "after")
    is_thread = info.flow == threads.FLOW
    if is_thread:
        told = (change for change in found.changes if not _is_control(change))
        found = found._replace(changes=tuple(told))
    return differences(found, old, messages=is_thread)


def _is_control(change: Change) -> bool:
    """Whether it is about a channel by which LangGraph passes control, and that has no value."""
    name = str(change.path[0]) if change.path else ""
    return name.startswith(_INTERNAL) and not change.old and not change.new


def fields(cp: SyncCheckpointer, info: RunInfo, seq: int, *, start: int = 0) -> Fields:
    """The state at a checkpoint, part by part. Raises `CheckpointCorruptedError`."""
    entry = cp.core.journals.entry(info.run_id, seq)
    if entry is not None and info.flow != threads.FLOW and is_folded(entry):
        return _results(cp, entry, start)
    found, total = fields_of(_tree(cp, info, seq), start=start, most=FIELDS)
    return Fields(found, total, start)


def value(cp: SyncCheckpointer, info: RunInfo, seq: int, pointer: str) -> Any:
    """A part of the state at a checkpoint, without secrets.

    Raises `LookupError` if it has none there.
    """
    entry = cp.core.journals.entry(info.run_id, seq)
    first, _, rest = pointer[1:].partition("/")
    if entry is not None and first and info.flow != threads.FLOW and is_folded(entry):
        for result in _results_of(cp, entry):
            if escaped(result.step) == first:
                read = cp.core.journals.value(result.run, result.seq, as_data=True)
                whole = redacted({str(result.step): readable.to_json(read)})
                return at_pointer(whole, f"/{first}/{rest}" if rest else f"/{first}")
        raise LookupError(pointer)
    return at_pointer(redacted(_tree(cp, info, seq)), pointer)


def state_of(cp: SyncCheckpointer, info: RunInfo, seq: int) -> Any:
    """The state at a checkpoint; of a LangGraph thread, its channels.

    Raises `CheckpointNotFoundError` and `CheckpointCorruptedError`.
    """
    found = _load(cp, info, seq)
    channels = threads.channels_of(found)
    return found.state if channels is None else channels


def _tree(cp: SyncCheckpointer, info: RunInfo, seq: int) -> Any:
    """The same in JSON's form."""
    found = _load(cp, info, seq)
    channels = threads.channels_of(found)
    return readable.to_json(found.state) if channels is None else channels


def _load(cp: SyncCheckpointer, info: RunInfo, seq: int) -> Checkpoint:
    found = cp.load(info.run_id, seq=seq)
    if found is None:
        raise CheckpointNotFoundError(info.run_id, checkpoint_id(info.run_id, seq))
    return found


def name_of(entry: Entry, *, is_thread: bool) -> str:
    """The step of a checkpoint, or what else there is to call it."""
    if not is_thread:
        return entry.step or entry.type or "saved"
    if entry.type is None:
        return "writes of a task"
    return f"{entry.type} {'' if entry.step_index is None else entry.step_index}".strip()


def before(cp: SyncCheckpointer, info: RunInfo, seq: int) -> Row | None:
    """The newest checkpoint before a seq, if it can be read."""
    found, _ = rows(cp, info, after=seq, limit=1)
    return next((row for row in found if not row.damage), None)


def _branch(cp: SyncCheckpointer, run: str, after: int | None) -> Branch | None:
    """Which of the entries behind a seq led to where the run is now."""
    head = newest_readable(cp.core.journals, run)
    return None if head is None else Branch(cp.core.journals, head, after)


def _row(info: CheckpointInfo, branch: Branch | None, *, is_thread: bool) -> Row:
    entry = info.entry
    return Row(
        entry.seq,
        name_of(entry, is_thread=is_thread),
        to_datetime(entry.at),
        entry.duration,
        entry.size,
        info.status,
        branch is not None and entry.seq in branch,
        info.damage,
    )


def _is_checkpoint(entry: Entry) -> bool:
    return entry.kind == Kind.CHECKPOINT


def _of_thread(cp: SyncCheckpointer, entry: Entry) -> Selected:
    threads.at(cp, checkpoint_id(entry.run, entry.seq))
    branch = cp.core.journals.branch_of(entry, damage=pass_by)
    before = next((e for e in branch if _is_checkpoint(e) and e.seq < entry.seq), None)
    weight = entry.size + (0 if before is None else before.size)
    return Selected(entry.seq, entry, None if before is None else before.seq, weight)


def _size_at(cp: SyncCheckpointer, run: str, seq: int | None) -> int:
    if seq is None:
        return 0
    found = cp.store.entries_at([(run, seq)])
    return found[0].size if found else 0


def _results_of(cp: SyncCheckpointer, entry: Entry) -> list[Entry]:
    """The results that are the state at one of them, oldest first, without bodies."""
    branch = Branch(cp.core.journals, entry)
    found: dict[str | None, Entry] = {}
    for one in cp.core.journals.entries(
        entry.run, newest_first=True, after=entry.seq + 1, damage=pass_by
    ):
        if one.seq not in branch or not is_live(one):
            continue
        if one.kind == Kind.CHECKPOINT:
            break
        found.setdefault(one.step, one)
    return list(found.values())[::-1]


def _new_result(cp: SyncCheckpointer, entry: Entry) -> Differences:
    """What a result adds to the dict of results, or changes in it."""
    journals = cp.core.journals
    step = str(entry.step)
    new = {step: journals.value(entry.run, entry.seq, as_data=True)}
    parents = [] if entry.parent is None else list(_before(cp, entry))
    known = {str(one.step): one for one in parents}
    old: dict[str, Any] = {}
    if step in known:
        old = {step: journals.value(entry.run, known[step].seq, as_data=True)}
    found = diff_values(old, new, "before", "after")
    return differences(found, dict.fromkeys(known))


def _before(cp: SyncCheckpointer, entry: Entry) -> Iterator[Entry]:
    found = cp.store.entries_at([(entry.run, entry.parent)] if entry.parent is not None else [])
    if found and is_live(found[0]):
        yield from _results_of(cp, found[0])


def _results(cp: SyncCheckpointer, entry: Entry, start: int) -> Fields:
    results = _results_of(cp, entry)
    found = []
    for one in results[start : start + FIELDS]:
        name = str(one.step)
        place = f"/{escaped(name)}"
        try:
            read = cp.core.journals.value(one.run, one.seq, as_data=True)
            text = preview(readable.to_json(read), name, place)
        except CheckpointCorruptedError as error:
            text = text_of(f"damaged: {error.reason}")
        found.append(Field(name, text))
    return Fields(found, len(results), start)
