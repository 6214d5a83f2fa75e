"""Waiting in tests: for what others do, but never for good."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], *, seconds: float = 60.0, every: float = 0.02) -> None:
    """Return once it is so; raise `TimeoutError` if it does not come to be."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(f"it did not come to be within {seconds:g} seconds")
        time.sleep(every)
