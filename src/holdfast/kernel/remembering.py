"""Heads that are remembered outside of the store, so that a rewound history is noticed.

Digests prove that nothing was changed in between. That the end is missing, or that all of it was
replaced by something older, can be told only by who was there before. So what this process saved,
or has seen, is remembered: in memory at once, and in a file a moment later.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from holdfast.errors import CheckpointCorruptedError, HeadsFileError, HistoryRewoundError
from holdfast.kernel.core import Core
from holdfast.kernel.entries import EntryReader
from holdfast.kernel.known_heads import Found, KnownHead, find
from holdfast.kernel.owner_view import owner_view
from holdfast.kernel.store_id import known_store_id, store_id
from holdfast.kernel.ticket import Ticket
from holdfast.logs import logger
from holdfast.model import STORE_JOURNAL, Entry, is_passing
from holdfast.seams import Clock, on_fork
from holdfast.urls import default_heads_file, local_path

if TYPE_CHECKING:
    from holdfast.kernel.heads_file import HeadsFile

log: Final = logger()

EVERY: Final = 1.0  # seconds between two writes to the file
_IDLE: Final = 10  # writes without anything to write; then the thread ends


class RememberedHeads:
    """What is remembered of the runs of one store. May be shared by threads."""

    def __init__(
        self, file: HeadsFile, address: str, identify: Callable[[], str], clock: Clock
    ) -> None:
        self.file = file
        self._address = _place(address)
        self._identify = identify  # gives the store an id if it has none
        self._clock = clock
        self._id: str | None = None
        self._reset()
        on_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._bell = threading.Event()
        self._new: dict[str, KnownHead] = {}  # not in the file yet
        self._thread: threading.Thread | None = None
        self._told = False

    def checked(
        self, journals: EntryReader, run: str, read: Callable[[str], Entry | None]
    ) -> Entry | None:
        """The head that `read` gives, compared with what is remembered. Blocks.

        Raises `HistoryRewoundError`, and as `read` does.
        """
        if not _is_remembered(run):
            return read(run)
        known = self.head(journals, run)
        try:
            head = read(run)
        except CheckpointCorruptedError:
            self.compare(journals, known, None)
            raise
        self.compare(journals, known, head)
        return head

    def recall(self, journals: EntryReader, run: str) -> None:
        """Compare a run with what is remembered of it, whatever its head is now. Blocks."""
        self.compare(journals, self.head(journals, run), None)

    def head(self, journals: EntryReader, run: str) -> KnownHead | None:
        """What is remembered of a run. To be asked before the store is: others save meanwhile.

        Raises `HistoryRewoundError` if the store itself is another one.
        """
        store = self._id or self._identified(journals)
        kept = self.file.head(store, run)
        new = self._new.get(run)
        return new if kept is None or (new is not None and new.seq > kept.seq) else kept

    def compare(self, journals: EntryReader, known: KnownHead | None, head: Entry | None) -> None:
        """Raise `HistoryRewoundError` unless what was remembered is in the history of this head.

        The head is remembered from now on. None if there is none, or if it can't be read.
        """
        if known is not None:
            if head is not None and (head.seq, head.digest) == (known.seq, known.digest):
                return
            found = find(journals, known)
            unread = found.fate == "damaged" and head is None
            if not found.ok and not unread and _is_to_be_seen(journals, known.run):
                raise self._rewound(known, found)
        if head is not None:
            self.note(head)

    def told(self, others: Callable[[Ticket], None] | None) -> Callable[[Ticket], None]:
        """A callback for the outcome of saves: it remembers the head, and calls `others`."""

        def tell(ticket: Ticket) -> None:
            if ticket.error is None:
                self.note(ticket.entries[-1])
            if others is not None:
                others(ticket)

        return tell

    def note(self, head: Entry) -> None:
        """Remember an entry that the store has acknowledged, or given. Does not block."""
        if not _is_remembered(head.run):
            return
        with self._lock:
            known = self._new.get(head.run)
            if known is not None and known.seq >= head.seq:
                return
            self._new[head.run] = KnownHead(head.run, head.seq, head.digest, self._clock.now())
            if self._thread is None:
                self._bell = threading.Event()  # of this thread: the one before may not have ended
                self._thread = threading.Thread(
                    target=self._write_on, args=(self._bell,), name="holdfast-heads", daemon=True
                )
                self._thread.start()
                _busy.add(self)

    def problems(self, journals: EntryReader) -> Iterator[HistoryRewoundError]:
        """Every run that is not what is remembered of it."""
        self.flush()
        for known in self.file.heads(self._id or self._identified(journals)):
            found = find(journals, known)
            if not found.ok and _is_to_be_seen(journals, known.run):
                yield self._rewound(known, found)

    def accept(self, journals: EntryReader, runs: list[str] | None) -> int:
        """Remember these runs as they are now, or the store and all of its runs; returns how many."""
        if runs is None:
            self._id = known_store_id(journals) or self._identify()
            self.file.put_store(self._address, self._id)
            changed = [error.run_id for error in self.problems(journals)]
            self._accept(journals, self._id, changed)
            return len(changed)
        own = [run for run in runs if _is_to_be_seen(journals, run)]
        self._accept(journals, self._id or self._identified(journals), own)
        return len(own)

    def _accept(self, journals: EntryReader, store: str, runs: list[str]) -> None:
        now: list[KnownHead] = []
        with self._lock:
            for run in runs:
                self._new.pop(run, None)
        for run in runs:
            found = journals.store.read(run, newest_first=True, limit=1, bodies=False)
            now += [KnownHead(run, head.seq, head.digest, self._clock.now()) for head in found]
        self.file.remove(store, runs)
        self.file.put(store, now, newer_only=False)

    def flush(self) -> None:
        """Write to the file what is new. Raises `HeadsFileError`; then it is kept for later."""
        with self._lock:
            new = dict(self._new)
        if not new or self._id is None:
            return
        self.file.put(self._id, new.values())
        with self._lock:
            for run, head in new.items():
                if self._new.get(run) is head:
                    del self._new[run]

    def close(self) -> None:
        """Write what is new, and close the file."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._bell.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5 * EVERY)
        self._flush_or_say()
        _busy.discard(self)
        self.file.close()

    def _write_on(self, bell: threading.Event) -> None:
        """Write what is new once a second, until nothing is for a while."""
        idle = 0
        while not bell.wait(EVERY):
            idle = 0 if self._flush_or_say() else idle + 1
            with self._lock:
                if idle > _IDLE and not self._new:
                    if self._thread is threading.current_thread():
                        self._thread = None
                        _busy.discard(self)
                    return

    def _flush_or_say(self) -> bool:
        """Write what is new; returns whether there was any. What fails is said once, and repeated."""
        had = bool(self._new)
        try:
            self.flush()
            self._told = False
        except HeadsFileError as error:
            if not self._told:
                self._told = True
                log.error("heads are not remembered: %s", error)
        return had

    def _identified(self, journals: EntryReader) -> str:
        """The store's id, compared with the one that was at this address before."""
        before, now = self.file.store_at(self._address), self._known_id(journals)
        if before is not None and before != now:
            raise HistoryRewoundError("", _other_store(before, now), str(self.file.path))
        if now is None:
            now = self._identify()
        if before is None:
            self.file.put_store(self._address, now)
        self._id = now
        return now

    def _known_id(self, journals: EntryReader) -> str | None:
        try:
            return known_store_id(journals)
        except CheckpointCorruptedError:
            return None

    def _rewound(self, known: KnownHead, found: Found) -> HistoryRewoundError:
        return HistoryRewoundError(known.run, found.said(known.seq), str(self.file.path))


