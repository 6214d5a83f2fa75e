"""An event loop that knows only tasks and timers, so that the same code does the same every time.

It stands inside the event loop that executes the run, and runs only when it is told to. Whatever
else an event loop does (sockets, threads, processes) is refused: that is for steps.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from threading import get_ident
from typing import Any, Final, Protocol, TypeVarTuple, Unpack

from holdfast.engine import running_loop

Ts = TypeVarTuple("Ts")

_MOST_CALLBACKS: Final = 1_000_000  # before the code waits for something


class Owner(Protocol):
    """Whoever runs the loop."""

    def start_timer(self, timer: asyncio.TimerHandle, delay: float) -> None:
        """Call `TaskLoop.fire` when so many seconds are over."""

    def stop_timer(self, timer: asyncio.TimerHandle) -> None:
        """It is not needed any more."""

    def excuse(self) -> None:
        """A task is cancelled: it may never come to use the steps that it has made."""


class _Task(asyncio.Task[Any]):
    """A task that a set keeps in the same place every time: `TaskGroup` cancels a set of them."""

    def __init__(self, loop: TaskLoop, coroutine: Any, number: int, **options: Any) -> None:
        self._number = number
        self._excuse = loop.owner.excuse
        super().__init__(coroutine, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number

    def cancel(self, msg: Any = None) -> bool:
        self._excuse()
        return super().cancel(msg)


class TaskLoop(asyncio.AbstractEventLoop):
    """The event loop of one `durable`."""

    def __init__(self, name: str, owner: Owner) -> None:
        self.owner = owner
        self.quiet = False  # nobody is told about errors that nobody handles any more
        self._name = name
        self._around = asyncio.get_running_loop()
        self._callbacks: deque[asyncio.Handle] = deque()
        self._tasks: dict[int, _Task] = {}  # not done
        self._made = 0
        self._now = 0.0
        self._thread = get_ident()
        self._closed = False

    # --- what `durable` does with it

    @property
    def ready(self) -> bool:
        """Whether something can run."""
        return bool(self._callbacks)

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that are not done, in the order they were made."""
        return list(self._tasks.values())

    def run(self) -> None:
        """Run until every task waits for something."""
        with self._running():
            for _ in range(_MOST_CALLBACKS):
                if not self._callbacks:
                    return
                handle = self._callbacks.popleft()
                if not handle.cancelled():
                    handle._run()  # noqa: SLF001 - as every event loop does
        raise RuntimeError(
            f"{self._name!r} goes round in circles: it never waits for a step or a timer. Await "
            "what it is looking for instead of asyncio.sleep(0)"
        )

    def fire(self, timer: asyncio.TimerHandle) -> None:
        """A timer is over."""
        self._now = max(self._now, timer.when())
        self._callbacks.append(timer)

    @contextmanager
    def _running(self) -> Iterator[None]:
        """This is the running event loop, and no task of the one around it is the current task."""
        around = running_loop.leave()  # none if the run is dropped
        hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self)  # noqa: SLF001 - as every event loop does
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._finalize)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*hooks)
            running_loop.enter(around)

    def _finalize(self, generator: AsyncGenerator[Any, Any]) -> None:
        """A loop over this generator was left before its end."""
        if not self._closed:
            self.create_task(generator.aclose())

    # --- what the code in it does with it

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError(f"the event loop of {self._name!r} is closed: it has ended")
        handle = asyncio.Handle(callback, args, self, context)
        self._callbacks.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if get_ident() != self._thread:
            raise RuntimeError(_REFUSED.format("call_soon_threadsafe"))
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self.owner.start_timer(timer, when - self._now)
        return timer

    def _timer_handle_cancelled(self, timer: asyncio.TimerHandle) -> None:
        self.owner.stop_timer(timer)

    def time(self) -> float:
        """Seconds since the beginning. It stands still but for timers: they are recorded."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: object = None,
        context: Context | None = None,
        **more: Any,
    ) -> asyncio.Task[Any]:
        number = self._made = self._made + 1
        called = f"{self._name}-{number}" if name is None else str(name)
        task = _Task(self, coro, number, name=called, context=context, **more)
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.quiet:
            self._around.call_exception_handler(context)

    def get_debug(self) -> bool:
        return False

    def get_task_factory(self) -> None:
        return None

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Drop what is left."""
        self._closed = True
        for task in self._tasks.values():
            task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - as gather does
        self._callbacks.clear()


_REFUSED: Final = (
    "the event loop of hf.durable has no {}: what depends on the outside world is done in a step"
)


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> Any:
        raise RuntimeError(_REFUSED.format(name))

    return refuse


for _name in vars(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(TaskLoop):
        setattr(TaskLoop, _name, _refusal(_name))
