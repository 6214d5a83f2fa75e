"""Which entries of a run led to its state, or to where it is now. Blocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Final

from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.entries import EntryReader, current_at, is_stub, state_seq
from holdfast.kernel.pages import Damage, Found
from holdfast.model import Entry, Kind, Status, erases

FEW: Final = 8  # entries to read at first where their bodies may be large


class BranchReader(EntryReader):
    """Follows the branches of journals, around what rollbacks left behind."""

    def branch(self, run: str, damage: Damage | None = None, *, after: int = -1) -> Iterator[Entry]:
        """The live checkpoints from the current one back to the first, without abandoned ones.

        Those up to the seq `after` are left out.
        """
        try:
            head = self.checked_head(run)
        except CheckpointCorruptedError as error:
            if damage is None or error.seq is None:
                raise
            damage(error)
            head = next(
                self.entries(
                    run, bodies=True, newest_first=True, after=error.seq, page=1, damage=damage
                ),
                None,
            )
        yield from () if head is None else self.branch_of(head, damage, after=after)

    def branch_of(
        self, entry: Entry, damage: Damage | None = None, after: int = -1
    ) -> Iterator[Entry]:
        """The live checkpoints from the one that is current at this entry back to the first.

        With `damage`, that is called for damaged ones among them. As far as to the seq `after`.
        """
        way = _WayBack(state_seq(entry))
        if way.wanted is None:
            return
        for found in self.scan(
            entry.run, newest_first=True, bodies=True, after=way.wanted + 1, page=FEW
        ):
            if found.seq is not None and found.seq <= after:
                return
            problem = way.problem_at(found)
            if way.wanted is None:
                return
            if isinstance(found, Entry) and found.seq == way.wanted:
                if is_stub(found):
                    problem = self.unlisted(found)
                else:
                    yield found
                way.go_on(found, proved=not is_stub(found))
            if problem is not None:
                if damage is None:
                    raise problem
                damage(problem)
        if not way.is_unknown:
            reason = "a later state builds on it; it is gone"
            raise CheckpointCorruptedError(entry.run, way.wanted, reason)

    def unlisted(self, stub: Entry) -> CheckpointCorruptedError | None:
        """What is wrong with a stub, if no marker lists it."""
        try:
            self.check_stub(stub)
        except CheckpointCorruptedError as error:
            return error
        return None

    def opening(self, run: str) -> Entry | None:
        """The entry that opened the run; None if there is no run."""
        first = self.scan(run, bodies=True, newest_first=False, after=None, page=2)
        for found in islice(first, 2):  # erasing leaves a tombstone before it
            if isinstance(found, CheckpointCorruptedError):
                raise found
            if found.kind == Kind.OPEN:
                if is_stub(found):
                    self.check_stub(found)
                return found
        return None

    def trail(
        self, run: str, end: int | None = None, *, start: int = 0, bodies: bool = True
    ) -> list[Entry]:
        """Every live entry that led to the head, or to the seq `end`, oldest first, proved.

        From the seq `start` on. What a rollback left behind is not among them; the rollback
        itself is. Without `bodies` nothing is proved. Raises `CheckpointCorruptedError` for a
        damaged or missing one of them, whatever became of those left behind.
        """
        found: list[Found] = []
        for entry in self.scan(run, bodies=bodies, newest_first=False, after=start - 1):
            if end is not None and entry.seq is not None and entry.seq > end:
                break
            found.append(entry)
        # From the end back, because a rollback may lead to what an earlier one left behind.
        digests = cache(lambda: {e.seq: e.digest for e in found if isinstance(e, Entry)})
        trail: list[Entry] = []
        back_to: int | None = None
        damaged: CheckpointCorruptedError | None = None  # the first, of which others follow
        for entry in reversed(found):
            if isinstance(entry, CheckpointCorruptedError):
                if entry.seq is None or back_to is None or entry.seq <= back_to:
                    damaged = entry
                continue
            opens = entry.kind == Kind.OPEN
            if back_to is not None and entry.seq > back_to and not opens:
                continue
            if entry.kind == Kind.TRIM:
                continue
            if entry.status == Status.DELETED and entry.kind != Kind.TOMBSTONE:
                self.check_stub(entry, digests().get(entry.seq - 1) if bodies else None)
                continue
            trail.append(entry)
            if opens:
                break
            if entry.kind in (Kind.ROLLBACK, Kind.TOMBSTONE):
                if erases(entry):
                    break
                back_to = -1 if entry.parent is None else entry.parent
                said = Meta(entry).target if bodies else None
                known = None if said is None else digests().get(back_to)
                if known is not None and known.hex() != said:
                    reason = "it is not the checkpoint that the run went back to"
                    damaged = CheckpointCorruptedError(run, back_to, reason)
        if damaged is not None:
            raise damaged
        return trail[::-1]


class _WayBack:
    """Which checkpoint of a branch comes next, newest first.

    A checkpoint builds on what was current at the entry before it. It says so itself, too; but of
    a stub or a damaged one nothing proves that here. It counts only if the entry before
    it is damaged.
    """

    def __init__(self, wanted: int | None) -> None:
        self.wanted = wanted
        self.is_unknown = False  # until the entry before the last one is read
        self._said: list[int | None] = []  # what the last one builds on, as it says itself

    def problem_at(self, found: Found) -> CheckpointCorruptedError | None:
        """Take note of the next entry; if it is the wanted one and damaged, return why.

        Raises it if nothing says where the branch continues.
        """
        if not isinstance(found, CheckpointCorruptedError):
            if self.is_unknown:
                self.wanted, self.is_unknown = current_at(found), False
            return None
        if self.is_unknown and self._said:
            self.wanted, self.is_unknown = self._said[0], False
        if self.is_unknown or found.seq is None:
            raise found
        if found.seq != self.wanted:
            return None
        self.is_unknown = True
        self._said = [] if found.entry is None else [found.entry.parent]
        return found

    def go_on(self, found: Entry, *, proved: bool) -> None:
        """Continue behind the wanted entry."""
        self.wanted = found.parent if proved else self.wanted
        self.is_unknown, self._said = not proved, [found.parent]
