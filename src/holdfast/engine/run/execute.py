"""Executing steps: on the loop or on an executor, with timeouts, retries and interruption."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.checkpoint import to_micros
from holdfast.engine import events as ev
from holdfast.engine.executors import ExecutorBrokeError
from holdfast.engine.holding.observing import standing
from holdfast.engine.holding.presence import Ending
from holdfast.engine.program import Task
from holdfast.engine.retry import Retry
from holdfast.engine.run.attempt import NO_CLAIMS, Attempts, NotBegunError
from holdfast.engine.run.failures import failure, given_up
from holdfast.engine.run.interruption import Interruption
from holdfast.engine.run.resting import Resting
from holdfast.engine.timers import LEAVE_AFTER, Sleep
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointLoadError,
    CheckpointSaveError,
    FlowChangedError,
    LeaseLostError,
    RunActiveError,
    RunCancelledError,
    RunExistsError,
    RunMismatchError,
    RunPausedError,
    RunTimeoutError,
    StepFailedError,
    StoreError,
    VerificationError,
)
from holdfast.operations.children import family

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run
    from holdfast.engine.run.resumption import Resumption
    from holdfast.kernel.core import Core

_new: Final = tuple.__new__  # at half the price of a constructor: every step makes one
_ENDED: Final = (RunCancelledError, RunTimeoutError)
_IN_WORKERS: Final = Retry(attempts=1)
_NO_FAILURE: Final = (
    CheckpointCorruptedError, CheckpointLoadError, CheckpointSaveError, FlowChangedError,
    LeaseLostError, RunActiveError, RunExistsError, RunMismatchError, StoreError, VerificationError,
)  # fmt: skip
"""What keeps a child run from being executed here and now: the step itself did not fail."""


class Finished(NamedTuple):
    """The outcome of a task: a value, or an error."""

    task: Task
    value: Any  # while a child run waits: the run that asks something, or None
    error: StepFailedError | None
    duration: float  # in seconds, of all attempts
    last: float  # of the last one
    attempts: int
    paused: bool = False  # a child run that waits for someone, or for a timer
    claims: Mapping[str, Any] = NO_CLAIMS  # what its entry says about the world
    until: int | None = None  # when a child run that waits continues, in microseconds


class Steps:
    """Executes the tasks of one run: a single one in place, several side by side."""

    def __init__(self, run: Run, behind: Resumption) -> None:
        self._run = run
        self.attempts = Attempts(run, behind.epoch)
        self.deaths = behind.deaths  # attempts that a crash cut short, until something is finished
        self._failed = behind.failed_attempts
        self._cut_short = behind.cut_short
        self._running: dict[asyncio.Task[Finished | None], Task] = {}
        self._bell: asyncio.Future[None] | None = None
        self._interruption = Interruption(wakes=behind.wanted is not None)
        self.resting = Resting(run, self._interruption, behind.due)
        self._fatal: BaseException | None = None  # ends the run, once the others are recorded
        self._due: set[str] = set()  # the steps whose child runs paused until a moment

    def executed_by(self, task: asyncio.Task[Any] | None) -> None:
        """The run is executed by this task, from its beginning to its end."""
        self._interruption.own = task

    @property
    def running(self) -> bool:
        """Whether tasks are under way."""
        return bool(self._running)

    async def execute(self, tasks: Sequence[Task]) -> list[Finished]:
        """Start the tasks; returns as soon as any that are under way are finished."""
        if tasks and self._run.heard:
            for task in tasks:
                earlier = self._failed.get(task.key, 0) + self._cut_short.get(task.key, 0)
                self._announce(task, 1 + self.deaths + earlier)
            await self._run.hand_over()
            if self._interruption.stops:  # while the consumer was looking
                tasks = ()
        if len(tasks) == 1 and not self._running and self._fits_here(tasks[0]):
            done = await self._execute(tasks[0], here=True)
            return [] if done is None else [done]
        for task in tasks:
            spawned = asyncio.create_task(self._aside(task), context=task.context)
            spawned.add_done_callback(self._ring)
            self._running[spawned] = task
        while True:
            over = [spawned for spawned in self._running if spawned.done()]
            if over:
                return self._collect(over)
            if not self._running or self.idle_until() is not None:
                return []
            self._rest_if_only_asking()
            assert self._run.loop is not None, "it is executed"
            self._bell = self._run.loop.create_future()
            try:
                await self._bell
            finally:
                self._bell = None

    def idle_until(self) -> int | None:
        """When the run continues, if all its tasks wait, and for so long that a worker leaves it."""
        return self._idle_until(self._running.values())

    def _idle_until(self, tasks: Collection[Task]) -> int | None:
        run = self._run
        if not run.options.in_worker or not tasks or self._interruption.wakes:
            return None
        waiting = self.resting.until
        if any(task.key not in waiting or task.abandoned for task in tasks):
            return None
        due = min(waiting[task.key] for task in tasks)
        left = (due - run.core.journals.clock.now()) / 1e6
        return due if left > LEAVE_AFTER else None

    def _rest_if_only_asking(self) -> None:
        """Let the run pause if its child runs wait for answers, and nothing else is to be done."""
        asking = self.resting.asking
        if not asking:
            return
        others = [task for task in self._running.values() if task.key not in asking]
        if not others or self._idle_until(others) is not None:
            for rest in asking.values():
                rest.set()

    def _collect(self, over: list[asyncio.Task[Finished | None]]) -> list[Finished]:
        """Their outcomes. One that ends the run must not take the others' results along.

        They are to be recorded, and nothing else, before `raise_fatal` raises it.
        """
        finished = []
        for spawned in over:
            del self._running[spawned]
            try:
                done = spawned.result()
            except BaseException as error:
                self._fatal = self._fatal or error
            else:
                finished += [] if done is None else [done]
        if not finished:
            self.raise_fatal()
        return finished

    def raise_fatal(self) -> None:
        """Raise what ends the run, once what finished beside it is recorded: an outage, mostly."""
        if self._fatal is not None:
            raise self._fatal

    def ring(self) -> None:
        """Wake those who wait for tasks: something has changed."""
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    def _ring(self, _: object) -> None:
        self.ring()

    def interrupt(self, *, only_waiting: bool = False) -> None:
        """Cancel what is under way, as far as possible: a thread runs to its end.

        Child runs are asked to end, and have things to do before they do. What only waits, for
        a moment that is recorded, can always be cancelled.
        """
        self._interruption.ask(only_waiting=only_waiting)
        for spawned, task in self._running.items():
            waits = task.key in self.resting.until or task.key in self.resting.asking
            if waits or (task.child is None and not only_waiting):
                spawned.cancel()
        waits_here = not self._running and bool(self.resting.until)
        if waits_here or not only_waiting:
            self._interruption.cancel_here()

    def abandon(self, key: str) -> bool:
        """Stop a step that the flow has no use for any more, as `interrupt` does.

        Returns False if its outcome will come nevertheless: a child run is cancelled, and ends.
        """
        found = next((item for item in self._running.items() if item[1].key == key), None)
        if found is None:
            return True
        spawned, task = found
        if task.child is not None:
            task.abandoned = True
            if key in self._due:
                spawned.cancel()
            for child in tuple(self._run.children):
                if child.run_id == task.child_id:
                    child.ask("cancel")
        if task.child is not None or spawned.done():
            return False
        spawned.cancel()
        spawned.add_done_callback(_retrieve)
        del self._running[spawned]
        self.attempts.under_way.pop(key, None)
        self.attempts.outlives(spawned)
        return True

    def calm_down(self) -> None:
        """Execute again after an interruption: steps are to be undone.

        What the flow's own code still waits for is of no use any more.
        """
        self.drop()
        self._interruption.forget()
        self.deaths = 0

    def drop(self) -> list[Ending]:
        """The run stops here, whatever is under way; returns what needs time to stop."""
        for spawned in self._running:
            spawned.cancel()
            self.attempts.outlives(spawned)
        self._running.clear()
        return self.attempts.outlived_by

    def let_go(self) -> None:
        """The run is over, and nothing is under way: see `ending.let_go`."""
        attempts, resting = self.attempts, self.resting
        del self._run, attempts._run, attempts.reading, resting._run  # noqa: SLF001 - our own

    def _fits_here(self, task: Task) -> bool:
        """Whether it needs no task of its own.

        A step awaited in the consumer's task would be at its mercy, and the other way round: a
        timeout in a step must not cancel the code that reads the events.
        """
        run, policy = self._run, task.policy
        if run.options.in_worker and (isinstance(task.fn, Sleep) or policy.retry is not None):
            return False  # the run may be left while it waits
        if task.context is not None:
            return False
        return (
            (not run.hands_over and task.is_async)
            or task.child is not None
            or policy.inline
            or (self.attempts.may_block and policy.executor is None and policy.timeout is None)
        )

    def _hopeless(self, task: Task) -> bool:
        """Whether too many processes died in it to try again.

        A worker, which nobody starts again by hand for one run, has a limit for all steps. A child
        run has its own count.
        """
        if not self.deaths:
            return False
        retry = task.policy.retry
        if retry is None and self._run.options.in_worker and task.child is None:
            retry = _IN_WORKERS
        return retry is not None and self.deaths > retry.crashes

    def _announce(self, task: Task, attempt: int) -> None:
        if task.recorded and not self._hopeless(task):
            run = self._run
            run.emit(ev.StepStarted(run.run_id, task.key, task.name, attempt))

    # --- one task

    def cut_short(self) -> dict[str, int]:
        """The attempts that began and were dropped, by step, if the run is left now."""
        found = dict(self._cut_short)
        for key in self.attempts.under_way:
            found[key] = found.get(key, 0) + 1
        return found

    async def _aside(self, task: Task) -> Finished | None:
        """Execute it in a task of its own. Rings one turn of the loop before a callback would."""
        try:
            return await self._execute(task, here=False)
        finally:
            self.ring()

    async def _execute(self, task: Task, *, here: bool) -> Finished | None:
        """Try until it is finished, or has failed after its last attempt; None if it was interrupted."""
        run, retry, key = self._run, task.policy.retry, task.key
        failures = self._failed.get(key, 0)
        attempt = 1 + self.deaths + failures + self._cut_short.get(key, 0)
        began, tries, heard = perf_counter(), 0, set[bytes]()
        since = began  # of this attempt
        if self.deaths and self._hopeless(task):
            error = given_up(run.run_id, task, self.deaths, attempt - 1)
            return Finished(task, None, error, 0.0, 0.0, attempt - 1)
        resting, sleep = self.resting, task.fn if isinstance(task.fn, Sleep) else None
        if sleep is not None:  # here, because nothing that it raises is a failure of the step
            if not await resting.in_sleep(task, sleep, here):
                return None
        elif resting.due:
            if not await resting.as_recorded(key, here):
                return None
            since = perf_counter()
        while True:
            try:
                if task.fresh is not None and tries:
                    task.args = task.fresh()
                self._interruption.allow(here and task.child is None, run.loop)
                try:
                    value, claims = await self.attempts.make(task, attempt, here)
                finally:
                    self._interruption.here = None
                now = perf_counter()
                spent = now - began, now - since
                return _new(Finished, (task, value, None, *spent, attempt, False, claims, None))
            except asyncio.CancelledError as cancelled:
                if self._interruption.was_ours(here):
                    return None
                own = asyncio.current_task()
                if own is None or own.cancelling():
                    raise
                # Something that it awaited was cancelled.
                failed = failure(run.run_id, task, cancelled, attempt)
                return Finished(task, None, failed, *_since(began, since), attempt)
            except NotBegunError as stopped:
                raise stopped.why from None
            except RunPausedError as waits:
                if task.child is None:
                    raise
                if run.wanted is None:
                    await run.hear()
                due = None if waits.until is None else to_micros(waits.until)
                asks = waits.run_id if waits.questions else waits.child
                if not here and await self._until(task, due, asks, heard):
                    continue
                spent = _since(began, since)
                return Finished(task, asks, None, *spent, attempt, paused=True, until=due)
            except ExecutorBrokeError as broke:
                hopeless = self.attempts.count_break(task, broke)
                if hopeless is not None:
                    failed = failure(run.run_id, task, hopeless, attempt)
                    return Finished(task, None, failed, *_since(began, since), attempt)
                attempt += 1
                since = perf_counter()
                self._announce(task, attempt)
                self.ring()
                continue
            except Exception as raised:
                if task.child and run.wanted is None and isinstance(raised, _ENDED):
                    await run.hear()
                if task.child and run.wanted is not None and isinstance(raised, _ENDED):
                    return None
                if task.child and isinstance(raised, _NO_FAILURE):
                    raise
                failures += 1
                self.attempts.under_way.pop(task.key, None)
                if retry is None or task.abandoned or not retry.allows(raised, failures):
                    failed = failure(run.run_id, task, raised, failures)
                    return Finished(task, None, failed, *_since(began, since), attempt)
                why = raised
            delay = retry.delay(failures, run.core.journals.entropy)
            took = perf_counter() - since
            if not await resting.before_retry(task, attempt, why, took, delay, here):
                return None
            since = perf_counter()
            attempt += 1
            tries += 1
            self._announce(task, attempt)
            self.ring()

    async def _until(
        self, task: Task, due: int | None, asks: str | None, heard: set[bytes]
    ) -> bool:
        """Wait until a child run that paused is due, or answered. The run may pause meanwhile.

        Returns False if it stays paused: the run stops. One that is to be cancelled is due at once.
        `heard` has the answers that it was continued for.
        """
        if due is None and asks is None:
            return False  # somebody paused it
        self.attempts.under_way.pop(task.key, None)
        self._due.add(task.key)
        try:
            if asks is not None:
                core, child = self._run.core, str(task.child_id)
                answered = partial(_answered, core, child, due, heard)
                if await self.resting.for_answer(task.key, answered):
                    return True
            elif due is not None and await self.resting.for_child(task.key, due):
                return True
            if self._run.wanted != "cancel":
                return False
        except asyncio.CancelledError:
            if not task.abandoned:
                raise
        finally:
            self._due.remove(task.key)
        own = asyncio.current_task()
        assert own is not None, "it is executed beside others"
        own.uncancel()
        return True


def _answered(core: Core, child: str, due: int | None, heard: set[bytes]) -> bool:
    """Whether a child run that paused may go on: it or one of its own was answered, or is due.

    Blocks. The answers are added to those that were `heard`.
    """
    found = {
        head.digest for head in family(core, child) if standing(core, head, bury=False).answered
    }
    news = found - heard
    heard |= found
    return bool(news) or (due is not None and due <= core.journals.clock.now())


def _since(began: float, again: float) -> tuple[float, float]:
    """The seconds since both."""
    now = perf_counter()
    return now - began, now - again


def _retrieve(spawned: asyncio.Task[Any]) -> None:
    """Nobody else looks at the outcome."""
    if not spawned.cancelled():
        spawned.exception()
