"""Answers of the heads index from the journals themselves: slow, and always right.

Stores without an index use this, and the contract compares those that have one with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING

from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import Position, RunHead, Tally, applied, change_of, differences, fold
from holdfast.model import Entry, Kind, Status

if TYPE_CHECKING:
    from holdfast.store import RunFilter, Store


def rows(store: Store) -> Iterator[tuple[RunHead, Entry]]:
    """The row of every run, with its head; runs that can't be read are left out."""
    for head in _heads(store):
        try:
            row = fold(journal(store, head.run))
        except CheckpointCorruptedError:
            continue
        if row is not None:
            yield row, head


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


def tally(store: Store, since: int, until: int) -> list[Tally]:
    """`Store.tally`."""
    found = (each for head in _heads(store) for each in tallied(journal(store, head.run)))
    return [each for each in summed(found) if since <= each.hour < until]


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


def journal(store: Store, run: str) -> Iterator[Entry]:
    """All entries of a run, without bodies."""
    page = store.read(run, bodies=False)
    while page:
        yield from page
        page = store.read(run, after=page[-1].seq, bodies=False)
