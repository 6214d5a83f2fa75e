"""A durable coroutine under way: its event loop, and what its tasks wait for."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from holdfast.engine.context import DECIDING
from holdfast.engine.effects import Effect
from holdfast.workflow.durable import Durable
from holdfast.workflow.fibers import Fiber, Frame, Outcome, together
from holdfast.workflow.keys import Mismatch, Unordered
from holdfast.workflow.task_loop import TaskLoop

if TYPE_CHECKING:
    from holdfast.workflow.interpreter import Interpreter

T = TypeVar("T")


class Timer(NamedTuple):
    """So many seconds are to pass."""

    seconds: float


class Request:
    """Something that a task waits for."""

    def __init__(
        self, body: Body, wanted: Callable[[], bool], then: Callable[[Outcome], None]
    ) -> None:
        self.body = body
        self.wanted = wanted
        self.keys: set[str] = set()  # of the tasks and questions that it waits for
        self._then = then
        self._context = contextvars.copy_context()
        self._context.run(DECIDING.set, None)

    @property
    def context(self) -> contextvars.Context:
        """That of whoever waits for it: a new copy each time."""
        return self._context.copy()

    def hand_over(self, outcome: Outcome) -> None:
        """It is done."""
        self.body.requests.pop(self, None)
        if self.wanted():
            self._then(outcome)


class Body:
    """A durable coroutine under way. To its tasks, it is the flow whose code is running."""

    task: asyncio.Task[Any] | None = None

    def __init__(
        self, code: Interpreter, fiber: Fiber, scope: Unordered, effect: Durable[Any]
    ) -> None:
        self.run_id = code.run_id
        self.pending = code.pending
        self.fiber = fiber  # it waits for the coroutine
        self.scope = scope
        self.requests: dict[Request, None] = {}  # in the order they were made
        self.excuse = code.pending.excuse
        self._code = code
        self._loop = TaskLoop(effect.name, self)  # type: ignore[abstract] # the rest is refused
        self._timers: dict[int, Request] = {}  # by identity: a timer equals others like it
        self._name = effect.name
        self._broken: Mismatch | None = None
        self._ending = False
        effect.context.run(DECIDING.set, self)
        self.main = self._loop.create_task(effect.coroutine, context=effect.context)

    # --- for the code in it

    def future_of(self, effect: Effect[Any]) -> asyncio.Future[Any] | None:
        """The result of an effect, for any of the tasks."""
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                f"a step of durable {self._name!r} was awaited on another event loop; await it in "
                "one of its tasks"
            )
        if self._loop.quiet:
            raise asyncio.CancelledError
        future: asyncio.Future[Any] = self._loop.create_future()

        def then(outcome: Outcome) -> None:
            if outcome.error is None:
                future.set_result(outcome.value)
            else:
                self.excuse()
                future.set_exception(outcome.error)

        request = self._request(effect, lambda: not future.done(), then)
        future.add_done_callback(lambda _: self._code.deliveries.abandon(request))
        return future

    def wait_for(self, effect: Effect[T]) -> T:
        """Nothing blocks here."""
        value: T = self._code.wait_for(effect)
        return value

    def decide(self, name: str, make: Callable[[], Any]) -> Any:
        """The value that was recorded here, or a new one that will be."""
        if self._loop.quiet:
            return make()
        try:
            return self._code.decide_in(self.scope, name, make)
        except Mismatch as mismatch:
            self._broken = mismatch  # the code might catch it
            raise

    def start_timer(self, timer: asyncio.TimerHandle, delay: float) -> None:
        """Wait so long, and fire."""
        if self._loop.quiet:
            return

        def then(_: Outcome) -> None:
            del self._timers[id(timer)]
            self._loop.fire(timer)

        request = self._request(Timer(delay), lambda: id(timer) in self._timers, then)
        self._timers[id(timer)] = request

    def stop_timer(self, timer: asyncio.TimerHandle) -> None:
        """It was cancelled."""
        request = self._timers.pop(id(timer), None)
        if request is not None:
            self._code.deliveries.abandon(request)

    def _request(
        self, effect: Any, wanted: Callable[[], bool], then: Callable[[Outcome], None]
    ) -> Request:
        request = Request(self, wanted, then)
        self.requests[request] = None
        self._code.start(Fiber(Frame(_single(effect), self.scope), request=request))
        return request

    # --- for the interpreter

    def turn(self) -> bool:
        """Run its tasks until all wait; False if they do already."""
        if not self._loop.ready:
            return False
        self._loop.run()
        if self._broken is not None:
            raise self._broken
        self.pending.check(at_end=False)
        if self.main.done():
            self._wind_up()
        return True

    def _wind_up(self) -> None:
        """The coroutine has ended: cancel the tasks that are left, and wait for them."""
        if not self._ending:
            self._ending = True
            for task in self._loop.tasks:
                task.cancel()
        if not self._loop.tasks and not self._loop.ready:
            self.scope.end()
            self._end(self._outcome())

    def _outcome(self) -> Outcome:
        if self.main.cancelled():
            return Outcome(error=RuntimeError(f"durable {self._name!r} was cancelled by its tasks"))
        error = self.main.exception()
        if error is None:
            return Outcome(self.main.result())
        if not isinstance(error, Exception):
            raise error
        return Outcome(error=together([error, *self._code.deliveries.failures_for(self)]))

    def check(self) -> bool:
        """All wait, and nothing recorded is left. Returns whether it gave up: nothing can come.

        Raises `Mismatch` if the recorded code asked for something that this code has not.
        """
        left = self.scope.left
        if left is not None:
            known = self._code.replay.found
            asked = (key for request in self.requests for key in request.keys)
            keys = (key for key in asked if key not in known)
            raise Mismatch(left, min(keys, default="nothing more"))
        if self.requests or self._code.waiting or self._code.questions.open:
            return False  # it may be woken by what is under way elsewhere
        self.close()
        error = RuntimeError(
            f"durable {self._name!r} waits for something that never comes: for no step, question "
            "or timer, but perhaps for a thread, or for a future that nobody completes"
        )
        self._end(Outcome(error=error))
        return True

    def _end(self, outcome: Outcome) -> None:
        self._timers.clear()
        for request in tuple(self.requests):
            self._code.deliveries.abandon(request)
        self._loop.close()
        self._code.deliveries.bodies.remove(self)
        self._code.resume(self.fiber, outcome)

    def close(self) -> None:
        """The run stops here: let the tasks clean up, without steps."""
        self._loop.quiet = True
        for task in self._loop.tasks:
            task.cancel()
        with suppress(RuntimeError):  # it goes round in circles
            self._loop.run()
        self._loop.close()


def _single(effect: Any) -> Generator[Any, Any, Any]:
    return (yield effect)
