"""What a run tells: whoever follows its events, and the observers of its checkpointer."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.engine import events as ev
from holdfast.engine.holding.slots import UnderWay
from holdfast.engine.observing import run_observers
from holdfast.engine.run.failures import type_name
from holdfast.engine.stream import HAND_OVER
from holdfast.kernel.observing import tell

if TYPE_CHECKING:
    from holdfast.engine.options import Options
    from holdfast.engine.run.execute import Steps
    from holdfast.engine.run.loop import Run
    from holdfast.evidence import EvidenceVerifier
    from holdfast.kernel.core import Core


class Telling:
    """The part of a run that tells what happens."""

    run_id: str
    steps: Steps

    def __init__(
        self, core: Core, options: Options, parent: Run | None, *, hands_over: bool
    ) -> None:
        self.core = core
        self.options = options
        self.parent = parent
        self.events: deque[ev.Event] = deque() if parent is None else parent.events
        self.hands_over = hands_over and options.listening
        self.observers = core.observers
        self.heard = options.listening or bool(self.observers)  # someone gets the events
        self.around_steps = run_observers(core) if self.observers else ()
        self.loop: asyncio.AbstractEventLoop | None = None  # that it is executed in
        self.told_end = False  # that it is executed here no more

    @property
    def verifier(self) -> EvidenceVerifier:
        """What makes and checks the claims of its steps, and tells the observers of them."""
        return self.options.checks_with.telling(self.core, self.run_id)

    def emit(self, event: ev.Event) -> None:
        """Tell whoever follows the run, and the observers."""
        if not self.heard:
            return
        if event.stops:
            self.told_end = True
        if self.observers:
            tell(self.observers, event)
        if self.options.listening:
            self.events.append(event)
            if self.parent is not None:
                self.parent.ring()

    def pass_on(self, event: ev.Event) -> None:
        """Tell an event of a step, from the thread it runs in. Never blocks, and never raises."""
        tell(self.observers, event)
        if not self.options.listening:
            return
        self.events.append(event)  # at once: the events of the step's end come after it
        assert self.loop is not None, "it runs a step"
        if asyncio._get_running_loop() is self.loop:  # noqa: SLF001 - None where none runs
            self.ring()
            return
        with suppress(RuntimeError):  # the run is over: its loop is closed
            self.loop.call_soon_threadsafe(self.ring)

    def under_way(self) -> list[UnderWay]:
        """The steps that are being executed, for those who look. From any thread.

        Nothing of an encrypted store: what a step says of itself would be in the clear.
        """
        if self.core.journals.sealer is not None:
            return []
        found = list(self.steps.attempts.under_way.items())  # at once: another thread changes it
        return [
            UnderWay(self.run_id, key, *(info.latest if info is not None else (None, "")))
            for key, info in found
        ]

    def stopped_by(self, error: BaseException) -> None:
        """It is executed here no more. Tell the observers, unless an event has said why.

        Whoever follows the run has the error itself, or stopped it.
        """
        if self.observers and not self.told_end:
            self.told_end = True
            tell(self.observers, ev.RunStopped(self.run_id, type_name(error)))

    def cancelled(self) -> None:
        """It was cancelled: tell that, unless it has been told. Another process may have done it."""
        if not self.told_end:
            self.emit(ev.RunCancelled(self.run_id))

    def ring(self) -> None:
        """Wake the run, to deliver events while it waits for its steps."""
        self.steps.ring()
        if self.parent is not None:
            self.parent.ring()

    async def hand_over(self) -> None:
        """Let the consumer see the events so far."""
        if self.hands_over and self.events:
            await HAND_OVER
