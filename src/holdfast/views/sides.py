"""Two runs, branches or checkpoints side by side: their steps aligned, and what differs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import RunInfo, to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import EVIDENCE, Meta
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError, InvalidIdError
from holdfast.kernel.entries import is_live, is_stub
from holdfast.kernel.pages import pass_by
from holdfast.kernel.playback import Branch, Playback
from holdfast.model import Entry, Kind, checkpoint_id, split_checkpoint_id
from holdfast.operations.reading import is_folded
from holdfast.views import runs, states, threads
from holdfast.views.differences import Differences
from holdfast.views.errors import NotFoundError

ROWS: Final = 400
"""Steps that are shown; equal ones that are folded do not count."""

READ: Final = 32 << 20
"""Bytes of values that are read to compare them; beyond, only their sizes are compared."""

LARGEST: Final = 8 << 20
"""Bytes of two states that are compared."""

_DEEPEST: Final = 20  # forks of forks
_UNREADABLE: Final = "Its newest entries are damaged; this is the newest that can be read."
_TOLD: Final = (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    InvalidIdError,
    NotFoundError,
)


class Done(NamedTuple):
    """A step of one side."""

    seq: int
    status: str
    took: float | None
    size: int
    content: int | None  # equal if the recorded values are; None if they were not read
    claims: str  # equal if the claims are


class Side(NamedTuple):
    """One side of a comparison."""

    text: str  # as it was asked for
    info: RunInfo | None = None
    seq: int | None = None  # of the checkpoint; None if the run has none
    began: datetime | None = None
    at: datetime | None = None
    version: str | None = None
    inputs: str | None = None  # a digest
    size: int = 0
    steps: tuple[tuple[str, Done], ...] = ()
    problem: str = ""  # why there is nothing to compare
    warning: str = ""  # what else is wrong with it

    @property
    def place(self) -> str:
        """RUN@SEQ, or as much of it as there is."""
        if self.info is None or self.seq is None:
            return self.text if self.info is None else self.info.run_id
        return checkpoint_id(self.info.run_id, self.seq)


class StepRow(NamedTuple):
    """A step, as each side did it."""

    name: str
    a: Done | None
    b: Done | None
    differs: tuple[str, ...]  # "status", "result", "evidence"; or "only a", "only b"


class Aligned(NamedTuple):
    """The steps of both sides, in order."""

    groups: list[tuple[bool, list[StepRow]]]  # whether they are equal, and the steps
    differing: int
    equal: int
    more: int  # differing steps that are not shown
    unread: bool  # whether values were compared by their sizes only


def find(cp: SyncCheckpointer, text: str) -> Side:
    """The side that a text names: RUN, or RUN@SEQ. What is missing or damaged is told."""
    if not text:
        return Side(text)
    try:
        info, seq = _named(cp, text)
        wanted = states.current(cp, info) if seq is None else states.select(cp, info, seq).seq
        side = _side(cp, text, info, wanted)
        newest = cp.core.journals.head_seq(info.run_id)
        if seq is None and newest is not None and newest > info.seq:
            side = side._replace(warning=_UNREADABLE)
        return side
    except _TOLD as error:
        return Side(text, problem=str(error))


def align(a: Side, b: Side) -> Aligned:
    """The steps of two sides, each with what it differs in."""
    unread = any(done.content is None for side in (a, b) for _, done in side.steps)
    found: list[tuple[bool, list[StepRow]]] = []
    counts = {True: 0, False: 0}
    for row in _rows(a.steps, b.steps):
        is_equal = not row.differs
        counts[is_equal] += 1
        if not is_equal and counts[False] > ROWS:
            continue
        if not found or found[-1][0] != is_equal:
            found.append((is_equal, []))
        found[-1][1].append(row)
    more = max(0, counts[False] - ROWS)
    return Aligned(found, counts[False], counts[True], more, unread)


def state_differences(cp: SyncCheckpointer, a: Side, b: Side) -> Differences | str:
    """How the states differ, or why they can't be compared."""
    if a.info is None or b.info is None:
        return ""
    if a.seq is None or b.seq is None:
        missing = a if a.seq is None else b
        return f"{missing.place} has no checkpoint yet"
    if a.size + b.size > LARGEST:
        return "the states are too large to compare here"
    try:
        old, new = (states.state_of(cp, s.info, s.seq) for s in (a, b))  # type: ignore[arg-type]
    except CheckpointCorruptedError as error:
        return str(error)
    return states.compared(a.info, old, new)


def _named(cp: SyncCheckpointer, text: str) -> tuple[RunInfo, int | None]:
    run, _, seq = text.rpartition("@")
    exact = cp.run(text)
    if exact is not None:
        return exact, None
    if run and seq.isascii() and seq.isdigit() and len(seq) <= 18:
        return runs.of_id(cp, run), int(seq)
    return runs.of_id(cp, text), None


