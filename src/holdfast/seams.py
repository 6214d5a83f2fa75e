"""What tests replace: time, randomness and named fault points. No-ops in production."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """Where times come from."""

    def now(self) -> int:
        """Microseconds since the epoch. May step back; nothing is ordered by it."""

    def monotonic(self) -> float:
        """Seconds that never step back, for deadlines."""


_seconds: Callable[[], float] = time.monotonic
if sys.platform == "linux":  # where that stops while the machine sleeps
    _seconds = partial(time.clock_gettime, time.CLOCK_BOOTTIME)


class SystemClock:
    """The real time."""

    def now(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds that never step back, and go on while the machine sleeps."""
        return _seconds()


Entropy = Callable[[int], bytes]
"""Returns so many unguessable bytes; `os.urandom` outside tests."""

SYSTEM_CLOCK = SystemClock()

FaultHook = Callable[[str], None]
_hook: FaultHook | None = None


def fault(point: str) -> None:
    """A named place where tests may raise, kill or pause; see `tests/faults.py`."""
    if _hook is not None:
        _hook(point)


def set_fault_hook(hook: FaultHook | None) -> None:
    """Call `hook` with the name of every fault point passed, in this process; None removes it."""
    global _hook
    _hook = hook


_Hook = weakref.WeakMethod[Callable[[], None]]
_Hooks = tuple[_Hook, _Hook | None, _Hook | None]
_fork_hooks: dict[int, _Hooks] = {}  # changed by single calls only: there is no lock to inherit
_forking: dict[int, list[_Hooks]] = {}  # by thread: those that were called before its fork
atexit.register(_fork_hooks.clear)  # what is open until the end must not be looked for after it


def on_fork(
    in_child: Callable[[], None],
    *,
    before: Callable[[], None] | None = None,
    in_parent: Callable[[], None] | None = None,
) -> None:
    """Call these bound methods around every fork(), while their object lives.

    A child inherits locks that no thread will release, threads that do not run and
    connections that are the parent's.
    """
    first = weakref.WeakMethod(in_child, lambda gone: _fork_hooks.pop(id(gone), None))
    _fork_hooks[id(first)] = (
        first,
        None if before is None else weakref.WeakMethod(before),
        None if in_parent is None else weakref.WeakMethod(in_parent),
    )


def _before_fork() -> None:
    _forking[threading.get_ident()] = hooks = list(_fork_hooks.values())
    _call(hooks, 1)


def _after_fork_in_parent() -> None:
    # Only these: other threads may have opened stores meanwhile, whose locks are not held.
    _call(_forking.pop(threading.get_ident(), []), 2)


def _after_fork_in_child() -> None:
    _forking.clear()
    _call(list(_fork_hooks.values()), 0)


def _call(hooks: list[_Hooks], place: int) -> None:
    for each in hooks:
        hook = each[place]
        method = None if hook is None else hook()
        if method is not None:
            method()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


_ID_BYTES = 10


class SystemEntropy:
    """The operating system's randomness, fetched for many ids, or others of a `usual` size, at once.

    A system call releases the GIL: paid on every save, it makes busy threads wait for each
    other. A child of fork() must not use what its parent will.
    """

    def __init__(self, usual: int = _ID_BYTES) -> None:
        self._usual = usual
        self._ready: list[bytes] = []
        on_fork(self._forget)

    def _forget(self) -> None:
        self._ready = []

    def __call__(self, size: int) -> bytes:
        """So many unguessable bytes."""
        if size != self._usual:
            return os.urandom(size)
        try:
            return self._ready.pop()
        except IndexError:
            block = os.urandom(256 * size)
            self._ready += [block[at : at + size] for at in range(size, len(block), size)]
            return block[:size]


SYSTEM_ENTROPY: Entropy = SystemEntropy()

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(clock: Clock = SYSTEM_CLOCK, entropy: Entropy = SYSTEM_ENTROPY) -> str:
    """A fresh id: 26 characters, sorted by time of making, 80 random bits (a ULID)."""
    number = (clock.now() // 1000) << 80 | int.from_bytes(entropy(_ID_BYTES), "big")
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -5, -5))
