"""The states of a run in order, each put together from the one before it. Blocks."""

from __future__ import annotations

from bisect import bisect_left

from holdfast.codec import envelope
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.entries import current_at, is_live, state_seq
from holdfast.kernel.reader import Reader
from holdfast.model import CARRY_STATE, Entry, Kind


class Playback:
    """Puts together the states of a run's entries, which it is given oldest first.

    The entries are proved by whoever reads them. A pass over a whole run applies each delta once. With `Reader.chain`, which begins at the
    keyframe for every state, it would apply most of them a hundred times.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._held: dict[int, bytes] = {}  # the last checkpoint's state, and its landmark's

    def encoding(self, entry: Entry) -> bytes | None:
        """The state or value of the next entry; None if it was deleted since it was read.

        Raises `CheckpointCorruptedError`. The entries after a damaged one can still be given.
        """
        stored = envelope.glance(self._reader.bounded(entry))
        base, near, _ = envelope.bearings_of(entry, stored)
        if stored.is_delta and base not in self._held:
            try:
                self._begin_at(entry.run, base)
            except CheckpointCorruptedError as error:
                again = self._reader.entry(entry.run, entry.seq)
                if again is not None and again.body == entry.body:
                    reason = f"the state it builds on can't be read: {error.reason}"
                    raise CheckpointCorruptedError(entry.run, entry.seq, reason) from error
                return None if again is None else self.encoding(again)  # its base was deleted
        old = self._held[base] if stored.is_delta else b""
        encoding = self._reader.applied(entry, stored, old)
        if entry.kind == Kind.CHECKPOINT:
            landmark = self._held.get(near)
            self._held = {} if landmark is None else {near: landmark}
            self._held[entry.seq] = encoding
        return self._reader.in_form(entry.run, entry.seq, encoding, stored.flags)

    def _begin_at(self, run: str, seq: int) -> None:
        chain, _ = self._reader.chain_as_stored(run, seq)
        self._held = {chain.landmark.seq: chain.landmark.state, seq: chain.encoding}


class Branch:
    """Which entries of a run led to its state at one of them, kept in little memory.

    A run without rollbacks is one range of entries, however long it is.
    """

    def __init__(self, reader: Reader, end: Entry, after: int | None = None) -> None:
        """Follow the parents from the entry `end` back, as far as to the seq `after`."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        wanted = state_seq(end)
        others = True  # whether one of another branch lies before the range
        last: Entry | None = None  # on the branch
        lost = False  # whether the last one on the branch is damaged
        for entry in reader.scan(end.run, newest_first=True, after=end.seq + 1):
            if entry.seq is None:
                assert isinstance(entry, CheckpointCorruptedError), "others have one"
                raise entry
            if after is not None and entry.seq <= after:
                break
            if not isinstance(entry, CheckpointCorruptedError):
                if lost:
                    wanted, lost = current_at(entry), False
                elif last is not None and entry.seq == last.seq - 1 and current_at(entry) != wanted:
                    wanted = _parent(reader, last, entry)
            if wanted is None and not lost:
                break
            if entry.seq != wanted and not lost:
                others = others or not isinstance(entry, Entry) or is_live(entry)
                continue
            if others:
                self._lasts.append(entry.seq)
                self._firsts.append(entry.seq)
            self._firsts[-1] = entry.seq
            others, last = False, None
            if isinstance(entry, CheckpointCorruptedError) or entry.kind not in CARRY_STATE:
                lost = True  # who comes to it is told; before it is what was current there
            else:
                wanted, last = entry.parent, entry
        self._firsts.reverse()
        self._lasts.reverse()

    def __contains__(self, seq: int) -> bool:
        at = bisect_left(self._lasts, seq)
        return at < len(self._lasts) and self._firsts[at] <= seq


def _parent(reader: Reader, entry: Entry, before: Entry) -> int | None:
    """What a checkpoint builds on, where it says something else than the entry before it."""
    try:
        reader.entry(entry.run, entry.seq)
    except CheckpointCorruptedError:
        return current_at(before)
    return entry.parent
