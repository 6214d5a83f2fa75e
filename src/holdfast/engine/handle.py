"""The handle of a run: to wait for it, follow its events, pause and cancel it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from holdfast.engine import launch
from holdfast.engine.blocking import blocking, loop_runs_here
from holdfast.engine.events import Event
from holdfast.engine.launch import Prepared, Recorded
from holdfast.engine.run.loop import Run
from holdfast.errors import RunStoppedError
from holdfast.model import Status

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

R_co = TypeVar("R_co", covariant=True)

_RECENT: Final = 1000
"""So many events are kept for those who begin to follow a run later."""


class RunHandle(Generic[R_co]):
    """A run: `await` it for its result, or call `result()` in a program without an event loop.

    Dropping the handle changes nothing about the run.
    """

    def __init__(
        self,
        engine: Engine,
        run_id: str,
        flow: str,
        started: Started | None,
        *,
        new: bool = False,
    ) -> None:
        self.id = run_id
        self.flow = flow
        self.new = new  # whether `submit` made it; False if it was there before
        self._engine = engine
        self._started = started

    def __await__(self) -> Generator[Any, Any, R_co]:
        if self._started is None:
            result: R_co = yield from self._engine.outcome(self.id).__await__()
        else:
            done = asyncio.wrap_future(self._started.done)
            done.add_done_callback(_retrieve)  # who waits may have given up
            result = yield from asyncio.shield(done).__await__()
        return result

    def result(self, timeout: float | None = None) -> R_co:
        """Block until the run ends. Raises the error that ended it, or `TimeoutError`."""
        if loop_runs_here():
            raise RuntimeError("an event loop is running here: `await` the handle instead")
        if self._started is None:
            result: R_co = self._engine.outcome_sync(self.id, timeout=timeout)
        else:
            result = self._started.done.result(timeout)
        return result

    def done(self) -> bool:
        """Whether a run that this engine started has stopped."""
        return self._started is not None and self._started.done.done()

    def events(self) -> AsyncIterator[Event]:
        """The events of a run that this engine started: the newest 1,000, then those to come."""
        if self._started is None:
            raise RuntimeError(
                f"run {self.id!r} was not started by this engine: follow it with `holdfast watch`, "
                "or execute it with engine.resume_stream(...)"
            )
        return self._started.events.follow()

    async def status(self) -> Status:
        """The run's status, according to its journal. Raises `CheckpointNotFoundError`."""
        return await self._engine.status(self.id)

    async def cancel(self, reason: str = "", *, by: str | None = None) -> None:
        """Cancel the run: its rollbacks run, and it is over. `by` says who asks for it."""
        await self._engine.cancel(self.id, reason, by=by)

    async def pause(self, reason: str = "", *, by: str | None = None) -> None:
        """Stop the run after the steps that are under way, to be resumed later."""
        await self._engine.pause(self.id, reason, by=by)

    status_sync = blocking(status)
    cancel_sync = blocking(cancel)
    pause_sync = blocking(pause)

    def __repr__(self) -> str:
        return f"<run {self.id!r}{f' of {self.flow!r}' if self.flow else ''}>"


def _retrieve(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()


class Started:
    """A run that is executed in a task of its own, and how it ended."""

    def __init__(self, events: EventLog) -> None:
        self.events = events
        self.done: Future[Any] = Future()
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._run_id = ""

    def execute(self, ready: Prepared | Recorded, at_end: Callable[[], None]) -> None:
        """Begin to execute it, on the event loop that runs here."""
        self._run_id = ready.run_id
        if isinstance(ready, Prepared):
            ready.run.events = self.events
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(_executed(ready))
        run = ready.run if isinstance(ready, Prepared) else None
        self._task.add_done_callback(partial(self._end, at_end, run))

    async def stop(self) -> None:
        """Stop executing it, and leave it to be resumed."""
        task, loop = self._task, self._loop
        if task is None or loop is None or task.done() or not loop.is_running():
            return  # it has stopped, or its loop has: nobody would hear of it
        loop.call_soon_threadsafe(task.cancel)
        done = asyncio.wrap_future(self.done)
        await asyncio.wait([done])
        done.exception()  # retrieved, or asyncio would log it: the run's handle raises it

    def _end(self, at_end: Callable[[], None], run: Run | None, task: asyncio.Task[Any]) -> None:
        if run is not None:
            run.hold.presence.forget(run)
            if run.task is None:  # it was cancelled before it began
                run.leave()
        try:
            at_end()
        finally:  # whatever happens there: others wait for the outcome
            if task.cancelled():
                self.done.set_exception(RunStoppedError(self._run_id))
            elif (error := task.exception()) is not None:
                self.done.set_exception(error)
            else:
                self.done.set_result(task.result())
            self.events.close()


async def _executed(ready: Prepared | Recorded) -> Any:
    """Execute a run; an exit in it ends it alone, not the event loop with all others."""
    try:
        return await launch.execute(ready)
    except (SystemExit, KeyboardInterrupt) as error:
        raise RunStoppedError(ready.run_id) from error


class EventLog(deque[Event]):
    """The newest events of a run, and those who follow it."""

    def __init__(self) -> None:
        super().__init__(maxlen=_RECENT)
        self._followers: set[_Follower] = set()
        self._over = False
        self._lock = threading.Lock()

    def append(self, event: Event) -> None:
        """Something happened."""
        with self._lock:
            super().append(event)
            followers = tuple(self._followers)
        for follower in followers:
            follower.put(event)

    def close(self) -> None:
        """Nothing more will happen."""
        with self._lock:
            self._over = True
            followers = tuple(self._followers)
        for follower in followers:
            follower.put(None)

    async def follow(self) -> AsyncIterator[Event]:
        """The events from the oldest that is kept to the last, in any thread's event loop."""
        follower = _Follower(asyncio.get_running_loop())
        with self._lock:
            for event in self:
                follower.put(event)
            if self._over:
                follower.put(None)
            self._followers.add(follower)
        try:
            while (news := await follower.next()) is not None:
                yield news
        finally:
            with self._lock:
                self._followers.discard(follower)


class _Follower:
    """The events that one consumer has not seen yet. None is their end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._events: deque[Event | None] = deque()
        self._bell = asyncio.Event()

    def put(self, event: Event | None) -> None:
        self._events.append(event)
        with contextlib.suppress(RuntimeError):  # its loop is closed: nobody follows any more
            self._loop.call_soon_threadsafe(self._bell.set)

    async def next(self) -> Event | None:
        while not self._events:
            self._bell.clear()
            await self._bell.wait()
        return self._events.popleft()
