"""How a worker is told to stop: an event, or a signal to the process."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping(stop: asyncio.Event | None) -> Iterator[asyncio.Event]:
    """The event that ends a worker: the caller's own, or one that SIGTERM and Ctrl-C set.

    The second signal does what signals did before: a worker that does not end in time can be
    ended.
    """
    if stop is not None:
        yield stop
        return
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        yield told
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is on_signal:
                signal.signal(number, handler)

    def on_signal(*_: object) -> None:
        restore()
        loop.call_soon_threadsafe(told.set)

    for number in _SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield told
    finally:
        restore()
