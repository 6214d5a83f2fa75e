"""A whole store, many journals at a time, by several processes where that helps."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.reader import all_heads
from holdfast.model import HIDDEN, Entry, erases
from holdfast.store import PAGE, Store

T = TypeVar("T")

ENTRIES: Final = 2 * PAGE  # of a page, at most, and
_BYTES: Final = 4 << 20  # about so many of bodies, as far as the page before tells
_MANY: Final = 2_000  # runs, for which more processes pay


LAST_HIDDEN: Final = HIDDEN + chr(0x10FFFF)
"""Behind all internal journals, before all runs."""


class Journal(NamedTuple):
    """One of many that were read at once."""

    name: str
    head: Entry | None = None  # None if that is not known from it
    entries: list[Entry] | None = None
    """All of them, if their seqs are 0, 1, 2 ... to the head's; else it is read by itself."""


class Page(NamedTuple):
    """Some journals of a store, in the order of their names."""

    after: str  # the name behind which it begins
    journals: list[Journal]
    limit: int  # how many entries the next page should have

    @property
    def last(self) -> str:
        """The name behind which the next page begins."""
        return self.journals[-1].name


def page(store: Store, after: str, limit: int = ENTRIES) -> Page | None:
    """The journals behind a name, as many as fit; None at the end. The store can be scanned."""
    try:
        found = store.scan(after, limit=limit) or []
    except CheckpointCorruptedError:  # somewhere: whoever reads them one by one finds out where
        names = (head.run for head in all_heads(store) if head.run > after)
        alone = [Journal(name) for name in islice(names, PAGE)]
        return Page(after, alone, limit) if alone else None
    if not found:
        return None
    each: dict[str, list[Entry]] = {}
    for entry in found:
        each.setdefault(entry.run, []).append(entry)
    journals = [_journal(name, each[name]) for name in sorted(each)]
    if len(found) == limit:  # the last one may be cut: the next page begins with it
        journals = journals[:-1] or [Journal(found[0].run)]
    weight = sum(len(entry.body) for entry in found) // len(found) + 1
    return Page(after, journals, max(2, min(ENTRIES, _BYTES // weight)))


def _journal(name: str, entries: list[Entry]) -> Journal:
    """A journal of which these entries were read: nothing may be missing, erased or misplaced."""
    plain = all(entry.seq == at and not erases(entry) for at, entry in enumerate(entries))
    return Journal(name, entries[-1], entries if plain else None)


def spread(
    store: Store, work: Callable[[Page], T], *, after: str = "", processes: int = 1
) -> Iterator[T]:
    """What `work` makes of each page of the store behind a name, in order.

    With several `processes`, it is called in children of this one (see `processes_for`): what it
    returns must be picklable, and what it raises is raised here.
    """
    if processes > 1:
        from holdfast.operations.processes import Children  # which few need

        with Children(store, work, after, processes) as children:
            yield from children.results()
        return
    found = page(store, after)
    while found is not None:
        yield work(found)
        found = page(store, found.last, found.limit)


@contextmanager
def beside(store: Store, call: Callable[[], T], *, processes: int) -> Iterator[Callable[[], T]]:
    """Call something while this process does other things; gives what waits for the result.

    Where `spread` would use one process, it is called when the result is asked for.
    """
    if processes_for(store, processes) == 1:
        yield call
        return
    from holdfast.operations.processes import Aside

    with Aside(call) as child:
        yield child.result


def can_be_scanned(store: Store) -> bool:
    """Whether a whole store is read faster than run by run."""
    return store.scan(limit=1) is not None


def processes_for(store: Store, most: int) -> int:
    """How many processes should read a whole store: 1 where it is small, or can't be shared.

    Children are forked: they have the keys, and open connections of their own. So this process
    must have no other threads.
    """
    alone = threading.active_count() == 1
    forks = sys.platform == "linux" and store.shared and not store.inline
    if most == 1 or not (forks and alone) or sum(store.counts().values()) < _MANY:
        return 1
    return min(most, len(os.sched_getaffinity(0)))
