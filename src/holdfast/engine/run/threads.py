"""The threads in which sync steps run, unless they are given an executor."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import lru_cache
from typing import Final

_THREADS: Final = 32


def threads() -> Executor:
    """The threads of this process."""
    return _threads_of(os.getpid())


@lru_cache(maxsize=1)
def _threads_of(pid: int) -> Executor:  # a child of fork() has no threads: it makes its own
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast-step")
