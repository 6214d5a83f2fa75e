"""The threads in which sync steps run, unless they are given an executor."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, TypeVar

T = TypeVar("T")

_THREADS: Final = 32
_DEPTH: ContextVar[int] = ContextVar("holdfast_depth", default=0)
"""How many steps that run in a thread are around this one."""


def threads() -> Executor:
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
def _threads_of(pid: int, depth: int) -> Executor:  # a child of fork() has none: it makes its own
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast-step")


def carried(fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a user's function for a future, which can't carry a `StopIteration`: who waits for it
    would never hear of it.
    """
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError(f"it raised {error!r}") from error
