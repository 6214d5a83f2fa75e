"""Stores that make the mistakes others have made. The contract must catch every one."""

from __future__ import annotations

import fnmatch
import json
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from holdfast.errors import StoreClosedError, StoreError
from holdfast.model import HIDDEN, Entry
from holdfast.store import (
    ANY_HEAD,
    PAGE,
    Behind,
    RunFilter,
    Store,
    StoreStats,
    Work,
    WorkFailedError,
    outcomes,
    runs_beaten,
    trimmed,
)
from holdfast.stores._shared.journals import totals
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite.store import SQLiteStore, _insert_next


class NoPrefixRule(MemoryStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        own, heads = super().append, dict(behind)
        return [own([e], {e.run: heads.pop(e.run)} if e.run in heads else {})[0] for e in entries]

    def _append(self, entry: Entry) -> bool:
        journal = self._journals.get(entry.run, [])
        if entry.seq in {item.seq for item in journal}:
            return False
        return super()._append(entry)


class ReplacesOnConflict(MemoryStore):
    def _append(self, entry: Entry) -> bool:
        for place, item in enumerate(self._journals.get(entry.run, [])):
            if item.seq == entry.seq:
                self._journals[entry.run][place] = entry
                return True
        return super()._append(entry)


class ReplacesSilently(ReplacesOnConflict):
    def _append(self, entry: Entry) -> bool:
        taken = entry.seq in {item.seq for item in self._journals.get(entry.run, [])}
        return super()._append(entry) and not taken


class SeqsBelowTheHeadAreFree(MemoryStore):
    def _append(self, entry: Entry) -> bool:
        journal = self._journals.get(entry.run, [])
        if not journal or entry.seq in {item.seq for item in journal}:
            return super()._append(entry)
        journal.append(entry)
        journal.sort(key=lambda item: item.seq)
        return True


class AllowsGaps(MemoryStore):
    def _append(self, entry: Entry) -> bool:
        journal = self._journals.get(entry.run, [])
        if not journal or entry.seq <= journal[-1].seq:
            return super()._append(entry)
        journal.append(entry)
        return True


class BeginsAnywhere(MemoryStore):
    def _append(self, entry: Entry) -> bool:
        if entry.run in self._journals:
            return super()._append(entry)
        self._journals[entry.run] = [entry]
        self._names = sorted(self._journals)
        return True


class TrimsBeyondGaps(MemoryStore):
    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        head = self.last(marker.run)
        if head is not None and marker.seq > head.seq + 1:
            self._journals[marker.run].append(marker)
            return True
        return super().trim(marker, changes)


class OneGapFailsTheBatch(MemoryStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        tops: dict[str, int] = {}
        for item in entries:
            head = self.last(item.run)
            if item.seq > tops.get(item.run, head.seq if head else -1) + 1:
                return [False] * len(entries)
            tops[item.run] = item.seq
        return super().append(entries, behind)


class IgnoresTheDigest(MemoryStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        return super().append(entries)


class TakesNoHeadForAnyHead(MemoryStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        return super().append(entries, {run: digest for run, digest in behind.items() if digest})


class TakesAnyDigestWhereNoHeadIs(MemoryStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        return super().append(entries, {run: d for run, d in behind.items() if self.last(run)})


class ComparesEveryEntryWithTheDigest(MemoryStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        found = super().append
        return [found([item], behind)[0] for item in entries]


class OneForeignHeadFailsTheBatch(MemoryStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if runs_beaten(behind, self._digest):
            return [False] * len(entries)
        return super().append(entries, behind)


class ChecksTheDigestAfterwards(MemoryStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        beaten = runs_beaten(behind, self._digest)
        won = super().append(entries)
        return [each and item.run not in beaten for each, item in zip(won, entries, strict=True)]


class EraseRemovesTheTombstoneToo(MemoryStore):
    def erase(self, tombstone: Entry) -> bool:
        done = super().erase(tombstone)
        if done:
            del self._journals[tombstone.run]
            self._names.remove(tombstone.run)
        return done


class TakesTheNextSeqItself(MemoryStore):
    def _append(self, entry: Entry) -> bool:
        journal = self._journals.get(entry.run)
        return super()._append(entry._replace(seq=journal[-1].seq + 1) if journal else entry)


class WinsTwiceWithTheSameId(MemoryStore):
    def _append(self, entry: Entry) -> bool:
        known = {item.entry_id for item in self._journals.get(entry.run, [])}
        return super()._append(entry) or entry.entry_id in known


class OneConflictFailsTheBatch(MemoryStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if any((head := self.last(item.run)) and item.seq <= head.seq for item in entries):
            return [False] * len(entries)
        return super().append(entries, behind)


class OutcomesInSortedOrder(MemoryStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        return super().append(sorted(entries, key=lambda item: (item.run, item.seq)), behind)


class SelectMaxThenInsert(MemoryStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        self._check_open()
        lost = runs_beaten(behind, self._digest)
        outcomes = []
        for item in entries:
            head = self.last(item.run)
            time.sleep(0.002)
            won = item.run not in lost and (head is None or item.seq > head.seq)
            outcomes.append(won)
            if won:
                self._journals.setdefault(item.run, []).append(item)
                self._names = sorted(self._journals)
            else:
                lost.add(item.run)
        return outcomes


class TrimsThoughTheMarkerLost(MemoryStore):
    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        for place, item in enumerate(self._journals.get(marker.run, [])):
            if item.seq in changes:
                self._journals[marker.run][place] = trimmed(item, changes[item.seq])
        return super().trim(marker, changes)


class TrimsInTwoSteps(MemoryStore):
    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        self._check_open()
        if not self.append([marker])[0]:
            return False
        time.sleep(0.001)
        for place, item in enumerate(self._journals[marker.run][:-1]):
            if item.seq in changes:
                self._journals[marker.run][place] = trimmed(item, changes[item.seq])
        return True


class StubsKeepTheirBody(MemoryStore):
    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        before = {item.seq: item.body for item in self.read(marker.run)}
        done = super().trim(marker, changes)
        for place, item in enumerate(self._journals.get(marker.run, [])[:-1] if done else []):
            if changes.get(item.seq, b"") is None:
                self._journals[marker.run][place] = item._replace(body=before[item.seq])
        return done


class StubsKeepTheirMeta(MemoryStore):
    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        before = {item.seq: item for item in self.read(marker.run)}
        done = super().trim(marker, changes)
        for place, item in enumerate(self._journals.get(marker.run, [])):
            if done and changes.get(item.seq, b"") is None and item.seq in before:
                self._journals[marker.run][place] = item._replace(meta=before[item.seq].meta)
        return done


class DropsWithoutAStub(MemoryStore):
    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        done = super().trim(marker, changes)
        if done:
            journal = self._journals[marker.run]
            journal[:-1] = [e for e in journal[:-1] if changes.get(e.seq, b"") is not None]
        return done


class ErasesThoughTheTombstoneLost(MemoryStore):
    def erase(self, tombstone: Entry) -> bool:
        journal = self._journals.get(tombstone.run, [])
        journal[:-1] = [item for item in journal[:-1] if item.seq >= tombstone.seq]
        return super().erase(tombstone)


class ErasesByPattern(MemoryStore):
    def erase(self, tombstone: Entry) -> bool:
        pattern = tombstone.run.replace("%", "*").replace("_", "?")
        done = super().erase(tombstone)
        for run in [run for run in self._journals if fnmatch.fnmatchcase(run, pattern)]:
            if done and run != tombstone.run:
                del self._journals[run]
                self._names.remove(run)
        return done


def _folding(name: str, fold: Callable[[str], str]) -> type[Store]:
    """A store that compares ids as a database collation or a file system might."""

    class Folding(MemoryStore):
        def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
            folded = {fold(run): digest for run, digest in behind.items()}
            return super().append([item._replace(run=fold(item.run)) for item in entries], folded)

        def read(
            self,
            run: str,
            *,
            after: int | None = None,
            limit: int = PAGE,
            newest_first: bool = False,
            bodies: bool = True,
        ) -> list[Entry]:
            found = super().read(
                fold(run), after=after, limit=limit, newest_first=newest_first, bodies=bodies
            )
            return [item._replace(run=run) for item in found]

    Folding.__name__ = name
    return Folding


class SharesItsLists(MemoryStore):
    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        if after is None and bodies and not newest_first and limit == PAGE:
            self._check_open()
            return self._journals.get(run, [])
        return super().read(run, after=after, limit=limit, newest_first=newest_first, bodies=bodies)


class RemembersItsHeads(MemoryStore):
    def last(self, run: str) -> Entry | None:
        heads: dict[str, Entry | None] = self.__dict__.setdefault("heads", {})
        if heads.get(run) is None:
            heads[run] = super().last(run)
        self._check_open()
        return heads[run]


class LatestByTime(MemoryStore):
    def last(self, run: str) -> Entry | None:
        return max(self.read(run, limit=10**6), key=lambda item: item.at, default=None)


class PagesByOffset(MemoryStore):
    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        every = super().read(run, limit=10**6, newest_first=newest_first, bodies=bodies)
        if after is None:
            return every[:limit]
        head = every[0].seq if every and newest_first else 0
        start = head - after + 1 if newest_first else after + 1
        return every[start : start + limit]


class PagesRunsByOffset(MemoryStore):
    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        pages: dict[str, int] = self.__dict__.setdefault("pages", {})
        start = pages.get(after, 0) if after else 0
        found = super().runs(where, limit=10**6)[start : start + limit]
        if found:
            pages[found[-1].run] = start + len(found)
        return found


class ReadsBodiesAnyway(MemoryStore):
    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        return super().read(run, after=after, limit=limit, newest_first=newest_first)


def _listing(
    name: str, pick: Callable[[MemoryStore, Entry, RunFilter], bool], *, fold: bool = False
) -> type[Store]:
    """A store that lists runs by another rule than the filter's own."""

    class Listing(MemoryStore):
        def runs(
            self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
        ) -> list[Entry]:
            self._check_open()
            names = sorted(self._journals, key=str.casefold if fold else None)
            heads = [self._journals[run][-1] for run in names if run > after]
            return [item._replace(body=b"") for item in heads if pick(self, item, where)][:limit]

    Listing.__name__ = name
    return Listing


def _any_entry(store: MemoryStore, head: Entry, where: RunFilter) -> bool:
    """As if the filter looked at every entry instead of the head."""
    return any(where.matches(item) for item in store._journals[head.run])


def _deleted_too(store: MemoryStore, head: Entry, where: RunFilter) -> bool:
    return where.matches(head._replace(status="open") if where.status is None else head)


def _by_pattern(store: MemoryStore, head: Entry, where: RunFilter) -> bool:
    pattern = where.prefix.replace("%", "*").replace("_", "?") + "*"
    return where._replace(prefix=head.run[:1]).matches(head) and fnmatch.fnmatchcase(
        head.run, pattern
    )


def _counting(
    name: str, pick: Callable[[Entry], bool], *, all_entries: bool = False
) -> type[Store]:
    """A store whose totals are over other runs or entries."""

    class Counting(MemoryStore):
        def stats(self, run: str | None = None) -> StoreStats:
            self._check_open()
            if run is not None and not all_entries:
                return super().stats(run)
            found = [j for name, j in self._journals.items() if run in (None, name) and pick(j[-1])]
            return totals(
                [(item._replace(size=item.size + all_entries), len(item.body)) for item in journal]
                for journal in found
            )

    Counting.__name__ = name
    return Counting


def _storing(name: str, change: Callable[[Entry], Entry]) -> type[Store]:
    """A store whose columns change what is put into them."""

    class Storing(MemoryStore):
        def _append(self, entry: Entry) -> bool:
            return super()._append(change(entry))

    Storing.__name__ = name
    return Storing


def _tidy_json(text: str) -> str:
    return json.dumps(json.loads(text)) if text else text


class WorksAfterClose(MemoryStore):
    def close(self) -> None:
        pass


class MindsASecondClose(MemoryStore):
    def close(self) -> None:
        if self._closed:
            raise StoreClosedError(self.url)
        super().close()


MUTANTS: list[type[Store]] = [
    NoPrefixRule,
    ReplacesOnConflict,
    ReplacesSilently,
    SeqsBelowTheHeadAreFree,
    AllowsGaps,
    BeginsAnywhere,
    TrimsBeyondGaps,
    OneGapFailsTheBatch,
    IgnoresTheDigest,
    TakesNoHeadForAnyHead,
    TakesAnyDigestWhereNoHeadIs,
    ComparesEveryEntryWithTheDigest,
    OneForeignHeadFailsTheBatch,
    ChecksTheDigestAfterwards,
    EraseRemovesTheTombstoneToo,
    TakesTheNextSeqItself,
    WinsTwiceWithTheSameId,
    OneConflictFailsTheBatch,
    OutcomesInSortedOrder,
    SelectMaxThenInsert,
    TrimsThoughTheMarkerLost,
    TrimsInTwoSteps,
    StubsKeepTheirBody,
    StubsKeepTheirMeta,
    DropsWithoutAStub,
    ErasesThoughTheTombstoneLost,
    ErasesByPattern,
    _folding("FoldsCase", str.casefold),
    _folding("NormalisesIds", lambda run: unicodedata.normalize("NFC", run)),
    _folding("TrimsBlanks", lambda run: run.rstrip(" ") or " "),
    _folding("CutsLongIds", lambda run: run[:255]),
    _folding("StopsAtNothing", lambda run: run.replace("../", "")),
    SharesItsLists,
    RemembersItsHeads,
    LatestByTime,
    PagesByOffset,
    PagesRunsByOffset,
    ReadsBodiesAnyway,
    _listing("ForgetsTheType", lambda s, head, where: where._replace(type=None).matches(head)),
    _listing("ForgetsTheOwner", lambda s, head, where: where._replace(owner=None).matches(head)),
    _listing("FiltersByAnyEntry", _any_entry),
    _listing("TakesThePrefixForAPattern", _by_pattern),
    _listing(
        "ListsHidden",
        lambda s, head, where: where.matches(head._replace(run=head.run.lstrip(HIDDEN))),
    ),
    _listing("ListsDeleted", _deleted_too),
    _listing("SortsLikeADictionary", lambda s, head, where: where.matches(head), fold=True),
    _counting("CountsHidden", lambda head: True),
    _counting(
        "CountsWhatHasNoState", lambda head: not head.run.startswith(HIDDEN), all_entries=True
    ),
    _storing("TidiesItsJson", lambda item: item._replace(meta=_tidy_json(item.meta))),
    _storing("EmptyIsNull", lambda item: item._replace(step=item.step or None)),
    _storing("ClockInFloats", lambda item: item._replace(at=int(float(item.at)))),
    _storing(
        "TextBodies", lambda item: item._replace(body=item.body.decode(errors="replace").encode())
    ),
    _storing("CutsAtNul", lambda item: item._replace(entry_id=item.entry_id.split(b"\0")[0])),
    _storing("CutsLongBodies", lambda item: item._replace(body=item.body[: 2**20])),
    WorksAfterClose,
    MindsASecondClose,
]


class WorksOutsideTheTransaction(SQLiteStore):
    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        super().append_with([], work)
        return self.append(entries, behind)


class WorksAfterTheTransaction(SQLiteStore):
    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        outcomes = self.append(entries, behind)
        if all(outcomes):
            super().append_with([], work)
        return outcomes


class WorksBehindAnyDigest(SQLiteStore):
    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        return super().append_with(entries, work)


class KeepsWorkOnConflict(SQLiteStore):
    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        outcomes = super().append_with(entries, work, behind)
        if not all(outcomes):
            super().append_with([], work)
        return outcomes


class KeepsTheOthersOnConflict(SQLiteStore):
    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        outcomes = super().append_with(entries, work, behind)
        return outcomes if all(outcomes) else self.append(entries, behind)


class CommitsWhenWorkFails(SQLiteStore):
    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        mistakes: list[BaseException] = []

        def patient(cursor: object) -> None:
            try:
                work(cursor)
            except BaseException as error:  # noqa: BLE001 - all of them
                mistakes.append(error)

        outcomes = super().append_with(entries, patient, behind)
        if mistakes:
            raise WorkFailedError(mistakes[0])
        return outcomes


class LetsWorkCommit(SQLiteStore):
    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        with self._db.transaction("") as db:
            heads = dict(behind)
            place = lambda item: _insert_next(db, item, heads.pop(item.run, None))  # noqa: E731
            if not all(outcomes(entries, place)):
                db.execute("ROLLBACK")
                db.execute("BEGIN")
                return [False] * len(entries)
            with closing(db.cursor()) as cursor:
                try:
                    work(cursor)
                except BaseException as error:
                    raise WorkFailedError(error) from error
            if not db.in_transaction:
                db.execute("BEGIN")
            return [True] * len(entries)


class LeavesTheCursorOpen(SQLiteStore):
    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        def leak(cursor: object) -> None:
            work(self._db.writer().cursor())

        return super().append_with(entries, leak, behind)


class ShowsErrorsOfWorkAsItsOwn(SQLiteStore):
    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        try:
            return super().append_with(entries, work, behind)
        except WorkFailedError as failed:
            raise StoreError(str(failed.error)) from failed


TRANSACTIONAL_MUTANTS: list[type[SQLiteStore]] = [
    WorksOutsideTheTransaction,
    WorksAfterTheTransaction,
    WorksBehindAnyDigest,
    KeepsWorkOnConflict,
    KeepsTheOthersOnConflict,
    CommitsWhenWorkFails,
    LetsWorkCommit,
    LeavesTheCursorOpen,
    ShowsErrorsOfWorkAsItsOwn,
]
