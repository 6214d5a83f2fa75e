"""The executors that steps run on: those that were given, and those that a factory makes.

An executor of processes breaks when one of them dies, for all steps that run on it. One that a
factory made is made again, and these steps are tried again: the death is no failure of theirs.
Which of them was the cause is not known. So a step that was there twice is tried alone, on an
executor of its own. If that breaks as well, the step fails.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, cast

from holdfast.engine.run.threads import carried, submit, threads
from holdfast.errors import ExecutorBrokenError
from holdfast.logs import logger

log = logger()

ExecutorFactory = Callable[[], Executor]
RunOn = Executor | ExecutorFactory
"""Where a sync step runs: an executor, or a function that makes one."""

_TOGETHER: Final = 2  # times that an executor may break under a step before it is tried alone
_LOOK_EVERY: Final = 0.05  # seconds, while another step is tried alone


class WorkLostError(BrokenExecutor):
    """Says by itself that an executor lost a call: nobody knows whether it was finished."""


class ExecutorBrokeError(Exception):
    """A factory's executor broke under a step. The step did not fail: it is tried again."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def as_failure(self, times: int, most: int | None) -> ExecutorBrokenError | None:
        """Why the step fails now that this happened so many times; None if it is tried again."""
        if times <= _TOGETHER and (most is None or times <= most):
            return None
        alone = ", the last time with no other step on it" if times > _TOGETHER else ""
        counted = f"it broke {times} times while this step ran{alone}; see whether the step ends "
        return ExecutorBrokenError(
            f"{self.reason}; {counted}its process or needs too much memory, then resume"
        )


def check_executor(verb: str, given: object) -> RunOn | None:
    """What was given as `run_on`. Raises `TypeError` unless it is an executor or a function."""
    if given is None or _is_executor(given) or callable(given):
        return cast("RunOn | None", given)
    raise TypeError(
        f"{verb}: run_on must be an executor or a function that makes one, not {given!r}"
    )


class Executors:
    """The executors that one engine's factories have made in this process, one per factory."""

    def __init__(self) -> None:
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._alone = threading.Lock()
        self._made: dict[Hashable, tuple[Executor, ExecutorFactory]] = {}

    async def call(
        self,
        given: RunOn,
        make_call: Callable[[Executor], Callable[[], Any]],
        begun: Callable[[Future[Any]], None],
        *,
        broken: int = 0,
    ) -> Any:
        """What a step's function returns or raises where it runs.

        `make_call` says what to call on the executor, and `begun` is given the future.
        `broken` says how often an executor broke under this step before.

        Raises `ExecutorBrokeError` if the step is to be tried again, `ExecutorBrokenError` if
        that would not help.
        """
        if _is_executor(given):
            executor = cast("Executor", given)
            try:
                return await _result(executor, _begin(executor, make_call, begun))
            except ExecutorBrokeError as error:
                advice = "give run_on a function that makes one, lambda: ProcessPoolExecutor(4)"
                reason = f"{error.reason}; {advice}, and it is made again whenever it breaks"
                raise ExecutorBrokenError(reason) from error.__cause__
        factory = cast("ExecutorFactory", given)
        if broken >= _TOGETHER:
            return await self._call_alone(factory, make_call, begun)
        executor = await self._get(factory)
        try:
            future = _begin(executor, make_call, begun)
        except ExecutorBrokeError:  # it broke since its last step
            self._drop(factory, executor)
            executor = await self._get(factory)
            future = _begin(executor, make_call, begun)
        try:
            return await _result(executor, future)
        except ExecutorBrokeError as error:
            log.warning("an executor broke and is made again: %s", error.reason)
            self._drop(factory, executor)
            raise

    async def _call_alone(
        self,
        factory: ExecutorFactory,
        make_call: Callable[[Executor], Callable[[], Any]],
        begun: Callable[[Future[Any]], None],
    ) -> Any:
        """Call it on an executor of its own; one step at a time."""
        while not self._alone.acquire(blocking=False):
            await asyncio.sleep(_LOOK_EVERY)
        try:
            make = partial(copy_context().run, _make, factory)
            executor = await threads().call(partial(carried, make))
            try:
                return await _result(executor, _begin(executor, make_call, begun))
            finally:
                _shut_down(executor)
        finally:
            self._alone.release()

    def close(self) -> None:
        """Shut all of them down. Does not wait for what still runs on them."""
        with self._lock:
            self._closed = True
            made, self._made = self._made, {}
        if self._pid == os.getpid():  # else they are those of the process that forked this one
            for executor, _ in made.values():
                _shut_down(executor)

    async def _get(self, factory: ExecutorFactory) -> Executor:
        """The factory's executor. It is made on first use, in a thread: that may take a while."""
        if self._pid != os.getpid():
            self._reset()
        known = self._made.get(_key(factory))
        if known is not None:
            return known[0]
        make = partial(copy_context().run, self._make, factory)
        made: Executor = await threads().call(partial(carried, make))
        return made

    def _make(self, factory: ExecutorFactory) -> Executor:
        key = _key(factory)
        with self._lock:
            if self._closed:
                raise RuntimeError("the engine is closed")
            if key not in self._made:
                self._made[key] = _make(factory), factory  # its id must stay its own
            return self._made[key][0]

    def _drop(self, factory: ExecutorFactory, broken: Executor) -> None:
        key = _key(factory)
        with self._lock:
            known = self._made.get(key)
            if known is not None and known[0] is broken:
                del self._made[key]
        _shut_down(broken)


def _begin(
    executor: Executor,
    make_call: Callable[[Executor], Callable[[], Any]],
    begun: Callable[[Future[Any]], None],
) -> Future[Any]:
    call = make_call(executor)
    try:
        future = submit(executor, call)
    except BrokenExecutor as error:
        raise ExecutorBrokeError(str(error)) from error
    begun(future)
    return future


async def _result(executor: Executor, future: Future[Any]) -> Any:
    try:
        return await asyncio.wrap_future(future)
    except BrokenExecutor as error:
        if not isinstance(error, WorkLostError) and not _is_broken(executor):
            raise  # the step's own function raised it
        raise ExecutorBrokeError(str(error)) from error


def _is_executor(given: object) -> bool:
    return isinstance(given, Executor) or (hasattr(given, "submit") and not isinstance(given, type))


def _is_broken(executor: Executor) -> bool:
    try:
        executor.submit(int)
    except BrokenExecutor:
        return True
    except RuntimeError:  # it was shut down
        return False
    return False


def _make(factory: ExecutorFactory) -> Executor:
    made: object = factory()
    if not _is_executor(made):
        raise TypeError(f"run_on: {factory!r} returned {made!r}, which is no executor")
    return cast("Executor", made)


def _shut_down(executor: Executor) -> None:
    executor.shutdown(wait=False, cancel_futures=True)


def _key(factory: Any) -> Hashable:
    """Equal for a function that the same code has made again, such as a lambda in a flow."""
    key: Hashable = factory
    if isinstance(factory, partial):
        key = (_key(factory.func), factory.args, tuple(factory.keywords.items()))
    elif hasattr(factory, "__code__"):
        with suppress(ValueError):  # a variable around it has no value yet
            around = tuple(cell.cell_contents for cell in factory.__closure__ or ())
            key = (factory.__code__, id(factory.__globals__), factory.__defaults__, around)
    for known in (key, factory):
        with suppress(TypeError):
            hash(known)
            return known
    return id(factory)
