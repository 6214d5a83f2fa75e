"""How a step reaches whoever follows its run, from the thread it runs in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.engine.events import Event
from holdfast.kernel.observing import tell

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run


def channel(run: Run) -> Callable[[Event], None]:
    """What passes the events of a step on, in order. It never blocks, and never raises."""
    loop = run.loop
    assert loop is not None, "it runs a step"

    def pass_on(event: Event) -> None:
        tell(run.observers, event)
        if not run.options.listening:
            return
        run.events.append(event)  # at once: the events of the step's end come after it
        if asyncio._get_running_loop() is loop:  # noqa: SLF001 - None where none runs
            run.ring()
            return
        with contextlib.suppress(RuntimeError):  # the run is over: its loop is closed
            loop.call_soon_threadsafe(run.ring)

    return pass_on