def _is_to_be_seen(journals: EntryReader, run: str) -> bool:
    """Whether a run may be told of: another owner's is nobody's business here."""
    bound = owner_view(journals.store)
    return bound is None or bound.sees(run)


def remember_heads(
    core: Core, path: str | os.PathLike[str] | None, *, default: bool
) -> str | os.PathLike[str] | None:
    """Have a core remember heads in a file, or in that of the project for the `default` store.

    Returns the file, None if there is none. Raises `HeadsFileError`, and `ValueError` for a store
    in memory.
    """
    if path is None and default:
        path = default_heads_file()
    if path is None:
        return None
    from holdfast.kernel.heads_file import HeadsFile  # sqlite3, which most programs do not need

    store = core.journals.store
    if store.inline and not store.shared:
        raise ValueError("a store in memory ends with its process: there is nothing to remember")
    remembered = RememberedHeads(
        HeadsFile(path), store.url, partial(store_id, core), core.journals.clock
    )
    core.journals.remembered = remembered
    return path


def _is_remembered(run: str) -> bool:
    return run != STORE_JOURNAL and not is_passing(run)


_busy: set[RememberedHeads] = set()  # with something to write, kept alive until that is done


@atexit.register
def _flush_at_exit() -> None:
    for one in list(_busy):
        one.close()


def _place(address: str) -> str:
    """What a store is known by: its URL, or where on this disk it is."""
    path = local_path(address)
    return address if path is None else str(path.resolve())


def _other_store(before: str, now: str | None) -> str:
    if now is None:
        return f"it has no id, and the store that was there before had the id {before}"
    return f"it has the id {now}, and the store that was there before had {before}"
