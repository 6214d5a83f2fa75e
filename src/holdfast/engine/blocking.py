"""Blocking twins of async methods, for programs without an event loop."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

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

    def call(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return block_on(lambda: method(self, *args, **options), name)

    call.__name__ = f"{name}_sync"
    call.__qualname__ = f"{method.__qualname__}_sync"
    call.__module__ = method.__module__
    call.__doc__ = f"`{name}`, with its arguments, for programs without an event loop."
    call.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return call


def has_loop_to_itself() -> bool:
    """Whether this is the coroutine of a `_sync` method: nothing else runs on its event loop."""
    return asyncio.current_task() in _MAIN


def check_options(verb: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise `TypeError` for options that are not known, saying which was probably meant."""
    names = list(known)
    for name in options:
        if name not in names:
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


def block_on(make: Callable[[], Coroutine[Any, Any, T]], awaited: str) -> T:
    """Run a coroutine to its end on a loop of its own. Raises `RuntimeError` where one is running.

    Ctrl-C strikes right where the program is, as in any blocking code; `asyncio.run` would only
    ask the task to stop at its next await, which steps that are called in place never reach.
    """
    if _loop_runs_here():
        raise RuntimeError(
            f"an event loop is running here: `await {awaited}(...)` instead of {awaited}_sync"
        )
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_main(make))
    finally:
        try:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


async def _main(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    task = asyncio.current_task()
    assert task is not None
    _MAIN.add(task)
    return await make()


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
