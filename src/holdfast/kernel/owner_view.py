"""A store as one owner sees it: the runs of others are not there, and nothing can be done to them.

To whom a run belongs, its newest entry says. What was deleted as a whole belongs to nobody: its
tombstone says nothing of whose it was, and its id is free. Of the journals beside the runs, verdicts
belong to the owner of their run, aliases to the owner in their name or of the step that they lead
to, and a thread's journal shows each owner only its own runs. What keeps processes apart is shared by all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from holdfast import scanning
from holdfast.changes import ANY_RUN, Change
from holdfast.codec.meta import Meta
from holdfast.errors import (
    BoundOwnerError,
    CheckpointCorruptedError,
    HoldfastError,
    RunTakenError,
)
from holdfast.heads import HOUR, Position, RunHead, Tally, hours
from holdfast.kernel.pages import entries_of
from holdfast.kernel.store_view import StoreView
from holdfast.model import (
    ALIASES,
    HIDDEN,
    KEYS,
    SHARED,
    THREADS,
    VERDICTS,
    Entry,
    Kind,
    Status,
    alias_journal,
    check_id,
    erases,
    key_journal,
    lost,
    split_checkpoint_id,
)
from holdfast.store import ANY_HEAD, PAGE, Behind, RunFilter, Store, StoreStats

_NOTHING: Final = StoreStats(0, 0, 0, None, None)
_OF_OWNERS: Final = (THREADS, ALIASES, VERDICTS)


class OwnerView(StoreView):
    """What a store has of one owner."""

    def __init__(self, beneath: Store, owner: str) -> None:
        super().__init__(beneath)
        self.owner = check_id("owner", owner)
        self._aliases = alias_journal("", owner)

    # --- whose is it

    def sees(self, journal: str) -> bool:
        """Whether a journal is this owner's, or shared by all, or there is none. Blocks."""
        if not journal.startswith(HIDDEN):
            head = _head(self.beneath, journal)
            return head is None or erases(head) or self._owner_of(head) == self.owner
        if journal.startswith(VERDICTS):
            return self.sees(journal.removeprefix(VERDICTS))
        if journal.startswith(KEYS):
            return journal in (key_journal(self.owner), key_journal(None))
        return (
            not journal.startswith(ALIASES)
            or journal.startswith(self._aliases)
            or (HIDDEN not in journal.removeprefix(ALIASES) and self._leads_here(journal))
        )

    def _leads_here(self, alias: str) -> bool:
        """Whether an alias that was given for no owner names a step of this one."""
        head = _head(self.beneath, alias)
        try:
            if head is None or erases(head):
                return True
            return self.sees(split_checkpoint_id(Meta(head).step or "")[0])
        except HoldfastError:  # it is damaged, or sealed: then it is nobody's here
            return False

    def check_free(self, run: str) -> None:
        """Raise `RunTakenError` if the run is another's. Blocks."""
        if not self.sees(run):
            raise RunTakenError(run)

    def check_given(self, owner: str | None) -> None:
        """Raise `BoundOwnerError` for another owner; None is this one."""
        if owner not in (None, self.owner):
            raise BoundOwnerError(self.owner, owner)

    def shown(self, change: Change) -> Change | None:
        """A change as this owner may see it; None for a run of others. Blocks.

        Whose run was deleted can't be told any more: it may have been any.
        """
        if change.run_id is None or change.status == Status.DELETED:
            return ANY_RUN
        head = _head(self.beneath, change.run_id)
        if head is None or erases(head):
            return ANY_RUN
        return change if self._owner_of(head) == self.owner else None

    def _owner_of(self, head: Entry) -> str | None:
        """The owner of a run with this head. A damaged one may not say it."""
        if head.owner is not None or head.status != Status.DELETED:
            return head.owner
        row = self.beneath.row(head.run)
        return None if row is None else row.owner

    def _are_ours(self, run: str, found: Sequence[Entry]) -> bool:
        """Whether these entries of a run are the owner's: most say it themselves."""
        owners = {entry.owner for entry in found if entry.status != Status.DELETED}
        return owners == {self.owner} or ((not owners or self.owner in owners) and self.sees(run))

    # --- reading

    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        if run.startswith(HIDDEN) and not self.sees(run):
            return []
        try:
            found = self.beneath.read(
                run, after=after, limit=limit, newest_first=newest_first, bodies=bodies
            )
        except CheckpointCorruptedError:
            if self.sees(run):
                raise
            return []
        if run.startswith(THREADS):
            return found if bodies else [self._as_member(entry) for entry in found]
        if run.startswith(HIDDEN) or not found or self._are_ours(run, found):
            return found
        return []

    def scan(
        self, after: str = "", *, limit: int = PAGE, bodies: bool = True
    ) -> list[Entry] | None:
        """None: most of what it would read is of others."""
        return None

    def _as_member(self, entry: Entry) -> Entry:
        """An entry of a thread's journal; that of another's run is something that nobody reads."""
        if entry.kind != Kind.MEMBER or entry.owner == self.owner:
            return entry
        return entry._replace(kind=Kind.TRIM.value, owner=None, meta="", body=b"")

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        if where.prefix.startswith(HIDDEN):
            return [] if where.prefix.startswith(_OF_OWNERS) else self._shared(where, after, limit)
        own = self._within(where)
        return [] if own is None else self.beneath.runs(own, after=after, limit=limit)

    def _shared(self, where: RunFilter, after: str, limit: int) -> list[Entry]:
        """A page of the journals that all owners share."""
        found: list[Entry] = []
        while len(found) < limit:
            page = self.beneath.runs(where, after=after, limit=limit)
            found += [
                head for head in page if not head.run.startswith(_OF_OWNERS) and self.sees(head.run)
            ]
            if len(page) < limit:
                break
            after = page[-1].run
        return found[:limit]

    def _within(self, where: RunFilter) -> RunFilter | None:
        """The filter for runs of this owner only; None if it asks for those of another."""
        return where._replace(owner=self.owner) if where.owner in (None, self.owner) else None

    def listed(
        self,
        where: RunFilter = RunFilter(),
        *,
        before: Position | None = None,
        limit: int = PAGE,
    ) -> list[tuple[RunHead, Entry]]:
        own = self._within(where)
        return [] if own is None else self.beneath.listed(own, before=before, limit=limit)

    def row(self, run: str) -> RunHead | None:
        row = self.beneath.row(run)
        return row if row is not None and row.owner == self.owner else None

    def entries_at(self, places: Sequence[tuple[str, int]], *, bodies: bool = False) -> list[Entry]:
        found = self.beneath.entries_at(places, bodies=bodies)
        return [
            entry
            for entry in found
            if entry.owner == self.owner or (entry.owner is None and self.sees(entry.run))
        ]

    def due(
        self, now: int, *, flows: Collection[str] | None = None, limit: int = PAGE
    ) -> list[RunHead]:
        wanted = limit
        while True:
            page = self.beneath.due(now, flows=flows, limit=wanted)
            own = [row for row in page if row.owner == self.owner]
            if len(own) >= limit or len(page) < wanted:
                return own[:limit]
            wanted *= 2

    def holders(self) -> dict[str, int]:
        found = {}
        for holder in self.beneath.holders():
            count = sum(self.counts(RunFilter(holder=holder)).values())
            if count:
                found[holder] = count
        return found

    # --- numbers

    def counts(self, where: RunFilter = RunFilter()) -> dict[str, int]:
        own = self._within(where)
        return {} if own is None else self.beneath.counts(own)

    def tally(self, since: int, until: int, *, flow: str | None = None) -> list[Tally]:
        """Of the runs that are there: no store keeps statistics of one owner."""
        first, last = hours(since, until)
        found = (
            each
            for row in self._rows()
            if row.changed >= first * HOUR and row.opened < last * HOUR
            for each in scanning.tallied(scanning.readable(self.beneath, row.run)[0])
        )
        return scanning.of_hours(found, first, last, flow)

    def _rows(self) -> Iterator[RunHead]:
        page = self.listed()
        while page:
            yield from (row for row, _ in page)
            page = self.listed(before=page[-1][0].position)

    def stats(self, run: str | None = None) -> StoreStats:
        if run is not None:
            return self.beneath.stats(run) if self.sees(run) else _NOTHING
        found = _NOTHING
        after = ""
        while heads := self.runs(after=after):
            for head in heads:
                found = _together(found, self.beneath.stats(head.run))
            after = heads[-1].run
        return found

    def rebuild(self, *, write: bool = True) -> int:
        """Nothing: the index is of all owners."""
        return 0

    def poll(self, mark: object = None) -> tuple[object, list[Change]]:
        mark, found = self.beneath.poll(mark)
        return mark, [own for change in found if (own := self.shown(change)) is not None]

    # --- writing

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        for entry in entries:
            self._check_entry(entry)
        for run in {entry.run for entry in entries}:
            self.check_free(run)
        return self.beneath.append(entries, behind)

    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        self._check_entry(marker)
        self.check_free(marker.run)
        return self.beneath.trim(marker, changes)

    def erase(self, tombstone: Entry) -> bool:
        run = tombstone.run
        if run.startswith(SHARED):
            return self.beneath.erase(tombstone)
        self.check_free(run)
        if run.startswith(THREADS) and self._has_others(run):
            return True  # it stays for them; no run of ours is there any more
        if _head(self.beneath, run) is None:  # and nobody may begin one before the tombstone
            return self.beneath.append([tombstone], {run: b""}) == [True]
        return self.beneath.erase(tombstone)

    def _check_entry(self, entry: Entry) -> None:
        """Raise `BoundOwnerError` for an entry of another's run; what is deleted is nobody's."""
        ours = entry.owner == self.owner or entry.status == Status.DELETED
        if not ours and not entry.run.startswith(HIDDEN):
            raise BoundOwnerError(self.owner, entry.owner)

    def _has_others(self, thread: str) -> bool:
        """Whether a thread has runs of others that are still there, or may be."""
        for entry in entries_of(self.beneath, thread, False, None, PAGE, bodies=False):
            if not isinstance(entry, Entry):
                return True
            if entry.kind == Kind.MEMBER and entry.owner != self.owner:
                return True
        return False


