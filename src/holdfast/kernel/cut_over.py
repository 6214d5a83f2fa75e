"""Which entries are older than the first key of a store, and so are neither sealed nor signed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from holdfast.codec.meta import Meta
from holdfast.model import CUT_OVER, HIDDEN, KEYS, Entry, Kind, Status
from holdfast.store import PAGE, RunFilter, Store

_AT_ONCE: Final = 100  # journals that one entry lists

End = tuple[str, int, str]
"""A journal, the seq of its last entry, and the digest of that in hex."""


class CutOver:
    """Knows where journals ended when the first key was given, from a journal that is sealed."""

    def __init__(self, head: Callable[[], int | None], read: Callable[[], Iterator[Entry]]) -> None:
        self._head = head  # the seq of the last entry that says so
        self._read = read  # all of these, proved
        self._known: int | None = -1
        self._ends: dict[str, tuple[int, str]] = {}

    def allows(self, entry: Entry) -> bool:
        """Whether the entry is older than the first key. Blocks."""
        if entry.run == CUT_OVER:
            return False
        seq, digest = self.end_of(entry.run) or (-1, "")
        return entry.seq < seq or (entry.seq == seq and entry.digest.hex() == digest)

    def end_of(self, run: str) -> tuple[int, str] | None:
        """Where a journal ended then: its seq, and its digest in hex. Blocks."""
        if self._head() != self._known:
            self._learn()
        return self._ends.get(run)

    def _learn(self) -> None:
        ends: dict[str, tuple[int, str]] = {}
        known = -1
        for entry in self._read():
            ends |= {str(run): (int(seq), str(digest)) for run, seq, digest in Meta(entry).plain}
            known = entry.seq
        self._ends, self._known = ends, known

    def is_complete(self) -> bool:
        """Whether all journals were listed that there were. Blocks."""
        last = None
        for last in self._read():  # noqa: B007 - the last one counts
            pass
        return last is not None and last.kind == Kind.COMPLETE


def has_runs(store: Store) -> bool:
    """Whether there is a run in the store, or what is left of one."""
    return any(store.runs(RunFilter(status=status), limit=1) for status in _STATUSES)


def ends(store: Store, *, hidden_only: bool) -> Iterator[list[End]]:
    """Where all journals of a store end, in batches."""
    batch: list[End] = []
    for prefix in (HIDDEN,) if hidden_only else (HIDDEN, ""):
        for status in _STATUSES:
            for head in _heads(store, RunFilter(status=status, prefix=prefix)):
                if head.run == CUT_OVER or head.run.startswith(KEYS):
                    continue
                batch.append((head.run, head.seq, head.digest.hex()))
                if len(batch) == _AT_ONCE:
                    yield batch
                    batch = []
    if batch:
        yield batch


_STATUSES: Final = (None, Status.DELETED.value)


def _heads(store: Store, where: RunFilter) -> Iterator[Entry]:
    after = ""
    while page := store.runs(where, after=after, limit=PAGE):
        yield from page
        after = page[-1].run
