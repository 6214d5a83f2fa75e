"""A plain `def` workflow: its body runs in a thread of its own, and hands over what it asks for.

To the interpreter it looks like a coroutine: `send` gives a future while the body works, and what
the body asks for once it has asked. So nothing the body does between steps blocks the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from holdfast.engine.context import DECIDING, Deciding
from holdfast.engine.effects import Effect

T = TypeVar("T")


class Decide(NamedTuple):
    """The body wants a decision that is made once, such as the time."""

    name: str
    make: Callable[[], Any]


class _AbandonedError(BaseException):
    """The run stopped here: the body's thread ends."""


class _Turn(NamedTuple):
    """What the body did last: it asked for something, returned or raised."""

    asked: Any = None
    error: BaseException | None = None
    over: bool = False


class _Channel:
    """What body and interpreter hand each other. The thread holds this, never the body itself."""

    task: asyncio.Task[Any] | None = None  # nothing can be awaited in the thread

    def __init__(self, flow: Deciding) -> None:
        self.run_id = flow.run_id
        self.pending = flow.pending
        self.turn: _Turn | None = None
        self.abandoned = False
        self._go_on = threading.Semaphore(0)
        self._sent: tuple[Any, BaseException | None] = (None, None)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrival: asyncio.Future[None] | None = None

    # --- in the body's thread

    def future_of(self, _: Effect[Any]) -> None:
        """Nothing can be awaited in the thread."""

    def wait_for(self, effect: Effect[T]) -> T:
        """Hand over what the body asks for, and block until it is done."""
        value: T = self._ask(effect)
        return value

    def decide(self, name: str, make: Callable[[], Any]) -> Any:
        """The value that was recorded here, or a new one that will be."""
        return self._ask(Decide(name, make))

    def main(self, call: Callable[[], Any]) -> None:
        """Run the body."""
        DECIDING.set(self)
        try:
            turn = _Turn(call(), over=True)
        except _AbandonedError:
            return
        except StopIteration as error:  # the interpreter would take it for the body's return
            turn = _Turn(error=RuntimeError(f"the workflow raised {error!r}"), over=True)
        except BaseException as error:  # noqa: BLE001 - the interpreter raises it
            turn = _Turn(error=error, over=True)
        self._hand_over(turn)

    def _ask(self, what: Any) -> Any:
        if not self.abandoned:
            self._hand_over(_Turn(what))
            self._go_on.acquire()
        if self.abandoned:
            raise _AbandonedError
        value, error = self._sent
        if error is not None:
            raise error
        return value

    def _hand_over(self, turn: _Turn) -> None:
        loop, arrival = self._loop, self._arrival
        assert loop is not None
        assert arrival is not None
        self.turn = turn
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_ring, arrival)

    # --- in the interpreter's

    def expect(self) -> asyncio.Future[None]:
        """A future that is done when the body has had its turn."""
        self._loop = asyncio.get_running_loop()
        self._arrival = self._loop.create_future()
        self._arrival._asyncio_future_blocking = True  # noqa: SLF001 - as `await` does
        return self._arrival

    def go_on(self, value: Any, error: BaseException | None) -> None:
        """Let the body continue with the outcome of what it asked for."""
        self._sent = (value, error)
        self._go_on.release()

    def abandon(self) -> None:
        """End the body where it waits."""
        self.abandoned = True
        self._go_on.release()


class PlainBody:
    """The body of a plain `def` workflow, as a coroutine."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._channel: _Channel | None = None

    def send(self, value: Any) -> Any:
        """Continue the body; returns what it asks for, or a future until it does."""
        return self._continue(value, None)

    def throw(self, error: BaseException) -> Any:
        """Continue the body with an error."""
        return self._continue(None, error)

    def _continue(self, value: Any, error: BaseException | None) -> Any:
        channel = self._channel
        if channel is None:
            flow = DECIDING.get()
            assert flow is not None, "the interpreter sets it"
            channel = self._channel = _Channel(flow)
            arrival = channel.expect()
            threading.Thread(
                target=contextvars.copy_context().run,
                args=(channel.main, self._call),
                name="holdfast-flow",
                daemon=True,
            ).start()
            return arrival
        turn, channel.turn = channel.turn, None
        if turn is None:
            arrival = channel.expect()
            channel.go_on(value, error)
            return arrival
        if turn.error is not None:
            raise turn.error
        if turn.over:
            raise StopIteration(turn.asked)
        return turn.asked

    def close(self) -> None:
        """End the body: the run stopped here."""
        if self._channel is not None:
            self._channel.abandon()

    __del__ = close


def _ring(arrival: asyncio.Future[None]) -> None:
    if not arrival.done():
        arrival.set_result(None)