def owner_of(store: Store) -> str | None:
    """The owner that a store is bound to; None if it shows the runs of all."""
    bound = owner_view(store)
    return None if bound is None else bound.owner


def owner_view(store: Store) -> OwnerView | None:
    """The view that binds a store to an owner, if there is one."""
    while isinstance(store, StoreView):
        if isinstance(store, OwnerView):
            return store
        store = store.beneath
    return None


def bind(store: Store, owner: str | None) -> Store:
    """The store as an owner sees it; what is bound already stays so.

    Raises `BoundOwnerError` for another owner than the one that it is bound to.
    """
    bound = owner_view(store)
    if bound is not None:
        bound.check_given(owner)
        return store
    return store if owner is None else OwnerView(store, owner)


def _head(store: Store, run: str) -> Entry | None:
    """The newest entry that says whose run it is; None if there is no such run."""
    try:
        found = store.read(run, newest_first=True, limit=1, bodies=False)
        return found[0] if found else None
    except CheckpointCorruptedError as damage:
        for entry in entries_of(store, run, True, None, PAGE, bodies=False):
            if isinstance(entry, Entry) and entry.owner is not None:
                return entry
        return _unknown(run, damage)


def _unknown(run: str, damage: CheckpointCorruptedError) -> Entry:
    """A head that belongs to nobody who can be asked: none of its entries can be read."""
    return lost(run, damage.seq or 0, damage.digest)._replace(status=Status.OPEN.value)


def _together(one: StoreStats, other: StoreStats) -> StoreStats:
    oldest = [each for each in (one.oldest, other.oldest) if each is not None]
    newest = [each for each in (one.newest, other.newest) if each is not None]
    return StoreStats(
        one.checkpoints + other.checkpoints,
        one.state_bytes + other.state_bytes,
        one.stored_bytes + other.stored_bytes,
        min(oldest, default=None),
        max(newest, default=None),
    )
