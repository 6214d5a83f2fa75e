"""Which entries of a run led to its state, or to where it is now. Blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.entries import EntryReader, current_at, is_stub, state_seq
from holdfast.kernel.pages import Damage, Found, pass_by
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
                    run, bodies=True, newest_first=True, after=error.seq, page=1, damage=pass_by
                ),
                None,
            )
        yield from () if head is None else self.branch_of(head, damage, after=after)

    def branch_of(
        self, entry: Entry, damage: Damage | None = None, *, after: int = -1
    ) -> Iterator[Entry]:
        """The live checkpoints from the one that is current at this entry back to the first.

        Those up to the seq `after` are left out: there may be a million stubs among them. With
        `damage`, that is called for damaged ones. What they build on is known
        from the entries before them: what was current there.
        """
        wanted = state_seq(entry)
        if wanted is None:
            return
        lost = False
        stored: int | None = None  # what a damaged one builds on, as far as it says so itself
        for found in self.scan(
            entry.run, newest_first=True, bodies=True, after=wanted + 1, page=FEW
        ):
            if found.seq is not None and found.seq <= after:
                return
            if isinstance(found, CheckpointCorruptedError):
                if lost and stored is not None:
                    wanted, lost = stored, False
                if lost or found.seq in (wanted, None):
                    if damage is None or lost or found.seq is None:
                        raise found
                    damage(found)
                    lost, stored = True, found.entry and found.entry.parent
                continue
            if lost:
                wanted, lost = current_at(found), False
            if found.seq == wanted:
                if is_stub(found):
                    try:
                        self.check_stub(found)
                    except CheckpointCorruptedError as error:
                        if damage is None:
                            raise
                        damage(error)
                    lost, stored = True, found.parent  # which nothing proves
                else:
                    yield found
                    wanted = found.parent
            if wanted is None:
                return
        if lost:
            return
        raise CheckpointCorruptedError(entry.run, wanted, "a later state builds on it; it is gone")

    def opening(self, run: str) -> Entry | None:
        """The entry that opened the run; None if there is no run."""
        first = self.scan(run, bodies=True, newest_first=False, after=None, page=2)
        for found in islice(first, 2):  # erasing leaves a tombstone before it
            if isinstance(found, CheckpointCorruptedError):
                raise found
            if found.kind == Kind.OPEN:
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
                self.check_stub(entry)
                continue
            trail.append(entry)
            if opens:
                break
            if entry.kind in (Kind.ROLLBACK, Kind.TOMBSTONE):
                if erases(entry):
                    break
                back_to = -1 if entry.parent is None else entry.parent
        if damaged is not None:
            raise damaged
        return trail[::-1]
