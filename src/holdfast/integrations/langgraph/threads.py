"""Finding LangGraph's checkpoints and writes in journals. Everything here blocks.

The newest checkpoint is found from the head of its run. Others are found by their ids: the
entries of a run are listed once, without their states, and then only those that are new.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from holdfast.errors import CheckpointCorruptedError, RunMismatchError
from holdfast.integrations.langgraph.index import Index, Place
from holdfast.integrations.langgraph.layout import (
    FLOW,
    CheckpointNote,
    Typed,
    WritesNote,
    note_of,
    typed_writes,
)
from holdfast.kernel.core import Core
from holdfast.kernel.entries import is_live
from holdfast.kernel.playback import Playback
from holdfast.model import Entry, Kind, erases
from holdfast.operations.reading import outages_named

T = TypeVar("T")

_MOST_PLACES: Final = 200_000  # checkpoints and writes of all runs whose index is kept
_PER_CHECKPOINT: Final = 4  # entries to look for each of the newest ones in: it, and its writes
_NEAR: Final = 8  # checkpoints among which one is looked for before all are listed
_FAR: Final = 64  # entries between two wanted ones that are cheaper read than skipped
_PASS_STATES: Final = 32  # states that are put together in one pass
_PASS_BYTES: Final = 16 << 20


class Found(NamedTuple):
    """A checkpoint with its state, as it is stored, and the writes that belong to it."""

    seq: int
    note: CheckpointNote
    state: Any
    writes: list[Writes]
    seqs: list[int]  # of the writes


class Writes(NamedTuple):
    """What one call of `put_writes` stored."""

    note: WritesNote
    rows: list[tuple[int, str, Typed]]  # index, channel, value


class Threads:
    """Reads the journals of LangGraph's threads."""

    def __init__(self, core: Callable[[], Core]) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._indexes: OrderedDict[str, Index] = OrderedDict()
        self._sizes: dict[str, int] = {}  # of the indexes
        self._total = 0  # of the sizes

    @property
    def core(self) -> Core:
        """The checkpointer's core. Raises `StoreClosedError` once that is closed."""
        return self._core()

    def reading(self, run: str, read: Callable[[], T]) -> T:
        """What `read` returns; called again where others deleted what it was reading."""
        with outages_named(run):
            return self.core.journals.undisturbed(run, read)

    def head(self, run: str) -> Entry | None:
        """The newest entry of a run; None if there is no such run.

        Raises `RunMismatchError` for a run that is no thread of LangGraph's.
        """
        head = self.core.journals.checked_head(run)
        if head is None or erases(head):
            return None
        check_flow(head)
        return head

    def newest(self, head: Entry) -> Found | None:
        """The checkpoint that is current at this head, whatever the length of the run."""
        journals = self.core.journals
        run = head.run
        results: list[Entry] = []
        found: Entry | None = None
        at_head = head.kind == Kind.CHECKPOINT and is_live(head)  # then it is proved, and read
        for entry in (head,) if at_head else journals.branch_of(head):
            if entry.kind == Kind.CHECKPOINT:
                found = entry
                break
            results.append(entry)
        if found is None:
            return None
        note = note_of(found)
        if not isinstance(note, CheckpointNote):
            reason = "it is not a checkpoint of LangGraph's"
            raise CheckpointCorruptedError(run, found.seq, reason)
        state = journals.decoded(run, found.seq, journals.base_state(head, found))
        writes: dict[int, Writes] = {}
        more = set(note.early)
        for entry in reversed(results):
            said = note_of(entry)
            if isinstance(said, WritesNote) and said.of == note.id:
                writes[entry.seq] = self._writes(entry, said)
                more.update(said.also)
        for seq in more - writes.keys():
            early = self._writes_at(run, seq, note.id)
            if early is not None:
                writes[seq] = early
        seqs = sorted(writes)
        return Found(found.seq, note, state, [writes[seq] for seq in seqs], seqs)

    def _writes(self, entry: Entry, note: WritesNote) -> Writes:
        value = self.core.journals.value(entry.run, entry.seq, entry)
        try:
            return Writes(note, typed_writes(value))
        except ValueError as error:
            raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None

    def _writes_at(self, run: str, seq: int, of: str) -> Writes | None:
        """The writes at a seq, if they belong to this checkpoint: a fork has other seqs."""
        try:
            entry = self.core.journals.entry(run, seq)
        except CheckpointCorruptedError:
            head = self.core.journals.head_seq(run)
            if head is None or head < seq:
                return None
            raise
        note = None if entry is None else note_of(entry)
        if entry is None or not isinstance(note, WritesNote) or note.of != of:
            return None
        return self._writes(entry, note)

    def index(self, run: str) -> Index:
        """What the run holds by now."""
        with self._lock:
            known = self._indexes.get(run)
        found = self._extended(run, known) if known is not None else None
        found = found or self._built(run)
        with self._lock:
            self._indexes[run] = found
            self._indexes.move_to_end(run)
            self._total += len(found) - self._sizes.get(run, 0)
            self._sizes[run] = len(found)
            while self._total > _MOST_PLACES and len(self._indexes) > 1:
                self._total -= self._sizes.pop(self._indexes.popitem(last=False)[0])
        return found

    def index_with(self, run: str, name: str) -> Index:
        """What the run holds by now, or only its newest checkpoints if this one is among them."""
        found = self.recent(run, _NEAR)
        return self.index(run) if found is None or name not in found.places else found

    def recent(self, run: str, count: int) -> Index | None:
        """What the newest entries of a run hold, with so many checkpoints; None if all are needed.

        They are if the run is short, and if a rollback, a deletion or damage is among its newest
        entries, or checkpoints whose writes arrived before those.
        """
        with self._lock:
            if run in self._indexes:
                return None  # which takes less than to read the newest again
        most = _PER_CHECKPOINT * count + 1
        entries = self.core.journals.entries(run, newest_first=True, page=most)
        try:
            newest = list(islice(entries, most))[::-1]
        except CheckpointCorruptedError:
            return None
        if len(newest) < most or not all(map(is_live, newest)):
            return None
        check_flow(newest[-1])
        index = Index()
        index.add(newest)
        return index if len(index.places) >= count and index.has_all_writes() else None

    def _built(self, run: str) -> Index:
        index = Index()
        entries = list(self.core.journals.entries(run, damage=index.damages.append))
        if entries and not erases(entries[-1]):
            check_flow(entries[-1])
        index.add(entries)
        return index

    def _extended(self, run: str, known: Index) -> Index | None:
        """The index with what is new; None if it must be built again."""
        if known.head is None or known.damages:
            return None
        seq, digest = known.head
        news = self.core.journals.store.read(run, after=seq - 1, bodies=False)
        if not news or (news[0].seq, news[0].digest) != (seq, digest):
            return None
        if len(news) == 1:
            return known
        news = list(self.core.journals.entries(run, after=seq))
        if any(entry.kind in (Kind.TRIM, Kind.TOMBSTONE) for entry in news):
            return None  # they change what came before
        with self._lock:
            if known.head != (seq, digest):
                return None  # another thread was faster
            known.add(news)
        return known

    def at(self, run: str, index: Index, place: Place) -> Found | None:
        """The checkpoint at a place; None if it was deleted since."""
        return next(self.passing(run, index, [place]), None)

    def passing(
        self,
        run: str,
        index: Index,
        places: Iterable[Place],
        damage: Callable[[CheckpointCorruptedError], None] | None = None,
    ) -> Iterator[Found]:
        """The checkpoints at these places, newest first, a few at a time in one pass each.

        `damage` is called for those that can't be read, and the others follow; without it, the
        first one raises.
        """
        chunk: list[Place] = []
        weight = 0
        for place in places:
            far = bool(chunk) and chunk[-1].seq - place.seq > _FAR
            if chunk and (far or len(chunk) >= _PASS_STATES or weight > _PASS_BYTES):
                yield from self._pass(run, index, chunk, damage)
                chunk, weight = [], 0
            chunk.append(place)
            weight += place.size
        if chunk:
            yield from self._pass(run, index, chunk, damage)

    def _pass(
        self,
        run: str,
        index: Index,
        places: list[Place],
        damage: Callable[[CheckpointCorruptedError], None] | None,
    ) -> Iterator[Found]:
        try:
            found = self.reading(run, lambda: list(self._read(run, index, places)))
        except CheckpointCorruptedError as error:
            if damage is None:
                raise
            damage(error)  # perhaps of an entry between them, that the index does not know
        else:
            yield from found
            return
        for place in places if len(places) > 1 else ():
            yield from self._pass(run, index, [place], damage)

    def _read(self, run: str, index: Index, places: list[Place]) -> Iterator[Found]:
        journals = self.core.journals
        wanted = {place.seq for place in places}
        writes = {place.seq: index.writes_of(place) for place in places}
        states: dict[int, tuple[Entry, bytes]] = {}
        playback = Playback(journals)
        if len(places) == 1:
            entry = journals.entry(run, places[0].seq)
            if entry is not None:
                states[entry.seq] = entry, journals.chain(run, entry.seq, entry).encoding
        else:
            first, last = min(wanted), max(wanted)
            for entry in journals.entries(run, bodies=True, after=first - 1):
                if entry.seq > last:
                    break
                if entry.kind == Kind.CHECKPOINT and is_live(entry):
                    encoding = playback.encoding(entry)
                    if entry.seq in wanted and encoding is not None:
                        states[entry.seq] = entry, encoding
        rows = dict(self.written(run, [seq for seqs in writes.values() for seq in seqs]))
        for place in places:
            if place.seq not in states:
                continue
            entry, encoding = states[place.seq]
            note = note_of(entry)
            assert isinstance(note, CheckpointNote), "as the index found"
            state = journals.decoded(run, place.seq, encoding)
            seqs = [seq for seq in writes[place.seq] if seq in rows]
            yield Found(place.seq, note, state, [rows[seq] for seq in seqs], seqs)

    def written(self, run: str, seqs: Iterable[int]) -> Iterator[tuple[int, Writes]]:
        """The writes at these seqs, with their seqs, in order, as far as they are still there."""
        journals = self.core.journals
        for first, last, wanted in _stretches(sorted(seqs)):
            for entry in journals.entries(run, bodies=True, after=first - 1, page=last - first + 2):
                if entry.seq > last:
                    break
                note = note_of(entry) if entry.seq in wanted else None
                if isinstance(note, WritesNote):
                    yield entry.seq, self._writes(entry, note)


def check_flow(head: Entry) -> None:
    """Raise `RunMismatchError` for the head of a run that is no thread of LangGraph's."""
    if head.flow != FLOW:
        raise RunMismatchError(head.run, "flow", head.flow, FLOW)


def _stretches(seqs: list[int]) -> Iterator[tuple[int, int, set[int]]]:
    """Ranges that hold these seqs, none of which has a long gap."""
    stretch: list[int] = []
    for seq in seqs:
        if stretch and seq - stretch[-1] > _FAR // 4:
            yield stretch[0], stretch[-1], set(stretch)
            stretch = []
        stretch.append(seq)
    if stretch:
        yield stretch[0], stretch[-1], set(stretch)
