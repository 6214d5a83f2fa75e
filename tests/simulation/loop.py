"""An event loop with virtual time, shared by simulated processes that can be paused and killed.

Every handle belongs to the process in whose context it was made. Of the processes that have
something to do, a seeded random chooses the next; within a process handles run in their order, as
asyncio promises. When nothing is to be done, time jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import tasks
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

T = TypeVar("T")

EPOCH: Final = 1_700_000_000_000_000  # microseconds: when every schedule begins


class Killed(BaseException):
    """Raised in a process that was killed while it was calling the store."""


class StuckError(AssertionError):
    """Nothing will ever happen again, or too much does."""


class Process:
    """A simulated process: its handles, and whether they may run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[asyncio.Handle] = deque()
        self.paused = False
        self.killed = False
        self.busy = False  # in a call of the store, while others run
        self.paused_at = 0.0
        self.paused_for = 0.0  # seconds, all pauses that are over

    @property
    def may_run(self) -> bool:
        """Whether its next handle may run."""
        return not (self.paused or self.killed or self.busy)

    def __repr__(self) -> str:
        return self.name


NOBODY: Final = Process("nobody")
CURRENT: ContextVar[Process] = ContextVar("simulated_process", default=NOBODY)
"""The process that runs; `NOBODY` for what happens to them."""


if TYPE_CHECKING:
    _Base = Any  # what nobody asks for here is missing
else:
    _Base = asyncio.AbstractEventLoop


class Loop(_Base):  # type: ignore[misc]
    """Runs the handles of several processes, one at a time."""

    def __init__(self, seed: int | str, most_steps: int = 20_000) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.steps = 0
        self.most_steps = most_steps
        self.failure: BaseException | None = None  # an error that nobody awaited
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Process]] = []
        self._count = count()
        self._processes: list[Process] = [NOBODY]
        NOBODY.ready.clear()
        self._tasks: list[asyncio.Task[Any]] = []  # also of the killed: nothing of them may run
        self._interrupted = False  # a process is busy
        self._over = False

    # --- processes

    def add(self, process: Process) -> Process:
        """Let a process take part."""
        self._processes.append(process)
        return process

    def spawn(self, process: Process, main: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of a process."""
        context = copy_context()
        context.run(CURRENT.set, process)
        return self.create_task(main, context=context)

    def pause(self, process: Process) -> None:
        """Stop a process, as SIGSTOP does; time goes on."""
        if not process.paused:
            process.paused = True
            process.paused_at = self.now

    def unpause(self, process: Process) -> None:
        """Let it continue, as SIGCONT does: what was due meanwhile is due now."""
        if process.paused:
            process.paused = False
            process.paused_for += self.now - process.paused_at

    def kill(self, process: Process) -> None:
        """Nothing of it runs again, not even what is in its finally blocks."""
        self.unpause(process)
        process.killed = True
        process.ready.clear()

    def awake(self, process: Process) -> float:
        """For how many seconds it was not paused so far."""
        asleep = self.now - process.paused_at if process.paused else 0.0
        return self.now - process.paused_for - asleep

    # --- running

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run until this coroutine, which belongs to nobody, is done."""
        asyncio._set_running_loop(self)
        try:
            task = self.spawn(NOBODY, main)
            while not task.done():
                self._step()
                if self.failure is not None:
                    raise self.failure
            return task.result()
        finally:
            self._end()
            asyncio._set_running_loop(None)

    def run_others(self, process: Process, steps: int) -> None:
        """Called inside a handle of a process: run so many handles of others, as if it were slow.

        If it is paused meanwhile, until it may continue. Raises `Killed` if it was killed. Does
        nothing in one of those others: who waits for it would be as slow.
        """
        if self._over:
            raise Killed
        if self._interrupted:
            return
        own = asyncio.current_task(self)
        if own is not None:
            tasks._leave_task(self, own)
        self._interrupted = process.busy = True
        try:
            while (steps > 0 or process.paused) and not process.killed and self.failure is None:
                steps -= 1
                if not self._step(jumps=process.paused):
                    break
        finally:
            self._interrupted = process.busy = False
            if own is not None:
                tasks._enter_task(self, own)
        if process.killed:
            raise Killed

    def block(self, process: Process, seconds: float) -> None:
        """Called inside a handle of a process: it does nothing for so long, and others run."""
        if self._over:
            raise Killed
        own, was_busy, until = asyncio.current_task(self), process.busy, self.now + seconds
        if own is not None:
            tasks._leave_task(self, own)
        process.busy = True
        reached: list[bool] = []
        context = copy_context()
        context.run(CURRENT.set, NOBODY)
        self.call_at(until, reached.append, True, context=context)
        try:
            while (not reached or process.paused) and not process.killed and self.failure is None:
                self._step()
        finally:
            process.busy = was_busy
            if own is not None:
                tasks._enter_task(self, own)
        if process.killed:
            raise Killed

    def _step(self, *, jumps: bool = True) -> bool:
        """Run one handle; False if there is none and time may not jump."""
        self.steps += 1
        if self.steps > self.most_steps:
            raise StuckError(f"no end after {self.most_steps} steps, at {self.now:.1f} s")
        while True:
            candidates = [p for p in self._processes if p.ready and p.may_run]
            if candidates:
                break
            if not jumps:
                return False
            self._jump()
        if len(candidates) == 1:
            chosen = candidates[0]
        else:
            chosen = candidates[int(self.random.random() * len(candidates))]
        handle = chosen.ready.popleft()
        if not handle._cancelled:
            handle._run()
        return True

    def _jump(self) -> None:
        """Time goes on to the next timers."""
        moved = False
        while self._timers and not (moved and self._timers[0][0] > self.now):
            when, _, handle, process = heapq.heappop(self._timers)
            if process.killed or handle._cancelled:
                continue
            self.now = max(self.now, when)
            process.ready.append(handle)
            moved = True
        if not moved:
            raise StuckError(f"deadlock: nothing will ever happen again, at {self.now:.1f} s")

    def _end(self) -> None:
        """Close what is left, without letting any of it do anything."""
        self._over = True
        for process in self._processes:
            process.killed = process is not NOBODY
            process.ready.clear()
        self._timers.clear()
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(RuntimeError, Killed):  # it awaits or asks the store in a finally
                    task.get_coro().close()
        self._tasks.clear()
        self._processes.clear()

    # --- what asyncio asks of a loop

    def time(self) -> float:
        return self.now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        process = CURRENT.get() if context is None else context.get(CURRENT, NOBODY)
        if not process.killed:
            process.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        process = CURRENT.get() if context is None else context.get(CURRENT, NOBODY)
        if not process.killed:
            heapq.heappush(self._timers, (when, next(self._count), handle, process))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name or "simulated", context=context)
        self._tasks.append(task)
        return task

    def run_in_executor(
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        raise NotImplementedError("there are no threads here; make the step async or inline")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, StuckError):
            self.failure = self.failure or error

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._over

    def is_closed(self) -> bool:
        return self._over

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are skipped when they are due."""


class VirtualClock:
    """The clock of a process in a loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def now(self) -> int:
        """Microseconds since the epoch."""
        return EPOCH + int(self._loop.now * 1_000_000)

    def monotonic(self) -> float:
        """Seconds that never step back."""
        return self._loop.now
