"""A whole store, many journals at a time, by several processes where that helps.

The pages of a store are read one after the other, each by whichever process is free: who has the
token reads the next page, gives the token on, and works on what it read. So nobody has to know how
the ids are distributed, and no process waits for another's work.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any, Final, Generic, NamedTuple, TypeVar

from holdfast.errors import CheckpointCorruptedError, HoldfastError, StoreError
from holdfast.kernel.reader import all_heads
from holdfast.model import HIDDEN, Entry, erases
from holdfast.store import PAGE, Store

T = TypeVar("T")

_ENTRIES: Final = 2 * PAGE  # of a page, at most, and
_BYTES: Final = 4 << 20  # about so many of bodies, as far as the page before tells
_MANY: Final = 2_000  # runs, for which more processes pay


LAST_HIDDEN: Final = HIDDEN + chr(0x10FFFF)
"""Behind all internal journals, before all runs."""


class Journal(NamedTuple):
    """One of many that were read at once."""

    name: str
    head: Entry | None = None  # None if that is not known from it
    entries: list[Entry] | None = None
    """All of them, if their seqs are 0, 1, 2 ... to the head's; else it has to be read by itself."""


class Page(NamedTuple):
    """Some journals of a store, in the order of their names."""

    after: str  # the name behind which it begins
    journals: list[Journal]
    limit: int  # how many entries the next page should have

    @property
    def last(self) -> str:
        """The name behind which the next page begins."""
        return self.journals[-1].name


def page(store: Store, after: str, limit: int = _ENTRIES) -> Page | None:
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
    return Page(after, journals, max(2, min(_ENTRIES, _BYTES // weight)))


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
        with _Children(store, work, after, processes) as children:
            yield from children.results()
        return
    found = page(store, after)
    while found is not None:
        yield work(found)
        found = page(store, found.last, found.limit)


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


class _Children(Generic[T]):
    """Processes that read the pages of a store in turns. They end with this one, however it ends."""

    def __init__(self, store: Store, work: Callable[[Page], T], after: str, count: int) -> None:
        context = multiprocessing.get_context("fork")
        self._token = context.SimpleQueue()  # the number of the next page, and where it begins
        self._token.put((0, after, _ENTRIES))
        self._ends: list[Connection] = []
        self._processes = []
        for _ in range(count):
            ours, theirs = context.Pipe(duplex=False)
            self._ends.append(ours)
            arguments = (store, work, self._token, theirs, tuple(self._ends))
            self._processes.append(context.Process(target=_child, args=arguments, daemon=True))
            # Ctrl-C is for this process, which ends them: a child keeps it blocked.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                self._processes[-1].start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def __enter__(self) -> _Children[T]:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()  # there is nothing that it would have to finish
            process.join()
        for end in self._ends:
            end.close()
        self._token.close()

    def results(self) -> Iterator[T]:
        """What they send, in the order of the pages."""
        early: dict[int, T] = {}
        number = 0
        working = set(self._ends)
        while working:
            for end in wait(list(working)):
                assert isinstance(end, Connection)
                at, result = self._received(end)
                if at is None:
                    working.discard(end)
                else:
                    early[at] = result
            while number in early:
                yield early.pop(number)
                number += 1

    def _received(self, end: Connection) -> tuple[int | None, Any]:
        try:
            at, result, error = end.recv()
        except (EOFError, OSError):
            raise StoreError("a process that read the store was killed; start it again") from None
        if error is not None:
            raise error
        return at, result


def _child(
    store: Store,
    work: Callable[[Page], object],
    token: Any,
    end: Connection,
    ends: tuple[Connection, ...],
) -> None:
    """Read pages and send what `work` makes of them, until the store's end or an error."""
    for other in ends:
        other.close()  # else nobody would notice that the parent is gone
    following: tuple[int, str, int] | None = None
    with suppress(BrokenPipeError):
        try:
            while (taken := token.get()) is not None:
                following = None
                try:
                    number, after, limit = taken
                    found = page(store, after, limit)
                    following = found and (number + 1, found.last, found.limit)
                finally:
                    token.put(following)
                if found is None:
                    break
                end.send((number, work(found), None))
            else:
                token.put(None)  # for the next one
            end.send((None, None, None))
        except HoldfastError as error:
            end.send((None, None, error))
