"""Processes that read a whole store together.

The pages of the store are read one after the other, each by whichever process is free: who has the
token reads the next page, gives the token on, and works on what it read. So nobody has to know how
the ids are distributed, and no process waits for another's work.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from holdfast.errors import HoldfastError, StoreError
from holdfast.operations.spreading import ENTRIES, Page, page
from holdfast.store import Store

T = TypeVar("T")


class Children(Generic[T]):
    """Processes that read the pages of a store in turns. They end when this one does."""

    def __init__(self, store: Store, work: Callable[[Page], T], after: str, count: int) -> None:
        context = multiprocessing.get_context("fork")
        self._token = context.SimpleQueue()  # the number of the next page, and where it begins
        self._token.put((0, after, ENTRIES))
        self._ends: list[Connection] = []
        self._processes = []
        for _ in range(count):
            ours, theirs = context.Pipe(duplex=False)
            self._ends.append(ours)
            arguments = (store, work, self._token, theirs, tuple(self._ends))
            self._processes.append(context.Process(target=_child, args=arguments, daemon=True))
            _start(self._processes[-1])
            theirs.close()

    def __enter__(self) -> Children[T]:
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
                at, result = _received(end)
                if at is None:
                    working.discard(end)
                else:
                    early[at] = result
            while number in early:
                yield early.pop(number)
                number += 1


class Aside(Generic[T]):
    """One call in a process of its own, while this one does other things. It ends with this one."""

    def __init__(self, call: Callable[[], T]) -> None:
        context = multiprocessing.get_context("fork")
        self._end, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_call, args=(call, theirs, self._end), daemon=True)
        _start(self._process)
        theirs.close()

    def __enter__(self) -> Aside[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._end.close()

    def result(self) -> T:
        """What it returned, once it did; what it raised is raised here."""
        result: T = _received(self._end)[1]
        return result


def _start(process: BaseProcess) -> None:
    # Ctrl-C is for this process, which ends the other one: that keeps it blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _received(end: Connection) -> tuple[int | None, Any]:
    try:
        at, result, error = end.recv()
    except (EOFError, OSError):
        raise StoreError("a process that read the store was killed; start it again") from None
    if error is not None:
        raise error
    return at, result


def _call(call: Callable[[], object], end: Connection, other: Connection) -> None:
    other.close()
    with suppress(BrokenPipeError):
        try:
            end.send((None, call(), None))
        except HoldfastError as error:
            end.send((None, None, error))


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
