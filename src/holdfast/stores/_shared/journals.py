"""Journals without a query language: pages, totals, and appends in parts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from holdfast.errors import HoldfastError, OutcomeUnknownError
from holdfast.model import CARRY_STATE, Entry
from holdfast.store import StoreStats

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
    parts: Iterable[Sequence[int]],
    append: Callable[[list[Entry]], list[bool]],
) -> list[bool]:
    """Append entries part by part; each of `parts` has the places of entries for one `append`.

    If a part fails after others were written, the outcome is unknown.
    """
    outcomes = [False] * len(entries)
    for part in parts:
        try:
            won = append([entries[place] for place in part])
        except HoldfastError as error:
            if any(outcomes):
                raise OutcomeUnknownError(entries[part[0]].run, str(error)) from error
            raise
        for place, outcome in zip(part, won, strict=True):
            outcomes[place] = outcome
    return outcomes


def totals(journals: Iterable[Iterable[tuple[Entry, int]]]) -> StoreStats:
    """Totals over journals, given as entries and the sizes of their bodies."""
    runs = checkpoints = state_bytes = stored_bytes = 0
    oldest: int | None = None
    newest: int | None = None
    for journal in journals:
        before = checkpoints
        for entry, stored in journal:
            if entry.size > 0 and entry.kind in CARRY_STATE:
                checkpoints += 1
                state_bytes += entry.size
                stored_bytes += stored
                oldest = entry.at if oldest is None else min(oldest, entry.at)
                newest = entry.at if newest is None else max(newest, entry.at)
        runs += checkpoints > before
    return StoreStats(runs, checkpoints, state_bytes, stored_bytes, oldest, newest)
