"""Entries on their way to a store, and what their outcome depends on.

The fence rests on `Line`: after a conflict or an unknown outcome the line is broken, and
everything else queued on it fails until its owner has read the head again and drawn a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeAlias

from holdfast.errors import HoldfastError, OutcomeUnknownError
from holdfast.model import Entry
from holdfast.store import Work

if TYPE_CHECKING:
    import asyncio

    from holdfast.kernel.draft import Draft

_PLACEHOLDER_SECONDS: Final = 1.0  # whoever is to resolve one may be gone, by Ctrl-C

Waiter: TypeAlias = "threading.Event | asyncio.Future[None]"
"""An event to set, or a future to finish on its loop."""


class Line:
    """What one owner believes about one run's head; broken once it was found to be wrong."""

    __slots__ = ("broken",)

    def __init__(self) -> None:
        self.broken = False


class Ticket:
    """Entries of one run on their way to the store. Resolved exactly once.

    With `work`, a `Transactional` store runs it in the transaction that appends them. It may be
    called more than once, if what an earlier call wrote is gone, and in any thread.
    """

    __slots__ = (
        "began", "behind", "deadline", "done", "drafts", "entries", "error", "line", "size", "told",
        "unknown", "waiters", "work",
    )  # fmt: skip

    size: int  # bytes in memory, about; set when it is queued

    def __init__(
        self,
        entries: Sequence[Entry],
        line: Line,
        deadline: float,
        work: Work | None = None,
        drafts: Sequence[Draft] = (),
        behind: bytes | None = None,
        told: Callable[[Ticket], None] | None = None,
    ) -> None:
        self.entries = entries
        self.behind = behind  # the digest of the entry before the first; None if it is not known
        self.drafts = drafts  # what they were made of, to be placed again if they lose
        self.line = line
        self.deadline = deadline
        self.work = work
        self.told = told  # is called with the outcome; must not block or raise
        self.began = 0.0 if told is None else perf_counter()
        self.done = False  # the outcome is known: `error` is final, and None means durable
        self.error: HoldfastError | None = None
        self.unknown = False  # a commit failed, and what it left could not be looked at yet
        # No lock: whoever resolves sets `done` before looking for waiters, and a waiter is here
        # before it looks at `done`, so one of the two sees the other.
        self.waiters: list[Waiter] = []

    def builds_on(self, seq: int, digest: bytes) -> bool:
        """Whether a store whose head this is has, as far as one can see, what it builds on."""
        before = self.entries[0].seq - 1
        return seq > before or (seq == before and self.behind in (None, digest))

    def wait(self) -> None:
        """Block until the outcome is known, or it is time to look after a placeholder again."""
        event = threading.Event()
        self.waiters.append(event)
        if not self.done:
            event.wait(None if self.entries else _PLACEHOLDER_SECONDS)

    def future(self) -> asyncio.Future[None]:
        """A future of the running loop that is done when `wait` would return."""
        loop = running_loop()
        future = loop.create_future()
        self.waiters.append(future)
        if self.done and not future.done():
            future.set_result(None)
        elif not self.entries:
            loop.call_later(_PLACEHOLDER_SECONDS, finish, [future])
        return future

    def resolve(self, error: HoldfastError | None) -> None:
        """Set the outcome, once."""
        if error is not None:
            self.line.broken = True
            self.error = error
        self.done = True
        if self.told is not None:
            self.told(self)


def digests_behind(tickets: Sequence[Ticket]) -> dict[str, bytes]:
    """For `Store.append`: by run, what the first of its tickets builds on, as far as it is known."""
    found: dict[str, bytes] = {}
    for ticket in reversed(tickets):
        run = ticket.entries[0].run
        if ticket.behind is None:
            found.pop(run, None)
        else:
            found[run] = ticket.behind
    return found


def wake(tickets: Sequence[Ticket]) -> None:
    """Wake the waiters of all tickets that are done, each event loop once."""
    wake_waiters(waiter for ticket in tickets if ticket.done for waiter in ticket.waiters)


def wake_waiters(waiters: Iterable[Waiter]) -> None:
    """Wake these, each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for waiter in waiters:
        if isinstance(waiter, threading.Event):
            waiter.set()
        else:
            loops.setdefault(waiter.get_loop(), []).append(waiter)
    for loop, futures in loops.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(finish, futures)


def fail_all(tickets: Sequence[Ticket], error: OutcomeUnknownError) -> None:
    """Resolve the tickets with this error, each for its own run."""
    for ticket in tickets:
        own = type(error)(ticket.entries[0].run, error.reason)
        own.__cause__ = error
        ticket.resolve(own)


def finish(futures: list[asyncio.Future[None]]) -> None:
    """Set the results of those that have none; on their own loop."""
    for future in futures:
        if not future.done():
            future.set_result(None)


def running_loop() -> asyncio.AbstractEventLoop:
    """The event loop that runs here.

    asyncio is imported when first needed: that is a third of the time it takes to import
    holdfast, and a blocking program need not pay it.
    """
    import asyncio

    return asyncio.get_running_loop()
