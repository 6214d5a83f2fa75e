"""The threads in which sync steps run, unless they are given an executor."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Final, TypeVar

T = TypeVar("T")

_THREADS: Final = 32


def threads() -> Executor:
    """The threads of this process."""
    return _threads_of(os.getpid())


@lru_cache(maxsize=1)
def _threads_of(pid: int) -> Executor:  # a child of fork() has no threads: it makes its own
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast-step")


def carried(fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a user's function for a future, which can't carry a `StopIteration`: who waits for it
    would never hear of it.
    """
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError(f"it raised {error!r}") from error
