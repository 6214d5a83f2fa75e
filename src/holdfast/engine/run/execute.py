"""Executing steps: on the loop or on an executor, with timeouts, retries and interruption."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.codec import values
from holdfast.engine import events as ev
from holdfast.engine.claims import CALLED_WITH, Claiming, inputs_of, is_unchangeable
from holdfast.engine.context import CURRENT_STEP, StepInfo, call_in_step
from holdfast.engine.program import Program, Task
from holdfast.engine.run.failures import failure
from holdfast.errors import (
    CheckpointLoadError,
    CheckpointSaveError,
    FlowChangedError,
    LeaseLostError,
    RunActiveError,
    RunCancelledError,
    RunMismatchError,
    RunPausedError,
    RunTimeoutError,
    StepFailedError,
    StepTimeoutError,
    StoreError,
    VerificationError,
)
from holdfast.model import CHILD
from holdfast.seams import on_fork

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run
    from holdfast.evidence import Evidence

_THREADS: Final = 32
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
_ENDED: Final = (RunCancelledError, RunTimeoutError)
_NO_FAILURE: Final = (
    CheckpointLoadError, CheckpointSaveError, FlowChangedError, LeaseLostError, RunActiveError,
    StoreError, RunMismatchError, VerificationError)  # fmt: skip
"""What keeps a run within from being carried out here and now: it says nothing about the step."""


class Finished(NamedTuple):
    """What came of a task: a value, or an error."""

    task: Task
    value: Any
    error: StepFailedError | None
    duration: float
    attempts: int
    paused: bool = False  # a run of its own that waits for someone
    claims: Mapping[str, Any] = _NONE  # what its entry says about the world


class Steps:
    """Executes the tasks of one run: a single one right here, several side by side."""

    def __init__(self, run: Run, epoch: int, deaths: int, failed: Mapping[str, int]) -> None:
        self._run = run
        self._epoch = epoch
        self._deaths = deaths  # attempts that a crash cut short, until something is finished
        self._failed = failed
        self._running: dict[asyncio.Task[Finished | None], Task] = {}
        self._here: asyncio.Task[Any] | None = None  # the task that executes a step in place
        self._bell: asyncio.Future[None] | None = None
        self._interrupted = False
        self._trouble: BaseException | None = None  # ends the run, once the others are recorded
        self._may_block = run.options.blocking and run.options.timeout is None

    @property
    def running(self) -> bool:
        """Whether tasks are under way."""
        return bool(self._running)

    async def execute(self, tasks: Sequence[Task]) -> list[Finished]:
        """Start the tasks; returns as soon as any that are under way are finished."""
        for task in tasks:
            self._announce(task, self._first_attempt(task))
        if tasks:
            await self._run.hand_over()
            if self._interrupted:  # while the consumer was looking
                tasks = ()
        if len(tasks) == 1 and not self._running and self._fits_here(tasks[0]):
            done = await self._carry_out(tasks[0], here=True)
            return [] if done is None else [done]
        for task in tasks:
            spawned = asyncio.create_task(self._carry_out(task, here=False))
            spawned.add_done_callback(self._ring)
            self._running[spawned] = task
        while True:
            if self._trouble is not None:  # what came with it is recorded by now
                raise self._trouble
            over = [spawned for spawned in self._running if spawned.done()]
            if over:
                return self._collect(over)
            if not self._running:
                return []
            self._bell = asyncio.get_running_loop().create_future()
            try:
                await self._bell
            finally:
                self._bell = None

    def _collect(self, over: list[asyncio.Task[Finished | None]]) -> list[Finished]:
        """What came of them. One that can't go on must not take the others' results along."""
        finished = []
        for spawned in over:
            del self._running[spawned]
            try:
                done = spawned.result()
            except BaseException as error:
                self._trouble = self._trouble or error
            else:
                finished += [] if done is None else [done]
        if self._trouble is not None and not finished:
            raise self._trouble
        return finished

    def ring(self) -> None:
        """Wake whoever waits for tasks: there is something to look at."""
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    def _ring(self, _: object) -> None:
        self.ring()

    def interrupt(self) -> None:
        """Cancel what is under way, as far as it can be: a thread goes on to its end.

        Runs of their own are asked to end, and have things to do before they do.
        """
        self._interrupted = True
        for spawned, task in self._running.items():
            if task.child is None:
                spawned.cancel()
        if self._here is not None and self._here is not _current_task():
            self._here.cancel()

    def calm_down(self) -> None:
        """Execute again after an interruption: what was done is to be undone."""
        self._interrupted = False
        self._deaths = 0

    @contextmanager
    def _interruptible(self, here: bool) -> Iterator[None]:
        """A step in place may be cancelled, but not what its task does before and after."""
        self._here = asyncio.current_task() if here else None
        try:
            if here and self._interrupted:
                raise asyncio.CancelledError
            yield
        finally:
            self._here = None

    def drop(self) -> None:
        """The run stops here, whatever is under way."""
        for spawned in self._running:
            spawned.cancel()
        self._running.clear()

    def made_progress(self) -> None:
        """Something was finished: crashes before it do not count any more."""
        self._deaths = 0

    def _fits_here(self, task: Task) -> bool:
        """Whether it needs no task of its own.

        What waits in the task of whoever looks at the events would be at its mercy, and the
        other way round: a timeout in a step must not cancel the code that looks.
        """
        return (
            (task.is_async and not self._run.hands_over)
            or task.child is not None
            or task.policy.inline
            or (self._may_block and task.policy.executor is None and task.policy.timeout is None)
        )

    def _first_attempt(self, task: Task) -> int:
        return 1 + self._deaths + self._failed.get(task.key, 0)

    def _hopeless(self, task: Task) -> bool:
        """Whether too many processes died in it to try again."""
        retry = task.policy.retry
        return retry is not None and self._deaths > retry.crashes

    def _announce(self, task: Task, attempt: int) -> None:
        if not self._hopeless(task):
            run = self._run
            run.emit(ev.StepStarted(run.run_id, task.key, task.name, attempt))

    # --- one task

    async def _carry_out(self, task: Task, *, here: bool) -> Finished | None:
        """Try until it is finished, or has failed for good; None if it was interrupted."""
        run, retry = self._run, task.policy.retry
        attempt = self._first_attempt(task)
        failures = self._failed.get(task.key, 0)
        began, tries = perf_counter(), 0
        if self._hopeless(task):
            words = f"its process died {self._deaths} times; resume the run to try once more"
            error = StepFailedError(task.key, "crash", words, attempt - 1)
            return Finished(task, None, error, 0.0, attempt - 1)
        while True:
            try:
                if task.fresh is not None and tries:
                    task.args = task.fresh()
                with self._interruptible(here and task.child is None):
                    read = await self._before(task, here)
                    value, said = await self._attempt(task, attempt, here)
                    claims = await self._claims(task, value, read, said, here)
                return Finished(task, value, None, perf_counter() - began, attempt, False, claims)
            except asyncio.CancelledError as error:
                own = asyncio.current_task()
                if not self._interrupted:
                    if own is None or own.cancelling():
                        raise
                    failed = failure(
                        task, error, attempt
                    )  # something that it awaited was cancelled
                    return Finished(task, None, failed, perf_counter() - began, attempt)
                if here and own is not None:
                    own.uncancel()
                return None
            except RunPausedError:
                if task.child is None:
                    raise
                return Finished(task, None, None, perf_counter() - began, attempt, paused=True)
            except Exception as error:
                if task.child and run.wanted is not None and isinstance(error, _ENDED):
                    return None
                if task.child and isinstance(error, _NO_FAILURE):
                    raise
                failures += 1
                if retry is None or not retry.allows(error, failures):
                    failed = failure(task, error, failures)
                    return Finished(task, None, failed, perf_counter() - began, attempt)
                why = error
            try:
                delay = retry.delay(failures, run.core.journals.entropy)
                await run.note_attempt(task, attempt, why, delay)
                self.ring()
                with self._interruptible(here):
                    await asyncio.sleep(delay)
            except asyncio.CancelledError:
                if not self._interrupted:
                    raise
                if here and (own := asyncio.current_task()) is not None:
                    own.uncancel()
                return None
            attempt += 1
            tries += 1
            self._announce(task, attempt)
            self.ring()

    async def _before(self, task: Task, here: bool) -> Sequence[Evidence]:
        """What is claimed of the files that a step is about to read. Raises for what can't be claimed."""
        claiming = task.policy.claims
        if claiming is None:
            return ()
        if task.called_with is None and self._run.program.replays:
            task.called_with = inputs_of(task)  # before the step may change what it was given
        verifier = self._run.options.checks_with
        claiming.refuse(verifier)
        if not claiming.reads:
            return ()
        read: Sequence[Evidence] = await self._aside(here, claiming.before, verifier, task)
        return read

    async def _claims(
        self, task: Task, value: Any, read: Sequence[Evidence], said: Sequence[Any], here: bool
    ) -> Mapping[str, Any]:
        """What the entry of a finished step says about the world."""
        claims: Mapping[str, Any] = _NONE
        if said or task.policy.claims is not None:
            if task.policy.claims is not None and self._run.program.unfolds(task, value):
                raise TypeError(
                    f"{task.name!r} gave a step instead of doing the work: say .outputs(...) there"
                )
            claiming, verifier = task.policy.claims or Claiming(), self._run.options.checks_with
            recorded = partial(_stored_form, self._run.program, task, value)
            claims = await self._aside(
                here, claiming.after, verifier, task, value, read, said, recorded
            )
            if task.called_with is None and self._run.program.replays and is_unchangeable(task):
                task.called_with = inputs_of(task)
        if task.called_with is not None:
            claims = {**claims, CALLED_WITH: task.called_with}
        return claims if task.within is None else {**claims, CHILD: task.within}

    async def _aside(self, here: bool, fn: Callable[..., Any], *args: Any) -> Any:
        """Call what blocks where nobody waits for the event loop."""
        if here and self._may_block:
            return fn(*args)
        return await asyncio.get_running_loop().run_in_executor(threads(), fn, *args)

    async def _attempt(self, task: Task, attempt: int, here: bool) -> tuple[Any, list[Any]]:
        """What the step returns, and what it claimed while it ran."""
        run = self._run
        if task.child is not None:
            return await run.child(task, hands_over=here and run.hands_over), []
        info = StepInfo(
            run.run_id, task.key, task.name, attempt, self._epoch, run.program.flow,
            self._reporter(task) if run.options.listening else None, self._stopping, run.core,
            _options=run.options,
        )  # fmt: skip
        if task.policy.timeout is None:
            return await self._call(task, info, here), info.claimed
        deadline = asyncio.timeout(task.policy.timeout)
        try:
            async with deadline:
                return await self._call(task, info, here), info.claimed
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise StepTimeoutError(task.key, task.policy.timeout) from error

    async def _call(self, task: Task, info: StepInfo, here: bool) -> Any:
        assert task.fn is not None
        if task.is_async or task.policy.inline or here:
            token = CURRENT_STEP.set(info)
            try:
                value = task.fn(*task.args, **task.kwargs)
                return await value if _is_under_way(value) else value
            finally:
                CURRENT_STEP.reset(token)
        executor = task.policy.executor
        call: Callable[[], Any] = partial(call_in_step, info, task.fn, *task.args, **task.kwargs)
        if executor is None or isinstance(executor, ThreadPoolExecutor):
            call = partial(contextvars.copy_context().run, call)
        value = await asyncio.wrap_future((executor or threads()).submit(call))
        return await value if _is_under_way(value) else value

    def _stopping(self) -> bool:
        return self._run.wanted == "cancel"

    def _reporter(self, task: Task) -> Callable[[float | None, str], None]:
        """How a step reports, from whatever thread it runs in."""
        run = self._run
        loop = asyncio.get_running_loop()

        def tell(event: ev.Event) -> None:
            run.emit(event)
            self.ring()

        def report(fraction: float | None, message: str) -> None:
            event = ev.StepProgress(run.run_id, task.key, task.name, fraction, message)
            loop.call_soon_threadsafe(tell, event) if _current_task() is None else tell(event)

        return report


def _stored_form(program: Program, task: Task, value: Any) -> Any:
    """What a resume will find recorded of a finished task."""
    return values.decode(values.encode(program.outcome_of(task, value)))


def _is_under_way(value: object) -> bool:
    """Whether a function returned its result yet to come. A step of a flow is none."""
    return inspect.iscoroutine(value) or asyncio.isfuture(value)


def threads() -> Executor:
    """The threads that sync steps run in, unless they are given an executor."""
    return _pool.get()


class _Pool:
    """Made when first needed, and anew in a child of fork()."""

    def __init__(self) -> None:
        self._forget()
        on_fork(self._forget)

    def _forget(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    def get(self) -> Executor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast-step")
        return self._executor


_pool = _Pool()


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
