"""Timing a block, and profiling it on request. Imports little: fresh processes pay for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Final

MS: Final = 1000.0
US: Final = 1_000_000.0
PROFILE: Final = "HOLDFAST_BENCH_PROFILE"
"""If set, names a file that what is timed writes its profile to, in child processes, too."""


class Spent:
    """What a block took: on the clock, and of the processor, all threads of this process."""

    seconds: float
    cpu: float


@contextmanager
def clocked() -> Iterator[Spent]:
    """Time a block. The result's fields are there once it has ended."""
    spent, profile = Spent(), None
    if PROFILE in os.environ:
        import cProfile

        profile = cProfile.Profile()
        profile.enable()
    began, used = perf_counter(), process_time()
    yield spent
    spent.seconds, spent.cpu = perf_counter() - began, process_time() - used
    if profile:
        profile.disable()
        profile.dump_stats(os.environ[PROFILE])
