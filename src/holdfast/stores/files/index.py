"""The heads index of a file store: what each run's directory said when it was last looked at.

No writer keeps it, so no save can fail by it or forget it. Whoever asks looks for directories that
changed since, and reads their new entries. The file `.heads` keeps what was found for other
processes. It may be old, damaged or missing: then more directories are read.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Lock
from typing import Final

from holdfast.errors import CheckpointCorruptedError, HoldfastError
from holdfast.heads import Position, RunHead, Tally, change_of, fold, glimpse
from holdfast.model import HIDDEN, Entry, Kind, Status
from holdfast.scanning import readable
from holdfast.seams import on_fork
from holdfast.store import PAGE, RunFilter, Store
from holdfast.stores._shared.rows import Rows
from holdfast.stores.files import format as form
from holdfast.stores.files import run as journal
from holdfast.stores.files.changes import Stamp, directories, stamp_of
from holdfast.stores.files.heads_file import Known, read_heads, write_heads
from holdfast.stores.files.root import Root, opened

_LOOK_SECONDS: Final = 5.0
"""After so long directories are looked at although nobody said that one has changed."""

_WORTH_KEEPING: Final = 500
"""After so many new entries were read, what was found is kept for others."""

_DAMAGED: Final = b"?"
"""In place of the last trim of a run that could not be read: all of it is read again."""

Choose = Callable[[list[int]], list[int]]


class IndexedFileStore(Store):
    """What a `FileStore` answers from its index."""

    _root: Root

    def __init__(self) -> None:
        self._index = _Index()
        self._renew_index_lock()
        on_fork(self._renew_index_lock)

    @abstractmethod
    def _snapshot(self, name: str, choose: Choose, *, bodies: bool) -> list[tuple[Entry, int]]:
        """Entries and their bodies' sizes, as of one moment."""

    @abstractmethod
    def _readable(self, run: str, choose: Choose) -> list[tuple[Entry, int]]:
        """Entries and the sizes of their bodies, chosen from those that can be read."""

    @abstractmethod
    def _attempt(self) -> AbstractContextManager[object]:
        """Translate errors."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raise `StoreClosedError` once it is closed."""

    def listed(
        self,
        where: RunFilter = RunFilter(),
        *,
        before: Position | None = None,
        limit: int = PAGE,
    ) -> list[tuple[RunHead, Entry]]:
        with self._asked() as index:
            return index.rows.listed(where, before, limit, self._last)

    def due(
        self, now: int, *, flows: Collection[str] | None = None, limit: int = PAGE
    ) -> list[RunHead]:
        with self._asked() as index:
            return index.rows.due(now, flows, limit)

    def holders(self) -> dict[str, int]:
        with self._asked() as index:
            return index.rows.holders()

    def counts(self, where: RunFilter = RunFilter()) -> dict[str, int]:
        with self._asked() as index:
            return index.rows.counts(where, self._last)

    def row(self, run: str) -> RunHead | None:
        with self._asked() as index:
            return index.rows.get(run)

    def tally(self, since: int, until: int, *, flow: str | None = None) -> list[Tally]:
        with self._asked() as index:
            return index.rows.tally(since, until, flow=flow)

    def rebuild(self, *, write: bool = True) -> int:
        wrong = 0
        with self._asked() as index:
            for name, known in index.known.items():
                row = self._folded(known.run) if known.run else None
                if known.run and row != index.rows.get(known.run):
                    wrong += 1
                    if write:
                        index.known[name] = known._replace(row=row)
                        index.rows.put(known.run, row)
            if write:
                self._keep(index)
        return wrong

    def _close_index(self) -> None:
        with self._index_lock:
            if self._index.unsaved:
                self._keep(self._index)

    def _renew_index_lock(self) -> None:
        self._index_lock = Lock()

    @contextmanager
    def _asked(self) -> Iterator[_Index]:
        """The index, as the directories are now."""
        with self._attempt(), self._index_lock:
            self._check_open()
            index = self._index
            if not index.loaded:
                index.load(*read_heads(self._root))
            changes = self._root.changes()
            late = time.monotonic() - index.looked > _LOOK_SECONDS
            if late or changes != index.changes:
                self._look(index)
                index.changes, index.looked = changes, time.monotonic()
                if index.unsaved >= _WORTH_KEEPING:
                    self._keep(index)
            yield index

    def _look(self, index: _Index) -> None:
        """Read what is new in the directories that changed, and forget those that are gone."""
        with self._root.open() as root:
            names = directories(root)
            for name in names:
                with suppress(FileNotFoundError):
                    known = index.known.get(name)
                    stamp = stamp_of(name, root, known.stamp if known else None)
                    if known is None or known.stamp != stamp:
                        self._update(index, root, name, stamp)
                    index.known[name] = index.known[name].settled()
            for name in index.known.keys() - set(names):
                index.forget(name)

    def _update(self, index: _Index, root: int, name: str, stamp: Stamp) -> None:
        """Read what is new in one directory. The stamp is from before that."""
        known = index.known.get(name)
        if known is None or not known.run:
            known = Known.unread(_run_of(name, root))
        index.known[name] = known = known._replace(stamp=stamp)
        if not known.run or known.run.startswith(HIDDEN):
            return
        try:
            with opened(name, root) as directory:
                thinned = journal.last_thinned(directory)
            # Without a row, what was deleted may have hidden it.
            whole = thinned != known.thinned or index.rows.get(known.run) is None
            entries = self._entries(known.run, 0 if whole else known.seq)
            if not whole and [(e.seq, e.digest) for e in entries[:1]] != [known[2:4]]:
                whole, entries = True, self._entries(known.run, 0)
        except CheckpointCorruptedError:
            row = self._folded(known.run)
            index.rows.put(known.run, row)
            index.known[name] = known._replace(row=row, thinned=_DAMAGED)
            return
        fresh = [entry for entry in entries if entry.seq > known.seq]
        for entry in fresh:
            left = entry.status != Status.DELETED or entry.kind == Kind.TOMBSTONE
            if left and (change := change_of([entry])):
                index.rows.change(change)
        if whole:
            index.rows.put(known.run, fold(entries))
        head = entries[-1] if entries else None
        index.unsaved += 1 + len(fresh)
        index.known[name] = known._replace(
            seq=head.seq if head else -1,
            digest=head.digest if head else b"",
            thinned=thinned,
            row=index.rows.get(known.run),
        )

    def _entries(self, run: str, first: int) -> list[Entry]:
        """The run's entries from a seq on, without bodies."""

        def choose(seqs: list[int]) -> list[int]:
            return [seq for seq in seqs if seq >= first]

        return [entry for entry, _ in self._snapshot(run, choose, bodies=False)]

    def _folded(self, run: str) -> RunHead | None:
        """The row of a run from all its entries; of a damaged one, as far as they can be read."""
        entries, damaged = readable(self, run)
        head = self._last(run) if damaged else None
        return fold(entries) or (head and glimpse(head))

    def _last(self, run: str) -> Entry | None:
        with suppress(CheckpointCorruptedError):
            for head, _ in self._readable(run, lambda seqs: seqs[-1:]):
                return head
        return None

    def _keep(self, index: _Index) -> None:
        """Write `.heads`. Who can't does without."""
        with suppress(OSError, HoldfastError, TypeError):
            write_heads(self._root, index.known, index.rows.statistics())
            index.unsaved = 0


class _Index:
    """What is known of all directories."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.known: dict[str, Known] = {}
        self.loaded = False
        self.unsaved = 0
        self.looked = float("-inf")
        self.changes = b""

    def load(self, known: dict[str, Known], statistics: list[Tally]) -> None:
        """Begin with what another process has found."""
        self.loaded = True
        self.known = known
        self.rows.add(statistics)
        for each in known.values():
            if each.row is not None:
                self.rows.put(each.run, each.row)

    def forget(self, name: str) -> None:
        """A directory is gone, or can't be read."""
        self.rows.put(self.known.pop(name).run, None)
        self.unsaved += 1


def _run_of(name: str, root: int) -> str:
    """The run of a directory; empty if it is not one, or can't be known."""
    with suppress(CheckpointCorruptedError):
        return (journal.run_in(name, root) if form.is_cut(name) else form.run_of(name)) or ""
    return ""
