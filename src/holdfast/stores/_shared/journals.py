"""Journals without a query language: pages, totals, and appends in parts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from holdfast.errors import HoldfastError, OutcomeUnknownError
from holdfast.model import CARRY_STATE, Entry
from holdfast.store import Behind, StoreStats

T = TypeVar("T")


def page_of(
    journal: list[T], seq_of: Callable[[T], int], after: int | None, limit: int, newest_first: bool
) -> list[T]:
    """What `Store.read` returns of a whole journal, which is in the order of its seqs."""
    if newest_first:
        end = len(journal) if after is None else bisect_left(journal, after, key=seq_of)
        return journal[max(0, end - limit) : end][::-1]
    start = 0 if after is None else bisect_right(journal, after, key=seq_of)
    return journal[start : start + limit]


def append_in_parts(
    entries: Sequence[Entry],
    behind: Behind,
    parts: Iterable[Sequence[int]],
    append: Callable[[list[Entry], Behind], list[bool]],
) -> list[bool]:
    """Append entries part by part; each of `parts` has the places of entries for one `append`.

    A run's next part follows what was written of it in the one before, or loses. If a part fails
    after others were written, the outcome is unknown.
    """
    outcomes = [False] * len(entries)
    heads = dict(behind)
    lost: set[str] = set()
    for part in parts:
        its = [entries[place] for place in part]
        if its[0].run in lost:  # a part that continues a run has no other
            continue
        try:
            won = append(its, {run: heads[run] for run in {e.run for e in its} & heads.keys()})
        except HoldfastError as error:
            if any(outcomes):
                raise OutcomeUnknownError(entries[part[0]].run, str(error)) from error
            raise
        for place, entry, outcome in zip(part, its, won, strict=True):
            outcomes[place] = outcome
            if outcome:
                heads[entry.run] = entry.digest
            else:
                lost.add(entry.run)
    return outcomes


def totals(journals: Iterable[Iterable[tuple[Entry, int]]]) -> StoreStats:
    """Totals over journals, given as entries and the sizes of their bodies."""
    checkpoints = state_bytes = stored_bytes = 0
    oldest: int | None = None
    newest: int | None = None
    for journal in journals:
        for entry, stored in journal:
            if entry.size > 0 and entry.kind in CARRY_STATE:
                checkpoints += 1
                state_bytes += entry.size
                stored_bytes += stored
                oldest = entry.at if oldest is None else min(oldest, entry.at)
                newest = entry.at if newest is None else max(newest, entry.at)
    return StoreStats(checkpoints, state_bytes, stored_bytes, oldest, newest)
