"""The entries that say what retention deleted and rewrote. Blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from holdfast.codec.envelope import Stored
from holdfast.codec.meta import Meta
from holdfast.codec.seqs import Seqs
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.proving import MARKERS
from holdfast.model import Entry, Kind

_KINDS: Final = frozenset(Kind)
_KNOWN_RUNS: Final = 100  # whose markers are remembered


class _Known:
    """The markers of one run, as far as its journal was read."""

    def __init__(self) -> None:
        self.last: tuple[int, bytes] = -1, b""  # the seq and digest of the last entry that was read
        self.dropped = Seqs([])  # what the markers list of the entries before them
        self.behind: dict[str, str] = {}  # by seq of some that were dropped: the digest before it

    def lists(self, entry: Entry) -> bool:
        """Whether a marker behind the entry says that it was deleted."""
        return entry.seq in self.dropped


class Markers:
    """Finds the entries that say what retention deleted and rewrote, and remembers some."""

    def __init__(
        self,
        marker: Callable[[str, int], Entry | None],
        after: Callable[[str, int], Iterator[Entry]],
    ) -> None:
        self._marker = marker  # proved, by run and seq
        self._after = after  # all that can be read after a seq, without bodies
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def vouch(self, entry: Entry, stored: Stored) -> None:
        """Raise `CheckpointCorruptedError` unless its marker lists this body of the entry."""
        try:
            marker = self._marker(entry.run, stored.marker) if stored.marker > entry.seq else None
        except CheckpointCorruptedError as error:
            reason = f"it was rewritten, and its marker, {entry.run}@{stored.marker}, is damaged"
            raise CheckpointCorruptedError(
                entry.run, entry.seq, f"{reason}: {error.reason}"
            ) from None
        if marker is None:
            reason = f"it was rewritten, and its marker, {entry.run}@{stored.marker}, is none"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)
        if Meta(marker).rewritten.get(str(entry.seq)) != stored.own_proof.hex():
            reason = "it was rewritten, and is not what its marker lists"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)

    def check_stub(self, entry: Entry, before: bytes | None = None) -> None:
        """Raise `CheckpointCorruptedError` unless a marker says that the entry was deleted.

        Also if the entry `before` it has another digest than it had then.
        """
        if entry.kind not in _KINDS:
            reason = f"it was deleted, and what is left of it has no known kind: {entry.kind!r:.99}"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)
        known = self._known.get(entry.run)
        if known is None or not known.lists(entry):
            known = self._read_on(entry.run)
        if not known.lists(entry):
            reason = "it is gone, and no entry behind it says that it was deleted"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)
        said = known.behind.get(str(entry.seq))
        if before is not None and said is not None and before.hex() != said:
            reason = "it is not what was there when the entry after it was deleted"
            raise CheckpointCorruptedError(entry.run, entry.seq - 1, reason)

    def _read_on(self, run: str) -> _Known:
        """The markers of a run. Only what was added since the last time is read."""
        known = self._known.pop(run, None)
        entries: Iterator[Entry] = iter(())
        if known is not None:
            entries = self._after(run, known.last[0] - 1)
            first = next(entries, None)
            if first is None or (first.seq, first.digest) != known.last:
                known = None  # another run with this id
        if known is None:
            known, entries = _Known(), self._after(run, -1)
        found = [known.dropped]
        for entry in entries:
            known.last = entry.seq, entry.digest
            if entry.kind in MARKERS:
                with suppress(CheckpointCorruptedError):
                    marker = self._marker(run, entry.seq)
                    if marker is not None:
                        found.append(Meta(marker).dropped.before(entry.seq))
                        known.behind |= Meta(marker).behind
        if len(found) > 1:
            known.dropped = Seqs.union(found)
        self._known[run] = known
        while len(self._known) > _KNOWN_RUNS:
            self._known.popitem(last=False)
        return known
