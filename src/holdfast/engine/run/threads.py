"""The threads in which sync steps run, unless they are given an executor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, TypeVar

T = TypeVar("T")

_THREADS: Final = 32
_DEPTH: ContextVar[int] = ContextVar("holdfast_depth", default=0)
"""How many steps that run in a thread are around this one."""


class ProcessEndsError(BaseException):
    """The process ends while the run is under way. The step did not fail: a resume tries it."""


class Threads:
    """Calls functions in threads, so many at a time.

    A call that nobody waits for any more does not count, though no thread can be stopped: a step
    that hangs must not keep others from being executed.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._waiting: deque[_Call] = deque()
        self._working: set[_Worker] = set()  # whose calls are waited for
        self._pooled: set[_Worker] = set()  # in a thread of the pool, if only for a call given up
        self._pool = ThreadPoolExecutor(limit, "holdfast-step")

    async def call(self, fn: Callable[[], Any], begins: Callable[[], object] = object) -> Any:
        """What the function returns or raises. If this is cancelled, its thread is given up.

        `begins` is called first, unless that comes too late for the function to be called at all.
        Raises `RuntimeError` if no thread can be started.
        """
        call = _Call(fn, begins)
        with self._lock:
            try:
                self._waiting.append(call)
                self._begin()
            except BaseException:
                self._waiting.remove(call)
                raise
        try:
            return await call.future
        except asyncio.CancelledError:
            self._give_up(call)
            raise

    def _begin(self) -> None:
        """Have one more thread do what waits, unless enough are at it."""
        if len(self._working) == self._limit:
            return
        worker = _Worker()
        try:
            self._working.add(worker)
            if len(self._pooled) < self._limit:
                self._pooled.add(worker)
                submit(self._pool, self._work, worker)
            else:  # threads are occupied by calls given up: this one ends with its work
                spare = ThreadPoolExecutor(1, "holdfast-step-spare")
                submit(spare, self._work, worker)
                spare.shutdown(wait=False)
        except BaseException:
            self._leave(worker)
            raise

    def _work(self, worker: _Worker) -> None:
        while (call := self._next(worker)) is not None:
            call.execute()

    def _next(self, worker: _Worker) -> _Call | None:
        with self._lock:
            if worker in self._working and self._waiting:
                worker.call = self._waiting.popleft()
                worker.call.begins()  # with the lock: who gives it up knows whether it has begun
            else:
                worker.call = None
                self._leave(worker)
            return worker.call

    def _leave(self, worker: _Worker) -> None:
        self._working.discard(worker)
        self._pooled.discard(worker)

    def _give_up(self, call: _Call) -> None:
        """Another takes the place of the thread that is occupied by this, if it is."""
        with self._lock:
            if call in self._waiting:
                self._waiting.remove(call)
                return
            for worker in self._working:
                if worker.call is call:
                    self._working.remove(worker)
                    break
            if self._waiting:
                with contextlib.suppress(RuntimeError, ProcessEndsError):
                    self._begin()


class _Worker:
    """What occupies a thread."""

    call: _Call | None = None


class _Call:
    """A function to be called, and who waits for what it returns."""

    def __init__(self, fn: Callable[[], Any], begins: Callable[[], object]) -> None:
        self._fn = fn
        self.begins = begins
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def execute(self) -> None:
        try:
            self._tell(self._fn(), None)
        except BaseException as error:
            self._tell(None, error)
            del self  # the error's traceback leads here

    def _tell(self, result: Any, error: BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(_settle, self.future, result, error)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return  # cancelled
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def submit(executor: Executor, fn: Callable[..., T], *args: Any) -> Future[T]:
    """Call a function on an executor. Raises `ProcessEndsError` if it accepts nothing any more."""
    try:
        return executor.submit(fn, *args)
    except RuntimeError as error:
        if "interpreter shutdown" in str(error):
            raise ProcessEndsError from None
        raise


def threads() -> Threads:
    """The threads for the steps of the flow that runs here.

    A flow that a step runs has others than the step: steps that occupy all threads and wait for
    what they run would wait forever.
    """
    return _threads_of(os.getpid(), _DEPTH.get())


def in_thread(step: Callable[[], T]) -> T:
    """Call a step in a thread, in a context of its own."""
    _DEPTH.set(_DEPTH.get() + 1)
    return step()


@cache
def _threads_of(pid: int, depth: int) -> Threads:  # a child of fork() has none: it makes its own
    return Threads(_THREADS)


def carried(fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a user's function for a future, which can't carry a `StopIteration`: who waits for it
    would never hear of it.
    """
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError(f"it raised {error!r}") from error
