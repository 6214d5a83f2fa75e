"""Which entries are older than the first key of a store, and so are neither sealed nor signed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from holdfast.codec import envelope
from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.pages import Found
from holdfast.kernel.proving import MARKERS, digest_before
from holdfast.model import CUT_OVER, HIDDEN, KEYS, Entry, Status
from holdfast.store import PAGE, RunFilter, Store

_AT_ONCE: Final = 100  # journals that one entry lists
_KNOWN_RUNS: Final = 100  # whose older entries are remembered

End = tuple[str, int, str]
"""A journal, the seq of its last entry, and the digest of that in hex."""


class CutOver:
    """Knows where journals ended when the first key was given, from a journal that is sealed."""

    def __init__(
        self,
        head: Callable[[], int | None],
        read: Callable[[], Iterator[Entry]],
        back: Callable[[str], Iterator[Found]],
        marker: Callable[[str, int], Entry | None],
    ) -> None:
        self._head = head  # the seq of the last entry that says so
        self._read = read  # all of these, proved
        self._back = back  # the entries of a run with their bodies, newest first, not proved
        self._marker = marker  # proved, by run and seq
        self._known: int | None = -1
        self._ends: dict[str, tuple[int, str]] = {}
        self._older: OrderedDict[tuple[str, int, str], dict[int, bytes]] = OrderedDict()

    def allows(self, entry: Entry) -> bool:
        """Whether the entry is older than the first key, and is what was there then. Blocks."""
        if entry.run == CUT_OVER:
            return False
        known = self._ends.get(entry.run)  # what was recorded once need not be read again
        if known is not None and self._is_older(entry, *known):
            return True
        now = self.end_of(entry.run)
        return now is not None and now != known and self._is_older(entry, *now)

    def _is_older(self, entry: Entry, seq: int, digest: str) -> bool:
        """Whether the entry is what was there when its journal ended at this seq and digest."""
        if entry.seq >= seq:
            return entry.seq == seq and entry.digest.hex() == digest
        return self._digests(entry.run, seq, digest).get(entry.seq) == entry.digest

    def _digests(self, run: str, seq: int, digest: str) -> dict[int, bytes]:
        """By seq, the digests of a journal up to its end then: each proves the one before it."""
        place = run, seq, digest
        found = self._older.get(place)
        if found is None:
            found = _digests_up_to(self._back(run), self._behind, seq, digest)
            self._older[place] = found
            while len(self._older) > _KNOWN_RUNS:
                self._older.popitem(last=False)
        return found

    def _behind(self, marker: Entry) -> dict[str, str]:
        """The digests that a marker lists, if a holder of the key wrote it."""
        with suppress(CheckpointCorruptedError):
            found = self._marker(marker.run, marker.seq)
            return {} if found is None else dict(Meta(found).behind)
        return {}

    def end_of(self, run: str) -> tuple[int, str] | None:
        """Where a journal ended then: its seq, and its digest in hex. Blocks."""
        if self._head() != self._known:
            self._learn()
        return self._ends.get(run)

    @property
    def recorded(self) -> bool:
        """Whether anybody said where the time without a key ended. Blocks."""
        return self._head() is not None

    def _learn(self) -> None:
        ends: dict[str, tuple[int, str]] = {}
        known: int | None = None
        for entry in self._read():
            ends |= {str(run): (int(seq), str(digest)) for run, seq, digest in Meta(entry).plain}
            known = entry.seq
        self._ends, self._known = ends, known

    def last(self) -> Entry | None:
        """The last entry that says so: a `complete` one if all journals were listed. Blocks."""
        last = None
        for last in self._read():  # noqa: B007 - the last one counts
            pass
        return last


def _digests_up_to(
    back: Iterator[Found], behind: Callable[[Entry], dict[str, str]], last: int, digest: str
) -> dict[int, bytes]:
    """The digests of the entries up to the last one, which has this digest: a chain, from its end.

    Where entries were deleted, the digest before them is that which their marker lists.
    """
    known = {last: bytes.fromhex(digest)}
    listed: dict[str, str] = {}
    after: Entry | None = None
    for found in back:
        if after is not None and found.seq == after.seq - 1:
            _continue(after, found.digest, known, listed)
        after = None
        if not isinstance(found, Entry):
            continue
        if found.seq <= last:
            after = found
        elif found.kind in MARKERS:
            listed |= behind(found)
    return known


def _continue(entry: Entry, before: bytes, known: dict[int, bytes], listed: dict[str, str]) -> None:
    """Note the digest before an entry, if that entry, or a marker, proves it."""
    if listed.get(str(entry.seq)) == before.hex():
        known[entry.seq - 1] = before
    if known.get(entry.seq) != entry.digest or not entry.body:
        return
    with suppress(CheckpointCorruptedError):
        proof = envelope.glance(entry).said_proof
        if envelope.vouches(entry, digest_before(entry, before), proof):
            known[entry.seq - 1] = before
            if entry.kind in MARKERS:
                listed |= Meta(entry).behind


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
