"""What is stored, as one who opens the store only now finds it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import holdfast as hf
from holdfast.model import Entry, Status
from tests.crash.engine_check import Journal, dump

SLOT = "\x1fprocess\x1f"


def journals(url: str) -> dict[str, Journal]:
    """Every run, verified."""
    found = dump(url)
    problems = {run: journal.problems for run, journal in found.items() if journal.problems}
    assert problems == {}
    return found


def statuses(url: str) -> dict[str, str]:
    """How every run stands, child runs included."""
    return {run: journal.status for run, journal in journals(url).items()}


def failures(url: str) -> dict[str, list[Any]]:
    """What is recorded as failed, by run: the journals' error entries."""
    return {
        run: [(e.step, e.value) for e in journal.entries if e.status == Status.FAILED]
        for run, journal in journals(url).items()
        if any(e.status == Status.FAILED for e in journal.entries)
    }


def slots(url: str) -> list[Entry]:
    """The rows of the processes that use the store, or used it."""
    with closing(hf.open_store(url)) as store:
        return rows(store)


def rows(store: hf.Store) -> list[Entry]:
    """The same, of an open store."""
    found: list[Entry] = []
    while (row := store.last(f"{SLOT}{len(found)}")) is not None:
        found.append(row)
    return found
