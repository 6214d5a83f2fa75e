"""Where LangGraph's checkpoints and writes are in a run, by their ids."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from holdfast.errors import CheckpointCorruptedError
from holdfast.integrations.langgraph.layout import CheckpointNote, WritesNote, note_of
from holdfast.kernel.entries import is_live
from holdfast.model import CARRY_STATE, Entry, erases
from holdfast.store import NO_HEAD, Head


class Place(NamedTuple):
    """Where a checkpoint is in its run."""

    seq: int
    id: str
    parent: str | None
    has: tuple[str, ...] | None
    size: int
    entry: Entry  # without its body

    @property
    def first(self) -> int:
        """The seq of its first entry: writes that it lists arrived before it."""
        note = note_of(self.entry, metadata=False)
        return min((self.seq, *note.early)) if isinstance(note, CheckpointNote) else self.seq

    @property
    def metadata(self) -> dict[str, Any]:
        """LangGraph's metadata of the checkpoint."""
        note = note_of(self.entry)
        assert isinstance(note, CheckpointNote), "others have no place"
        return dict(note.metadata)


class Index:
    """What one run holds, by LangGraph's ids."""

    def __init__(self) -> None:
        self.head: Head | None = None  # how far it goes
        self.position: Head = NO_HEAD  # the same, unless the run was deleted
        self.places: dict[str, Place] = {}
        self.writes: dict[str, list[int]] = {}  # by checkpoint: the seqs of its writes
        self._named: dict[str, set[int]] = {}  # and those of which notes say that they came early
        self.damages: list[CheckpointCorruptedError] = []
        self._lock = threading.RLock()  # one thread may list what another one adds to
        self._parents: dict[int, int | None] = {}
        self._current: int | None = None  # the seq of the current state
        self._left: frozenset[int] | None = frozenset()  # what rollbacks left; None: to be found

    def __len__(self) -> int:
        return len(self._parents)

    def add(self, entries: Iterable[Entry]) -> None:
        """Take note of the next entries."""
        with self._lock:
            for entry in entries:
                self._add(entry)

    def _add(self, entry: Entry) -> None:
        self.head = entry.seq, entry.digest
        self.position = NO_HEAD if erases(entry) else self.head
        if entry.kind in CARRY_STATE:
            self._parents[entry.seq] = entry.parent
            if is_live(entry):
                self._current = entry.seq
        elif entry.parent != self._current:
            self._current, self._left = entry.parent, None
        note = note_of(entry, metadata=False)
        if isinstance(note, CheckpointNote):
            place = Place(entry.seq, note.id, note.parent, note.has, entry.size, entry)
            self.places.pop(note.id, None)  # one that is put again is the newest
            self.places[note.id] = place
            if note.early:
                self._named.setdefault(note.id, set()).update(note.early)
        elif isinstance(note, WritesNote):
            self.writes.setdefault(note.of, []).append(entry.seq)
            if note.also:
                self._named.setdefault(note.of, set()).update(note.also)

    def has_all_writes(self) -> bool:
        """Whether the writes that arrived before their checkpoints are here, too."""
        return all(seqs <= set(self.writes.get(of, ())) for of, seqs in self._named.items())

    @property
    def left_behind(self) -> frozenset[int]:
        """The seqs of what rollbacks left behind."""
        with self._lock:
            if self._left is None:
                current: set[int] = set()
                seq = self._current
                while seq is not None and seq not in current:
                    current.add(seq)
                    seq = self._parents.get(seq)
                self._left = frozenset(self._parents.keys() - current)
            return self._left

    def all_places(self) -> list[Place]:
        """The checkpoints, oldest first, with those that a rollback left behind."""
        with self._lock:
            return list(self.places.values())

    def newest_first(self) -> Iterator[Place]:
        """The checkpoints, without those that a rollback left behind."""
        with self._lock:
            left, places = self.left_behind, self.all_places()
        return (place for place in reversed(places) if place.seq not in left)

    def newest(self) -> Place | None:
        """The current checkpoint."""
        with self._lock:
            left = self.left_behind
            places = reversed(self.places.values())
            return next((place for place in places if place.seq not in left), None)

    def writes_of(self, place: Place) -> list[int]:
        """The seqs of a checkpoint's writes, without those that a rollback left behind."""
        with self._lock:
            found, left = list(self.writes.get(place.id, ())), self.left_behind
        return [seq for seq in found if seq not in left] if place.seq not in left else found

    def check(self, places: Iterable[Place] = ()) -> None:
        """Raise if an entry is damaged that may belong to one of these checkpoints, or to any.

        Nothing tells what a damaged entry held. The writes of a checkpoint come after it, but for
        those that it lists.
        """
        first = min((place.first for place in places), default=0)
        for error in self.damages:
            if error.seq is None or error.seq >= first:
                raise error
