"""Answers of the heads index from the journals themselves: slow, and always right.

Stores without an index use this, and the contract compares those that have one with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING

from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import Position, RunHead, Tally, applied, change_of, differences, fold, glimpse
from holdfast.model import HIDDEN, Entry, Kind, Status

if TYPE_CHECKING:
    from holdfast.store import RunFilter, Store


def rows(store: Store) -> Iterator[tuple[RunHead, Entry]]:
    """The row of every run, with its head; of a damaged run, as far as it can be read."""
    for head in _heads(store):
        entries, damaged = readable(store, head.run)
        found = fold(entries) or (glimpse(head) if damaged else None)
        if found is not None:
            yield found, head


def listed(
    store: Store, where: RunFilter, before: Position | None, limit: int
) -> list[tuple[RunHead, Entry]]:
    """`Store.listed`."""
    found = (
        (row, head)
        for row, head in rows(store)
        if where.lists(row, head) and (before is None or row.position < before)
    )
    return nlargest(limit, found, key=lambda pair: pair[0].position)


def row(store: Store, run: str) -> RunHead | None:
    """`Store.row`."""
    return None if run.startswith(HIDDEN) else fold(readable(store, run)[0])


def entries_at(store: Store, places: Sequence[tuple[str, int]], bodies: bool) -> list[Entry]:
    """`Store.entries_at`."""
    found = []
    for run, seq in places:
        page = store.read(run, after=seq - 1, limit=1, bodies=bodies)
        found += [entry for entry in page if entry.seq == seq]
    return found


def fits(where: RunFilter, row: RunHead) -> bool:
    """Whether a row matches, whatever type its head has."""
    return where._replace(type=None).lists(row, None)  # type: ignore[arg-type]


def due(store: Store, now: int, flows: Collection[str] | None, limit: int) -> list[RunHead]:
    """`Store.due`."""
    return nsmallest(limit, due_among((row for row, _ in rows(store)), now, flows), key=due_order)


def due_among(
    found: Iterable[RunHead], now: int, flows: Collection[str] | None
) -> Iterator[RunHead]:
    """Those of the rows that are due."""
    for row in found:
        wanted = flows is None or row.flow in flows or row.parent is not None
        if row.due is not None and row.due <= now and wanted:
            yield row


def due_order(row: RunHead) -> tuple[int, str]:
    """The order of `Store.due`."""
    assert row.due is not None
    return row.due, row.run


def holders(store: Store) -> dict[str, int]:
    """`Store.holders`."""
    return dict(Counter(row.holder for row, _ in rows(store) if row.holder is not None))


def counts(store: Store, where: RunFilter) -> dict[str, int]:
    """`Store.counts`."""
    return dict(Counter(row.status for row, head in rows(store) if where.lists(row, head)))


def tally(store: Store, since: int, until: int, flow: str | None) -> list[Tally]:
    """`Store.tally`, for the hours from `since` on and before `until`."""
    found = (each for head in _heads(store) for each in tallied(readable(store, head.run)[0]))
    return of_hours(found, since, until, flow)


def of_hours(found: Iterable[Tally], since: int, until: int, flow: str | None) -> list[Tally]:
    """The numbers of some hours added up: those of one flow, or of all, which then have no name."""
    return summed(
        each._replace(flow=flow or "")
        for each in found
        if since <= each.hour < until and flow in (None, each.flow)
    )


def tallied(journal: Iterable[Entry]) -> Iterator[Tally]:
    """What a run adds to the statistics, as far as its journal still says."""
    row = None
    for entry in journal:
        if entry.status == Status.DELETED and entry.kind != Kind.TOMBSTONE:
            continue
        change = change_of([entry])
        if change is not None:
            yield from differences(row, change)
            row = applied(row, change)


def summed(found: Iterable[Tally]) -> list[Tally]:
    """Numbers of the same thing added up, in order; those that come to nothing are left out."""
    numbers: Counter[tuple[int, str, str, int]] = Counter()
    totals: Counter[tuple[int, str, str, int]] = Counter()
    for each in found:
        numbers[each[:4]] += each.n
        totals[each[:4]] += each.total
    return [Tally(*key, numbers[key], totals[key]) for key in sorted(numbers) if numbers[key]]


def _heads(store: Store) -> Iterator[Entry]:
    page = store.runs()
    while page:
        yield from page
        page = store.runs(after=page[-1].run)


def readable(store: Store, run: str) -> tuple[list[Entry], bool]:
    """The entries of a run before the first that can't be read, and whether there is such a one."""
    found: list[Entry] = []
    try:
        for entry in journal(store, run):
            found.append(entry)  # noqa: PERF402 - what was found before an error counts
    except CheckpointCorruptedError:
        return found, True
    return found, False


def journal(store: Store, run: str) -> Iterator[Entry]:
    """All entries of a run, without bodies."""
    page = store.read(run, bodies=False)
    while page:
        yield from page
        page = store.read(run, after=page[-1].seq, bodies=False)
