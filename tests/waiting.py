"""Waiting in tests: for what others do, but never for good."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE: Final = 30.0
"""Seconds that even a loaded machine does not take; what must not be waited for lasts longer."""


@contextmanager
def in_time() -> Iterator[None]:
    """Fail if the block waits for something that lasts longer than `PATIENCE`."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < PATIENCE, "it waited"


def wait_until(true: Callable[[], object], *, seconds: float = 60.0, every: float = 0.02) -> None:
    """Return once it is so; raise `TimeoutError` if it does not come to be."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(f"it did not come to be within {seconds:g} seconds")
        time.sleep(every)
