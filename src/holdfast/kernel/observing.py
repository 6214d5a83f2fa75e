"""Delivers events to the observers of a checkpointer, and to listeners, which may be slow.

An `Observer` is called at once, in the thread in which something happens, perhaps in the middle of
a save: it must be quick, and must not use the checkpointer. A listener is any function of an event.
It is called in a thread of its own, so that no run and no save ever waits for it.
"""

from __future__ import annotations

import atexit
import inspect
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from holdfast.logs import logger
from holdfast.seams import on_fork

if TYPE_CHECKING:
    from holdfast.kernel.events import Event

log: Final = logger()

MOST_WAITING: Final = 10_000  # events that a slow listener may be behind; what is more, is dropped
MOST_WAITING_BYTES: Final = 64 << 20  # the same of the values in them
CLOSING_SECONDS: Final = 5.0  # that closing waits for listeners
_IDLE_SECONDS: Final = 10.0  # then its thread ends; the next event starts another


class Observer:
    """Gets every event at once, in the thread where it happens. What it raises is logged.

    It must be quick, and must not use the engine or the checkpointer that tells it: a save may be
    under way in this very thread. Several threads may call it at the same time.
    """

    failures = 0  # so far

    def on_event(self, event: Event) -> None:
        """Something happened."""

    def of_checkpointer(self) -> Observer:
        """The one that another checkpointer tells: ids of runs are unique only there."""
        return self

    def flush(self, seconds: float) -> None:
        """Wait for what is still to be done about earlier events, so long at most."""

    @property
    def name(self) -> str:
        """What the log calls it."""
        return type(self).__qualname__

    def log_failure(self, error: BaseException) -> None:
        """Log that it failed, the first time and every thousandth: where, and with which error.

        The error's message is not shown: it may quote values.
        """
        self.failures += 1
        if self.failures % 1000 != 1:
            return
        frame = traceback.extract_tb(error.__traceback__)[-1:]
        where = "".join(f" in {one.filename}:{one.lineno}" for one in frame)
        kind = type(error).__qualname__
        log.warning("the listener %s failed: %s%s (%d)", self.name, kind, where, self.failures)


Listener = Callable[["Event"], Any] | Observer
"""A function of an event, `def` or `async def`; or an `Observer`."""


def observers_of(listeners: Iterable[Listener]) -> tuple[Observer, ...]:
    """The listeners as observers. Raises `TypeError` for what can't be called."""
    if callable(listeners) or isinstance(listeners, Observer):
        raise TypeError("listeners is a list: listeners=[...]")
    return tuple(one if isinstance(one, Observer) else Behind(one) for one in listeners)


def tell(observers: Iterable[Observer], event: Event) -> None:
    """Tell them of an event. Raises nothing but Ctrl-C."""
    for one in observers:
        try:
            one.on_event(event)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the user's: sys.exit() ends no run, either
            one.log_failure(error)


