"""Blocking twins of async methods, for programs without an event loop."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import os
import threading
import weakref
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from holdfast.engine.effects import Effect
from holdfast.engine.tracebacks import fold

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_MAIN: Final[weakref.WeakSet[asyncio.Task[Any]]] = weakref.WeakSet()
"""The tasks of `_sync` methods, each alone on an event loop of its own."""


def blocking(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], T]:
    """The blocking twin of an async method: `x_sync = blocking(x)`."""
    name = method.__name__
    advice = f"`await {name}(...)` instead of {name}_sync"

    def call(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        _refuse_loop(advice, args)
        try:
            return block_on(lambda: method(self, *args, **options))
        except (Exception, KeyboardInterrupt) as error:
            fold(error)
            raise

    _describe(call, method)
    return call


def _describe(twin: Any, method: Callable[..., Any]) -> None:
    name = method.__name__
    twin.__name__ = f"{name}_sync"
    twin.__qualname__ = f"{method.__qualname__}_sync"
    twin.__module__ = method.__module__
    twin.__doc__ = f"`{name}`, with its arguments, for programs without an event loop."
    shown = inspect.signature(method)
    returns = str(shown.return_annotation).replace("AsyncIterator[", "Iterator[")
    twin.__signature__ = shown.replace(return_annotation=returns)


def has_loop_to_itself() -> bool:
    """Whether this is the coroutine of a `_sync` method: nothing else runs on its event loop."""
    return loop_runs_here() and asyncio.current_task() in _MAIN


def check_options(verb: str, options: Iterable[str], known: Collection[str]) -> None:
    """Raise `TypeError` for options that are not known, saying which was probably meant."""
    for name in options:
        if name not in known:
            names = list(known)
            meant = _probably_meant(name, names)
            advice = f"did you mean {meant!r}?" if meant else f"it takes {', '.join(names)}"
            raise TypeError(f"{verb} has no option {name!r}; {advice}")


_WORDS: Final = (
    {"run_id", "workflow_id", "execution_id", "task_id", "job_id", "id"},
    {"store", "checkpoint_store", "checkpointer", "saver", "storage", "url", "db"},
    {"thread_id", "thread", "session_id", "session", "conversation_id", "conversation"},
    {"owner", "user_id", "user", "tenant"},
    {"retry", "retries", "max_retries", "attempts", "max_attempts"},
    {"timeout", "timeout_seconds", "timeout_s", "max_seconds"},
    {"deadline", "expires", "expires_in", "timeout"},
    {"default", "on_timeout", "default_action"},
    {"take_over", "force", "steal"},
    {"trust", "verify"},
    {"returns", "result_type", "output_type"},
    {"by", "answered_by"},
    {"assignees", "assignee", "assigned_to", "for_"},
    {"inputs", "input", "kwargs"},
)
"""Words of other libraries and of our own other methods, with what they mean here."""


def _probably_meant(wrong: str, names: Sequence[str]) -> str | None:
    """The option with the same meaning, or else the one that is spelled much like it."""
    for words in _WORDS:
        if wrong.lower() in words and (same := [name for name in names if name in words]):
            return same[0]
    close = difflib.get_close_matches(wrong.lower(), names, 1)
    return close[0] if close else None


def block_on(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end on a loop of its own. Raises `RuntimeError` where one is running.

    Ctrl-C strikes right where the program is, as in any blocking code; `asyncio.run` would only
    ask the task to stop at its next await, which steps that are called in place never reach.
    """
    _refuse_loop("`await` it")
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_main(make))
    finally:
        _wind_up(loop)


def _refuse_loop(advice: str, args: Sequence[Any] = ()) -> None:
    if loop_runs_here():
        for refused in args:
            if isinstance(refused, Effect):
                refused.use()  # one error says enough: it need not warn as well
        raise RuntimeError(f"an event loop is running here: {advice}")


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left on a loop, and close it."""
    try:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def blocking_iterator(
    method: Callable[Concatenate[S, P], AsyncIterator[T]],
) -> Callable[Concatenate[S, P], Iterator[T]]:
    """The blocking twin of a method that returns an async iterator."""
    name = method.__name__
    advice = f"`async for ... in {name}(...)` instead of {name}_sync"

    def call(self: S, /, *args: P.args, **options: P.kwargs) -> Iterator[T]:
        _refuse_loop(advice, args)
        return _iterate(method(self, *args, **options))

    _describe(call, method)
    return call


def _iterate(items: AsyncIterator[T]) -> Iterator[T]:
    loop = asyncio.new_event_loop()
    try:
        while True:
            try:
                item = loop.run_until_complete(_next(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        try:
            close = getattr(items, "aclose", None)
            if close is not None:
                loop.run_until_complete(close())
        finally:
            _wind_up(loop)


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _main(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    task = asyncio.current_task()
    assert task is not None
    _MAIN.add(task)
    return await make()


class BackgroundLoop:
    """An event loop in a thread of its own, started when it is first needed.

    The thread ends with `stop`, or when this is dropped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._process = 0  # that the thread belongs to

    def run(self, make: Callable[[], Coroutine[Any, Any, T]], advice: str) -> T:
        """Run a coroutine there, and wait for it. On an event loop, raises `RuntimeError` with
        this advice.
        """
        _refuse_loop(advice)
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                threading.Thread(
                    target=_run_forever, args=(self._loop,), name="holdfast-engine", daemon=True
                ).start()
                self._finalizer = weakref.finalize(self, _stop, self._loop)
                self._finalizer.atexit = False  # the thread is a daemon
            loop = self._loop
        return asyncio.run_coroutine_threadsafe(make(), loop).result()

    def stop(self) -> None:
        """End the thread."""
        with self._lock:
            self._loop = None
            if self._finalizer is not None:
                self._finalizer()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon_threadsafe(loop.stop)


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        _wind_up(loop)


def loop_runs_here() -> bool:
    """Whether this thread is running an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
