"""A few connections to a server, opened when needed and shared between threads."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from holdfast.errors import StoreClosedError, StoreUnavailableError
from holdfast.seams import on_fork

CONNECTIONS: Final = 8
POOL_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 30.0


class Limits(NamedTuple):
    """How many connections there are, and how long to wait for one and for an answer."""

    connections: int
    pool_seconds: float
    answer_seconds: float


_inherited: list[object] = []
"""Connections of the parent process: to close one would end the parent's session."""


class Connection(Protocol):
    """What the pool needs of a driver's connection."""

    def close(self) -> object:
        """Close the connection."""


C = TypeVar("C", bound=Connection)


class Pool(Generic[C]):
    """A few connections; if none is free, wait for one.

    A connection is kept only if it `rests`: open, and in no transaction. One that its server has
    closed meanwhile is noticed before it is used.
    """

    def __init__(
        self,
        url: str,
        connect: Callable[[], C],
        *,
        fileno: Callable[[C], int],
        rests: Callable[[C], bool],
        limits: Limits,
    ) -> None:
        if limits.connections < 2:
            raise ValueError(
                "connections must be at least 2: commit= may read from the store while it writes"
            )
        self._url = url
        self._connect = connect
        self._fileno = fileno
        self._rests = rests
        self._limits = limits
        self._closed = False
        self._idle: list[C] = []
        self._fill()
        on_fork(self._in_child)

    @contextmanager
    def connection(self) -> Iterator[C]:
        """Lend a connection."""
        permits = self._permits
        try:
            permits.get(timeout=self._limits.pool_seconds)
        except Empty:
            raise StoreUnavailableError(
                f"{self._url}: all {self._limits.connections} connections were in use for "
                f"{self._limits.pool_seconds:g} seconds; open the store with more connections="
            ) from None
        try:
            db = self._take()
            interrupted = True  # by Ctrl-C, maybe in the middle of an answer
            try:
                yield db
                interrupted = False
            except Exception:
                interrupted = False
                raise
            finally:
                if interrupted or self._closed or not self._rests(db):
                    _close(db)
                else:
                    self._idle.append(db)
        finally:
            permits.put(None)

    def close(self) -> None:
        """Close idle connections now, and others when they come back."""
        self._closed = True
        while self._idle:
            with suppress(IndexError):
                _close(self._idle.pop())

    def _take(self) -> C:
        if self._closed:
            raise StoreClosedError(self._url)
        while self._idle:
            try:
                db = self._idle.pop()
            except IndexError:
                break
            if not _readable(self._fileno(db)):
                return db
            _close(db)  # an idle connection has something to read only when the server closed it
        return self._connect()

    def _fill(self) -> None:
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(self._limits.connections):
            self._permits.put(None)

    def _in_child(self) -> None:
        for db in self._idle:
            with suppress(OSError):
                os.close(self._fileno(db))  # our copy; the parent keeps its own
        _inherited.extend(self._idle)
        self._idle = []
        self._fill()


def _close(db: Connection) -> None:
    # Drivers raise many kinds of errors for a server that is gone.
    with suppress(Exception):
        db.close()


def _readable(fileno: int) -> bool:
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    return bool(poll.poll(0))
