"""Appending LangGraph's checkpoints and writes to journals."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from holdfast.errors import SecondWriterError
from holdfast.integrations.langgraph.layout import (
    FLOW,
    SOURCES,
    CheckpointNote,
    WritesNote,
    dump_checkpoint,
    dump_opening,
    dump_writes,
)
from holdfast.integrations.langgraph.threads import Found
from holdfast.kernel.appending import (
    append,
    append_at_once,
    append_if,
    is_durable,
    known_tip,
    new_deadline,
)
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.kernel.ticket import Ticket
from holdfast.model import Entry, Kind, Status
from holdfast.store import NO_HEAD, Head

K = TypeVar("K")
V = TypeVar("V")

Opening = Callable[[], Draft]
"""Makes the entry that opens a run, to be; most runs are open."""

_KNOWN: Final = 1024  # checkpoints and runs that are remembered
_NOTHING: Final[frozenset[int]] = frozenset()


def checkpoint_draft(note: CheckpointNote, encoding: bytes) -> Draft:
    """The entry of a checkpoint, to be."""
    source, step = note.metadata.get("source"), note.metadata.get("step")
    return Draft(
        Kind.CHECKPOINT.value,
        Status.OPEN.value,
        encoding,
        type=source if source in SOURCES else None,
        step_index=step if type(step) is int and abs(step) < 1 << 62 else None,
        flow=FLOW,
        meta=dump_checkpoint(note),
    )


def writes_draft(note: WritesNote, encoding: bytes) -> Draft:
    """The entry of a task's writes, to be."""
    return Draft(Kind.RESULT.value, Status.OPEN.value, encoding, flow=FLOW, meta=dump_writes(note))


def opening_draft(thread: str, ns: str, origin: str = "") -> Draft:
    """The entry that opens the run of a namespace, perhaps as a fork of `origin`."""
    meta = dump_opening(thread, ns, origin)
    return Draft(Kind.OPEN.value, Status.OPEN.value, parent=None, flow=FLOW, meta=meta)