class Behind(Observer):
    """Calls one listener with events, in their order, in a thread of its own.

    An async one runs on an event loop of that thread. When more than `MOST_WAITING` events wait,
    or values of more than `MOST_WAITING_BYTES`, new ones are dropped, and that is logged.
    """

    def __init__(self, listener: Callable[[Event], Any]) -> None:
        if isinstance(listener, type) and issubclass(listener, Observer):
            name = listener.__name__
            raise TypeError(f"a listener is an object, not its class: listeners=[{name}()]")
        if not callable(listener):
            raise TypeError(f"a listener is a function of an event, not {listener!r}")
        self._listener = listener
        self._reset()
        on_fork(self._reset)

    def _reset(self) -> None:
        """A child of fork() has the listener, but neither its thread nor what waits for it."""
        self._waiting: deque[tuple[Event, int]] = deque()  # and the bytes that it holds
        self._held = 0
        self._counting = threading.RLock()  # a finalizer may tell something while it is held
        self._bell: SimpleQueue[None] = (
            SimpleQueue()
        )  # unlike a lock, it may be rung by a finalizer
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asleep = False
        self._busy = False
        self._dropped = 0
        self._given_up = False  # somebody waited for it in vain

    @property
    def name(self) -> str:
        """The function's name."""
        listener = self._listener
        return getattr(listener, "__qualname__", None) or type(listener).__qualname__

    def on_event(self, event: Event) -> None:
        """Have the listener called with it, later."""
        if len(self._waiting) >= MOST_WAITING or self._held >= MOST_WAITING_BYTES:
            self._dropped += 1
            return
        event = event.kept()
        held = event.held
        if held:
            with self._counting:
                self._held += held
        self._waiting.append((event, held))
        if self._thread is None:
            self._start()
        elif self._asleep:
            self._bell.put(None)

    def flush(self, seconds: float) -> None:
        """Wait until the listener has seen all that happened so far.

        Only once: after a wait in vain, there is none until it has caught up.
        """
        until = monotonic() + seconds
        if threading.current_thread() is self._thread:
            return  # the listener itself closes what it listens to
        while (self._waiting or self._busy) and not self._given_up:
            left = until - monotonic()
            if left <= 0 or self._thread is None:
                self._given_up = True
                if self._waiting:
                    log.warning(
                        "the listener %s did not hear of the last %d events: it is too slow",
                        self.name,
                        len(self._waiting),
                    )
                return
            threading.Event().wait(min(left, 0.002))

    def _start(self) -> None:
        if not self._starting.acquire(blocking=False):
            return  # another thread starts it
        try:
            if self._thread is None:
                self._busy = True
                thread = threading.Thread(target=self._run, name="holdfast-listener", daemon=True)
                thread.start()
                self._thread = thread
                _all.add(self)
        except RuntimeError:  # no thread can be started now: the next event tries again
            self._busy = False
        finally:
            self._starting.release()

    def _run(self) -> None:
        call = _Caller(self._listener, self.log_failure)
        try:
            while self._more_comes():
                event, held = self._waiting.popleft()
                if held:
                    with self._counting:
                        self._held -= held
                call(event)
        finally:
            call.close()
            if self._waiting:  # came at the very end
                self._start()

    def _more_comes(self) -> bool:
        """Wait for the next event; False, which ends the thread, if none comes for a while."""
        while not self._waiting:
            self._busy = self._given_up = False
            self._tell_dropped()
            self._asleep = True
            try:
                if not self._waiting:
                    self._bell.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._starting:
                    self._thread = None
                return False
            finally:
                self._asleep = False
        self._busy = True
        return True

    def _tell_dropped(self) -> None:
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            log.warning(
                "the listener %s is too slow: %d events were dropped",
                self.name,
                dropped,
            )


class _Caller:
    """Calls a listener, and waits for what it returns if that is to be awaited."""

    def __init__(
        self, listener: Callable[[Event], Any], failed: Callable[[BaseException], None]
    ) -> None:
        self._listener = listener
        self._failed = failed
        self._runner: Any = None

    def __call__(self, event: Event) -> None:
        try:
            made = self._listener(event)
            if inspect.iscoroutine(made):
                if self._runner is None:
                    import asyncio

                    self._runner = asyncio.Runner()
                self._runner.run(made)
        except BaseException as error:  # noqa: BLE001 - as in `tell`, and its thread must live
            self._failed(error)

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()


_all: weakref.WeakSet[Behind] = weakref.WeakSet()


def flush(observers: Iterable[Observer], seconds: float = CLOSING_SECONDS) -> None:
    """Wait for these, so long together."""
    until = monotonic() + seconds
    for one in observers:
        try:
            one.flush(max(0.0, until - monotonic()))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - as in `tell`
            one.log_failure(error)


async def flush_async(observers: Iterable[Observer]) -> None:
    """`flush`, while the event loop goes on: a listener may wait for it."""
    waited_for = list(observers)
    if waited_for:
        import asyncio

        await asyncio.to_thread(flush, waited_for)


@atexit.register
def _flush_at_exit() -> None:
    flush(list(_all))
