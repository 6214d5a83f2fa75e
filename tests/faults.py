"""Faults on purpose: kill, raise or pause at a named point, and time and randomness under control.

    with faults.at("sqlite.commit.before", faults.kill):
        checkpointer.save("run-1", state)       # the process dies there

    with faults.record() as passed:
        checkpointer.save("run-1", state)       # passed: every point on the way, in order

Points are passed by `holdfast.seams.fault`. All of this acts on the whole process.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from holdfast.seams import FaultHook, set_fault_hook

ANY: Final = "*"
"""Stands for every fault point."""

Action = Callable[[], None]


@contextmanager
def at(point: str, action: Action, *, nth: int = 1) -> Iterator[None]:
    """Do `action` the nth time that `point` (or `ANY`) is passed inside the block, and only then."""
    passed = 0

    def watch(name: str) -> None:
        nonlocal passed
        if point not in (ANY, name):
            return
        with _lock:
            passed += 1
            due = passed == nth
        if due:
            action()

    with _watching(watch):
        yield


@contextmanager
def record() -> Iterator[list[str]]:
    """The names of the points passed inside the block, in order."""
    passed: list[str] = []
    with _watching(passed.append):
        yield passed


def kill() -> NoReturn:
    """End this process as kill -9 does: nothing is flushed, closed or caught."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL returned")


def raising(error: BaseException) -> Action:
    """An action that raises `error`."""

    def action() -> None:
        raise error

    return action


class Pause:
    """An action that stops whoever passes until `go_on`; others can wait until someone is there."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds = seconds
        self._reached = threading.Event()
        self._released = threading.Event()

    def __call__(self) -> None:
        """Stop here."""
        self._reached.set()
        if not self._released.wait(self._seconds):
            raise TimeoutError("nobody told the paused thread to go on")

    def wait_until_reached(self) -> None:
        """Return once a thread stands at the point; `TimeoutError` if none comes."""
        if not self._reached.wait(self._seconds):
            raise TimeoutError("nobody came to the fault point")

    def go_on(self) -> None:
        """Let it pass."""
        self._released.set()


class FakeClock:
    """A `Clock` that moves only when told to."""

    def __init__(self, now: int = 1_700_000_000_000_000) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> int:
        """Microseconds since the epoch."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that never step back."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += round(seconds * 1e6)
        self._monotonic += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back if negative, as an operator or NTP does."""
        self._now += round(seconds * 1e6)


class SeededEntropy:
    """An `Entropy` that a seed reproduces. Two processes must not share a seed: ids would clash."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)

    def __call__(self, count: int) -> bytes:
        """So many bytes."""
        return self._random.randbytes(count)


_lock = threading.Lock()
_watchers: list[FaultHook] = []


@contextmanager
def _watching(watch: FaultHook) -> Iterator[None]:
    with _lock:
        _watchers.append(watch)
        set_fault_hook(_pass)
    try:
        yield
    finally:
        with _lock:
            _watchers.remove(watch)
            if not _watchers:
                set_fault_hook(None)


def _pass(point: str) -> None:
    for watch in tuple(_watchers):
        watch(point)
