"""Whether the steps of a run are to stop, and how those that are executed in place are told."""

from __future__ import annotations

import asyncio
from typing import Any


class Interruption:
    """What was asked of the steps of one run."""

    def __init__(self, *, wakes: bool) -> None:
        self.own: asyncio.Task[Any] | None = None  # the one that executes the run, if it stays so
        self.wakes = wakes  # nothing may only wait any more
        self.stops = False  # and nothing may be executed
        self.here: asyncio.Task[Any] | None = None  # the task that executes a step in place

    def ask(self, *, only_waiting: bool) -> None:
        """Let nothing wait any more, or let nothing go on."""
        self.wakes = True
        self.stops |= not only_waiting

    def forget(self) -> None:
        """Steps may be executed, and wait, again."""
        self.stops = self.wakes = False

    def allow(self, here: bool, loop: asyncio.AbstractEventLoop | None) -> None:
        """A step in place may be cancelled, until `here` is None again.

        Not so what its task does before and after. With the loop that runs here, no system call is
        needed to find the task.
        """
        if not here:
            self.here = None
            return
        if self.stops:
            raise asyncio.CancelledError
        self.here = self.own or asyncio.current_task(loop)

    def cancel_here(self) -> None:
        """Cancel the step that is executed in place, if there is one."""
        if self.here is not None and self.here is not _current_task():
            self.here.cancel()

    def was_ours(self, here: bool, *, waiting: bool = False) -> bool:
        """Whether we cancelled the step, rather than someone else its task."""
        ours = self.wakes if waiting else self.stops
        if ours and here and (own := asyncio.current_task()) is not None:
            own.uncancel()
        return ours


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
