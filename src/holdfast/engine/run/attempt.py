"""One attempt of a step: its claims before, its call in the right place, its claims after."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from holdfast.codec.meta import CALLED_WITH, CHILD
from holdfast.engine.claims import Claiming, inputs_of, is_unchangeable
from holdfast.engine.context import CURRENT_STEP, StepInfo, call_in_step
from holdfast.engine.executors import ExecutorBrokeError
from holdfast.engine.functions import portable
from holdfast.engine.holding.presence import Ending
from holdfast.engine.observing import within
from holdfast.engine.program import Task
from holdfast.engine.run.calling import as_failure, call_without_loop, is_pending
from holdfast.engine.run.reading import Reading
from holdfast.engine.run.threads import carried, in_thread, threads
from holdfast.engine.timers import Sleep
from holdfast.errors import (
    CheckpointLoadError,
    ClaimFailedError,
    HoldfastError,
    StepTimeoutError,
    StoreError,
)

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run
    from holdfast.evidence import Evidence

NO_CLAIMS: Final[Mapping[str, Any]] = MappingProxyType({})


class NotBegunError(Exception):
    """The lease is not renewed, or the journal can't be read: the run stops, and no step failed."""

    def __init__(self, why: HoldfastError) -> None:
        self.why = why


class Attempts:
    """Makes attempts of one run's steps, and knows what is under way."""

    def __init__(self, run: Run, epoch: int) -> None:
        self._run = run
        self._epoch = epoch
        self.may_block = run.options.blocking and run.options.timeout is None
        self.under_way: dict[str, StepInfo | None] = {}  # begun, not recorded yet; None: a child
        self._of, above = run.run_id, run.parent
        # Threads, and what was dropped, of which run. Child runs share it with the runs above them:
        # none of them is free before all have ended.
        self.ending: dict[Ending, str] = {} if above is None else above.steps.attempts.ending
        self.reading = Reading(run)
        self._broken: dict[str, int] = {}  # by step: how often its executor broke under it

    async def make(self, task: Task, attempt: int, here: bool) -> tuple[Any, Mapping[str, Any]]:
        """What the step returns, and what its entry says about the world."""
        run, policy = self._run, task.policy
        read = () if policy.claims is None else await self._before(task, policy.claims, here)
        lease = run.hold.lease
        if lease is not None and not lease.is_fresh:
            try:
                await run.hold.renew(run.recorder.fatal)
            except HoldfastError as error:
                raise NotBegunError(error) from None
        said: Sequence[Any] = ()
        self.under_way[task.key] = None
        if task.child is not None:
            from holdfast.engine.child_runs import run_child

            value = await run_child(run, task, hands_over=here and run.hands_over)
        else:
            flow = run.program.flow.name
            info = StepInfo(
                run.run_id, task.key, task.name, attempt, self._epoch, flow, run.birth, run
            )
            self.under_way[task.key] = info
            try:
                if run.around_steps:
                    with within(run.around_steps, info):
                        value = await self._call_in_time(task, info, here)
                elif policy.timeout is not None:
                    value = await self._call_in_time(task, info, here)
                else:
                    value = await self._call(task, info, here)
            except SystemExit as error:
                raise as_failure(error, run.options.in_worker) from error
            said = info.claimed
        if said or policy.claims is not None or task.child_id or task.called_with:
            return value, await self._claims(task, value, read, said, here)
        return value, NO_CLAIMS

    async def _call_in_time(self, task: Task, info: StepInfo, here: bool) -> Any:
        timeout = task.policy.timeout
        if timeout is None:
            return await self._call(task, info, here)
        deadline = asyncio.timeout(timeout)
        try:
            async with deadline:
                return await self._call(task, info, here)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise StepTimeoutError(task.key, timeout) from error

    async def _call(self, task: Task, info: StepInfo, here: bool) -> Any:
        assert task.fn is not None
        if isinstance(task.fn, Sleep):  # it has slept
            return task.fn.value(*task.args)
        if here or task.policy.inline or task.is_async:
            token = CURRENT_STEP.set(info)
            try:
                if here and self.may_block and not task.is_async:
                    value = call_without_loop(task)
                else:
                    value = task.fn(*task.args, **task.kwargs)
                if is_pending(task, value):
                    value = await value
                info.check_used(value)
                return value
            finally:
                CURRENT_STEP.reset(token)
        if task.policy.executor is None:
            over: Future[None] = Future()
            call = self._call_on(None, task, info, over)
            value = await threads().call(call, begins=partial(self.outlives, over))
        else:
            value = await self._run.options.executors.call(
                task.policy.executor,
                lambda executor: self._call_on(executor, task, info),
                self._until_done,
                broken=self._broken.get(task.key, 0),
            )
        if is_pending(task, value):
            value = await value
        info.check_used(value)
        return value

    def _call_on(
        self,
        executor: Executor | None,
        task: Task,
        info: StepInfo,
        over: Future[None] | None = None,
    ) -> Callable[[], Any]:
        """What to call in a thread of ours, or on an executor, which may be another process.

        In a thread, `over` says when it has ended.
        """
        assert task.fn is not None
        shared = executor is None or isinstance(executor, ThreadPoolExecutor)
        fn = task.fn if shared else portable(task.fn)
        call = partial(carried, call_in_step, info, fn, *task.args, **task.kwargs)
        if not shared:
            return call
        noted = partial(self._noted, call, over or Future())
        return partial(contextvars.copy_context().run, in_thread, noted)

    def outlives(self, ending: Ending) -> None:
        """Something of this run may outlive it. From any thread."""
        self.ending[ending] = self._of

    @property
    def outlived_by(self) -> list[Ending]:
        """What of this run has not ended."""
        return [
            one for one, run in tuple(self.ending.items()) if run == self._of and not one.done()
        ]

    def _until_done(self, future: Future[Any]) -> None:
        self.outlives(future)
        future.add_done_callback(lambda over: self.ending.pop(over, None))

    def _noted(self, call: Callable[[], Any], over: Future[None]) -> Any:
        """Call a function in a thread, which can't be stopped; others must know when it has ended."""
        self.outlives(over)
        try:
            return call()
        finally:
            self.ending.pop(over, None)
            over.set_result(None)

    def count_break(self, task: Task, broke: ExecutorBrokeError) -> Exception | None:
        """An executor broke under a step. Returns why the step fails; None if it is tried again."""
        times = self._broken[task.key] = self._broken.get(task.key, 0) + 1
        retry = task.policy.retry
        return broke.as_failure(times, None if retry is None else retry.crashes)

    # --- claims

    async def _before(self, task: Task, claiming: Claiming, here: bool) -> Sequence[Evidence]:
        """Claims about the files that a step is about to read.

        Raises if they can't be claimed, and `ClaimFailedError` if they are not what was claimed.
        """
        if task.called_with is None and self._run.program.flow.replays:
            task.called_with = inputs_of(task)  # before the step may change its arguments
        verifier = self._run.verifier
        claiming.refuse(verifier)
        try:
            await self._aside(here, self.reading.prepare)
        except (StoreError, CheckpointLoadError) as error:
            raise NotBegunError(error) from None
        if not claiming.reads:
            return ()
        read: Sequence[Evidence] = await self._aside(here, claiming.before, verifier, task)
        changed = await self._aside(here, self.reading.changed, read)
        if changed:
            raise ClaimFailedError(task.name, tuple(changed), reads=True)
        return read

    async def _claims(
        self, task: Task, value: Any, read: Sequence[Evidence], said: Sequence[Any], here: bool
    ) -> Mapping[str, Any]:
        """What the entry of a finished step says about the world."""
        program, claims = self._run.program, NO_CLAIMS
        if said or task.policy.claims is not None:
            claiming, verifier = task.policy.claims or Claiming(), self._run.verifier
            recorded = partial(program.stored_form, program.outcome_of(task, value))
            claims = await self._aside(
                here, claiming.after, verifier, task, value, read, said, recorded, self.reading.left
            )
            if task.called_with is None and program.flow.replays and is_unchangeable(task):
                task.called_with = inputs_of(task)
        if task.called_with is not None:
            claims = {**claims, CALLED_WITH: task.called_with}
        return claims if task.child_id is None else {**claims, CHILD: task.child_id}

    async def _aside(self, here: bool, fn: Callable[..., Any], *args: Any) -> Any:
        """Call what blocks without keeping the event loop waiting."""
        if here and self.may_block:
            return fn(*args)
        return await threads().call(partial(carried, fn, *args))