def _side(cp: SyncCheckpointer, text: str, info: RunInfo, seq: int | None) -> Side:
    side = Side(text, info, seq, began=info.started_at)
    try:
        opening = cp.core.journals.opening(info.run_id)
        if opening is not None:
            meta = Meta(opening)
            side = side._replace(version=meta.flow_version, inputs=meta.inputs_hash)
    except CheckpointCorruptedError:
        pass  # what it says of these is lost
    if seq is None:
        return side
    found = cp.store.entries_at([(info.run_id, seq)])
    if not found:
        return side
    entry = found[0]
    weight = entry.size
    steps = tuple(_with_origin(cp, info, entry))
    if steps and is_folded(entry):
        weight = sum(done.size for _, done in steps)
    return side._replace(at=to_datetime(entry.at), size=weight, steps=steps)


def _with_origin(
    cp: SyncCheckpointer, info: RunInfo, end: Entry, depth: int = 0
) -> Iterator[tuple[str, Done]]:
    """The steps that led to a checkpoint, those before its run was forked included.

    A fork of a run that records results has copies of them; others begin with one checkpoint.
    """
    own = list(_steps(cp, info, end))
    if own and depth < _DEEPEST:
        place = _forked_from(cp, info.run_id, own[0][1].seq)
        origin = None if place is None else cp.run(place[0])
        before = [] if origin is None or place is None else cp.store.entries_at([place])
        if origin is not None and before:
            earlier = list(_with_origin(cp, origin, before[0], depth + 1))
            names = {name for name, _ in own}
            yield from (step for step in earlier[:-1] if step[0] not in names)
    yield from own


def _forked_from(cp: SyncCheckpointer, run: str, seq: int) -> tuple[str, int] | None:
    """The checkpoint of another run that this one is a copy of."""
    found = cp.store.entries_at([(run, seq)])
    try:
        if found and found[0].kind == Kind.CHECKPOINT:
            origin = Meta(found[0]).origin
            return None if origin is None else split_checkpoint_id(origin)
    except (CheckpointCorruptedError, InvalidIdError):
        pass
    return None


def _steps(cp: SyncCheckpointer, info: RunInfo, end: Entry) -> Iterator[tuple[str, Done]]:
    """The steps that led to a checkpoint, oldest first, each named once."""
    journals = cp.core.journals
    branch = Branch(journals, end)
    counts: Counter[str] = Counter()
    playback = Playback(journals)
    light = end.size and _is_light(cp, end)
    for entry in journals.entries(info.run_id, bodies=bool(light), damage=pass_by):
        if entry.seq > end.seq:
            return
        if entry.seq not in branch or not is_live(entry) or is_stub(entry):
            continue
        name = states.name_of(entry, is_thread=info.flow == threads.FLOW)
        counts[name] += 1
        if counts[name] > 1:
            name = f"{name} ({counts[name]})"
        content: int | None = None
        if light:
            try:
                content = hash(playback.encoding(entry))
            except CheckpointCorruptedError:
                content = None
        yield name, _done(entry, content)


def _is_light(cp: SyncCheckpointer, end: Entry) -> bool:
    """Whether all values up to a checkpoint are few enough bytes to be read."""
    with suppress(CheckpointCorruptedError):
        if cp.store.stats(end.run).state_bytes <= READ:  # of the whole run, without reading it
            return True
    every = cp.core.journals.entries(end.run, damage=pass_by)
    return sum(entry.size for entry in every if entry.seq <= end.seq) <= READ


def _done(entry: Entry, content: int | None) -> Done:
    claims = ""
    status = entry.status if entry.status in ("failed", "paused") else "completed"
    if EVIDENCE in entry.meta:
        try:
            claims = repr(_claimed(Meta(entry).evidence))
        except CheckpointCorruptedError:
            claims = "damaged"
    return Done(entry.seq, status, entry.duration, entry.size, content, claims)


def _claimed(packs: Sequence[Any]) -> Any:
    """What packs claim, without what was observed of it."""
    return [pack.get("evidence_list", pack) if isinstance(pack, dict) else pack for pack in packs]


def _rows(a: Sequence[tuple[str, Done]], b: Sequence[tuple[str, Done]]) -> Iterator[StepRow]:
    """The steps of both sides: those that both have are beside each other, in the order of a."""
    left, right = dict(a), dict(b)
    names = list(right)
    place = {name: at for at, name in enumerate(names)}
    done: set[str] = set()
    at = 0
    for name, mine in a:
        if name in right:
            while at < place[name]:
                if names[at] not in left and names[at] not in done:
                    done.add(names[at])
                    yield StepRow(names[at], None, right[names[at]], ("only b",))
                at += 1
            yield _row(name, mine, right[name])
        else:
            yield StepRow(name, mine, None, ("only a",))
    for name in names[at:]:
        if name not in left and name not in done:
            yield StepRow(name, None, right[name], ("only b",))


def _row(name: str, a: Done, b: Done) -> StepRow:
    differs = []
    if a.status != b.status:
        differs.append("status")
    if a.size != b.size or (a.content != b.content and None not in (a.content, b.content)):
        differs.append("result")
    if a.claims != b.claims:
        differs.append("evidence")
    return StepRow(name, a, b, tuple(differs))
