"""Totals for the stores that have no query language to make them."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model import CARRY_STATE, Entry
from holdfast.store import StoreStats


def totals(journals: Iterable[Iterable[tuple[Entry, int]]]) -> StoreStats:
    """Sum up journals, given as entries with the sizes of their bodies.

    Only checkpoints count, and only runs that have one.
    """
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
