"""Steps that only wait: to wake up, or for another attempt. The moment is recorded first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.engine import events as ev
from holdfast.engine.program import Task
from holdfast.engine.run.failures import describe, message_of, type_name
from holdfast.engine.run.interruption import Interruption
from holdfast.engine.timers import Sleep, until
from holdfast.errors import CheckpointLoadError, StoreError
from holdfast.kernel.draft import Draft
from holdfast.model import Kind, Status

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run

_LOOK: Final = 1.0  # seconds between two looks whether a child run was answered


class Resting:
    """The waiting steps of one run. What returns a bool returns False if it was interrupted."""

    def __init__(self, run: Run, interruption: Interruption, due: Mapping[str, int]) -> None:
        self._run = run
        self._interruption = interruption
        self.due = dict(due)  # when steps are to continue, as recorded by a holder before
        self.until: dict[str, int] = {}  # the steps that wait now, and until when
        self.asking: dict[str, asyncio.Event] = {}  # steps whose child runs wait for answers
        self._may_begin = asyncio.Event()
        self._may_begin.set()

    def hold_back(self) -> None:
        """Begin nothing that comes due from here on: the run is about to stop."""
        self._may_begin.clear()

    def go_on(self) -> None:
        """Begin what was held back: the run goes on."""
        self._may_begin.set()

    async def as_recorded(self, key: str, here: bool) -> bool:
        """Wait on, if the step waited under an earlier holder."""
        due = self.due.get(key)
        return due is None or await self._wait(key, due, here)

    async def before_retry(
        self, task: Task, attempt: int, why: Exception, took: float, delay: float, here: bool
    ) -> bool:
        """Record that an attempt failed, and wait: the next holder must not start counting anew."""
        run, message = self._run, f"{type_name(why)}: {message_of(why)}"
        due = run.core.journals.clock.now() + round(delay * 1e6)
        what = task.key, task.name, attempt, message, round(delay, 3), type_name(why)
        run.emit(ev.StepRetrying(run.run_id, *what))
        facts = {"of": "attempt", "attempt": attempt, "due": due}
        note = run.recorder.note(
            Kind.FAIL, Status.RUNNING, facts, value=describe(why), step=task.key
        )
        saved = await self._saved(note._replace(duration=took), here)
        return saved and await self._wait(task.key, due, here, delay)

    async def in_sleep(self, task: Task, sleep: Sleep, here: bool) -> bool:
        """Record when to wake up, unless that is known, and wait."""
        run, clock = self._run, self._run.core.journals.clock
        due = self.due.get(task.key)
        if due is None:
            due = self.due[task.key] = sleep.wakes_at(clock.now())
            note = run.recorder.note(Kind.SLEEP, Status.RUNNING, {"due": due}, step=task.key)
            if not await self._saved(note, here, urgent=True):
                return False
        within = None if sleep.seconds is None else (due - clock.now()) / 1e6
        return await self._wait(task.key, due, here, within)

    async def for_child(self, key: str, due: int) -> bool:
        """Wait until the child run of a step is due, which recorded when that is."""
        return await self._wait(key, due, here=False)

    async def for_answer(self, key: str, answered: Callable[[], bool]) -> bool:
        """Wait until the child run of a step may go on: it was answered, or its deadline passed.

        False also if there is nothing else to do for the run meanwhile: it is to pause.
        """
        if self._interruption.wakes:
            return False
        self.asking[key] = rest = asyncio.Event()
        self._run.steps.ring()
        try:
            while not rest.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK):
                        await rest.wait()
                with suppress(StoreError, CheckpointLoadError):  # an outage: it is looked again
                    if not rest.is_set() and await self._run.hold.off_loop(answered):
                        return True
        except asyncio.CancelledError:
            if self._interruption.was_ours(here=False, waiting=True):
                return False
            raise
        finally:
            del self.asking[key]
        return False

    async def _saved(self, note: Draft, here: bool, *, urgent: bool = False) -> bool:
        """Save when the step is to continue; False if the step was interrupted meanwhile."""
        try:
            await self._run.recorder.save_and_announce([note], urgent=urgent)
        except asyncio.CancelledError:
            if self._interruption.was_ours(here):
                return False
            raise
        return True

    async def _wait(self, key: str, due: int, here: bool, within: float | None = None) -> bool:
        """Wait for a moment, and let the run be left meanwhile."""
        run = self._run
        if self._interruption.wakes:
            return False
        self.until[key] = due
        run.steps.ring()
        try:
            self._interruption.allow(here, run.loop)
            try:
                await until(run.core.journals.clock, due, within)
                await self._may_begin.wait()
            finally:
                self._interruption.here = None
        except asyncio.CancelledError:
            if self._interruption.was_ours(here, waiting=True):
                return False
            raise
        finally:
            del self.until[key]
        return True
