"""The entries that say what retention deleted and rewrote. Blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from holdfast.codec.envelope import Stored
from holdfast.codec.meta import Meta, Seqs
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.proving import MARKERS
from holdfast.model import Entry, Kind

_KINDS: Final = frozenset(Kind)
_KNOWN_RUNS: Final = 100  # whose markers are remembered


class Markers:
    """Finds the entries that say what retention deleted and rewrote, and remembers some."""

    def __init__(
        self,
        entry: Callable[[str, int], Entry | None],
        after: Callable[[str, int], Iterator[Entry]],
    ) -> None:
        self._entry = entry  # proved, by run and seq
        self._after = after  # all that can be read after a seq, without bodies
        self._dropped: OrderedDict[str, list[tuple[int, Seqs]]] = OrderedDict()

    def vouch(self, entry: Entry, stored: Stored) -> None:
        """Raise `CheckpointCorruptedError` unless its marker lists this body of the entry."""
        try:
            marker = self._entry(entry.run, stored.marker) if stored.marker > entry.seq else None
        except CheckpointCorruptedError as error:
            reason = f"it was rewritten, and its marker, {entry.run}@{stored.marker}, is damaged"
            raise CheckpointCorruptedError(
                entry.run, entry.seq, f"{reason}: {error.reason}"
            ) from None
        if marker is None or marker.kind not in MARKERS:
            reason = f"it was rewritten, and its marker, {entry.run}@{stored.marker}, is none"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)
        if Meta(marker).rewritten.get(str(entry.seq)) != stored.own_proof.hex():
            reason = "it was rewritten, and is not what its marker lists"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)

    def check_stub(self, entry: Entry) -> None:
        """Raise `CheckpointCorruptedError` unless a marker says that the entry was deleted."""
        if entry.kind not in _KINDS:
            reason = f"it was deleted, and what is left of it has no known kind: {entry.kind!r:.99}"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)
        if self._is_listed(entry):
            return
        self._dropped.pop(entry.run, None)
        markers = [
            found.seq for found in self._after(entry.run, entry.seq) if found.kind in MARKERS
        ]
        known: list[tuple[int, Seqs]] = []
        for seq in markers:
            with suppress(CheckpointCorruptedError):
                marker = self._entry(entry.run, seq)
                if marker is not None:
                    known.append((seq, Meta(marker).dropped))
        self._dropped[entry.run] = known  # only now: a marker may be a stub itself, which asks, too
        while len(self._dropped) > _KNOWN_RUNS:
            self._dropped.popitem(last=False)
        if not self._is_listed(entry):
            reason = "it is gone, and no entry behind it says that it was deleted"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)

    def _is_listed(self, entry: Entry) -> bool:
        known = self._dropped.get(entry.run, ())
        return any(entry.seq in dropped for marker, dropped in known if marker > entry.seq)