class Appender:
    """Appends to the journals of threads; thread-safe.

    Writes may arrive before the checkpoint that they belong to: with `durability="async"`,
    LangGraph does not wait for one before it submits the other. And a checkpoint may be put
    again. Such checkpoints list the writes that came before, so that whoever reads the newest
    checkpoint need not look for them. If `exclusive`, it appends only behind what it has read or
    written itself.
    """

    def __init__(self, core: Callable[[], Core], *, exclusive: bool) -> None:
        self._core = core
        self._exclusive = exclusive
        self._lock = threading.Lock()
        self._written: OrderedDict[tuple[str, str], set[int]] = OrderedDict()
        self._placed: OrderedDict[tuple[str, str], tuple[int, Collection[int]]] = OrderedDict()
        self._seen: OrderedDict[str, Head] = OrderedDict()

    def has_read(self, run: str, head: Head, found: Found | None) -> None:
        """Take note that a checkpoint was read when this was the head of the run."""
        with self._lock:
            if found is not None:
                key = (run, found.note.id)
                if key not in self._placed:
                    _remember(self._placed, key, (found.seq, found.note.early))
                _remember(self._written, key, {*found.seqs, *self._written.get(key, ())})
            if self._exclusive:
                _remember(self._seen, run, head)

    def put(
        self, run: str, opening: Opening, draft: Callable[[tuple[int, ...]], Draft], checkpoint: str
    ) -> Op[None]:
        """Append a checkpoint. `draft` makes its entry, given the seqs of the writes before it."""
        key = (run, checkpoint)
        listed: tuple[int, ...] = ()

        def compose() -> Draft:
            nonlocal listed
            listed = tuple(sorted(self._written.get(key, ())))
            return draft(listed)

        def place(seq: int) -> None:
            _remember(self._placed, key, (seq, listed))

        entry = yield from self._append(run, opening, compose, place)
        with self._lock:
            known = self._written.get(key, _NOTHING)
            missed = sorted(seq for seq in known if seq < entry.seq and seq not in listed)
        if missed:
            yield from self._note(run, opening, checkpoint, missed)

    def put_writes(self, run: str, opening: Opening, draft: Draft, note: WritesNote) -> Op[None]:
        """Append the writes of a task."""
        key = (run, note.of)

        def place(seq: int) -> None:
            _remember(self._written, key, {seq, *self._written.get(key, ())})

        entry = yield from self._append(run, opening, lambda: draft, place)
        with self._lock:
            seq, listed = self._placed.get(key, (-1, _NOTHING))
        if entry.seq < seq and entry.seq not in listed:
            yield from self._note(run, opening, note.of, [entry.seq])

    def _note(self, run: str, opening: Opening, checkpoint: str, seqs: list[int]) -> Op[None]:
        """Record where writes of a checkpoint are that it does not list itself."""
        note = WritesNote(checkpoint, "", also=tuple(seqs))
        draft = writes_draft(note, self._core().journals.encode([]))
        yield from self._append(run, opening, lambda: draft, lambda _: None)

    def _append(
        self,
        run: str,
        opening: Opening,
        compose: Callable[[], Draft],
        place: Callable[[int], None],
    ) -> Op[Entry]:
        """Append an entry, behind the opening if the run is new; `place` is called with its seq."""
        core = self._core()
        deadline = new_deadline(core)
        with self._lock:
            expected = self._seen.get(run) if self._exclusive else None
            draft = compose()
            ticket = None
            if expected is None or _is_at(core, run, expected):
                ticket = _at_once(core, run, opening, draft, deadline)
            if ticket is not None:
                entry = ticket.entries[-1]
                place(entry.seq)
                self._has_written(entry)
        if ticket is not None and (yield from is_durable(ticket)):
            return ticket.entries[-1]
        if ticket is not None and self._exclusive:
            raise SecondWriterError(run, ticket.entries[-1].seq)
        entry = yield from self._append_slowly(core, run, opening, draft, deadline)
        with self._lock:
            place(entry.seq)
            self._has_written(entry)
        return entry

    def _append_slowly(
        self, core: Core, run: str, opening: Opening, draft: Draft, deadline: float
    ) -> Op[Entry]:
        """Append an entry behind a head that must be read first."""
        tip = yield from known_tip(core, run, draft, deadline)
        if tip.exists and not self._exclusive:
            return (yield from append(core, run, draft))

        def decide(head: Entry | None) -> list[Draft]:
            with self._lock:
                expected = self._seen.get(run) if self._exclusive else None
            if expected is not None and expected != _head(head):
                raise SecondWriterError(run, -1 if head is None else head.seq)
            return [opening(), draft] if _head(head) == NO_HEAD else [draft]

        return (yield from append_if(core, run, decide))

    def _has_written(self, entry: Entry) -> None:
        if self._exclusive:
            _remember(self._seen, entry.run, (entry.seq, entry.digest))


def _at_once(
    core: Core, run: str, opening: Opening, draft: Draft, deadline: float
) -> Ticket | None:
    """Submit an entry without waiting, if the head is known; None if it is not."""
    tip = core.journals.tip(run)
    if tip is not None and not tip.exists and not core.journals.writer.full:
        if core.journals.owner is not None:
            return None  # another owner may have the id: that must be asked first
        return core.journals.extend(tip, [opening(), draft], deadline)
    return append_at_once(core, run, draft, deadline)


def _is_at(core: Core, run: str, expected: Head) -> bool:
    tip = core.journals.tip(run)
    return tip is not None and ((tip.seq, tip.digest) if tip.exists else NO_HEAD) == expected


def _head(head: Entry | None) -> Head:
    """Where a run ends; one that was deleted is none."""
    if head is None or head.status == Status.DELETED:
        return NO_HEAD
    return head.seq, head.digest


def _remember(known: OrderedDict[K, V], key: K, value: V) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > _KNOWN:
        known.popitem(last=False)
