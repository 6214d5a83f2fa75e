"""Waiting for a connection that another thread can interrupt."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from math import ceil


class Interruptible:
    """Waits until a file descriptor can be read, or until it is woken."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def wait(self, descriptor: int, seconds: float) -> bool:
        """Block until the descriptor can be read, until the timeout or until `wake`.

        Returns whether it was woken.
        """
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        poll.register(descriptor, select.POLLIN)
        ready = {found for found, _ in poll.poll(max(0, ceil(seconds * 1000)))}
        if self._read not in ready:
            return False
        with suppress(BlockingIOError):
            os.read(self._read, 4096)
        return True

    def wake(self) -> None:
        """Make a `wait` return, or the next one. For any thread, and for destructors."""
        with suppress(OSError):  # full of wakings, or closed
            os.write(self._write, b"!")

    def close(self) -> None:
        """Release it. Closing twice is fine."""
        read, write, self._read, self._write = self._read, self._write, -1, -1
        for descriptor in (read, write):
            if descriptor >= 0:
                os.close(descriptor)
