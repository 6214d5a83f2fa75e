"""How a worker is told to stop: an event, or a signal to the process."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_workers: Final[dict[asyncio.Event, asyncio.AbstractEventLoop]] = {}  # they end in any order
_before: Final[dict[int, Any]] = {}  # what signals did before the first of them


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
    for number in _SIGNALS:
        if signal.getsignal(number) is not _on_signal:
            _before[number] = signal.signal(number, _on_signal)
    _workers[told] = loop
    try:
        yield told
    finally:
        del _workers[told]
        if not _workers:
            _restore()


def _on_signal(*_: object) -> None:
    _restore()
    for told, loop in _workers.items():
        loop.call_soon_threadsafe(told.set)


def _restore() -> None:
    for number, handler in _before.items():
        if signal.getsignal(number) is _on_signal:
            signal.signal(number, handler)
    _before.clear()
