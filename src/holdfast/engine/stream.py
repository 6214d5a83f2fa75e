"""Events as they come: an async iterator that runs the engine in its consumer's own task.

The run continues when the consumer asks for the next event, and stops when it does not. A step that
is awaited here costs no task of its own, and yet what it reports on the way is seen at once: the
engine's coroutine is driven by hand, and whenever it waits, the events that gathered go first.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from typing import Any, Final

from holdfast.engine.events import Event
from holdfast.engine.tracebacks import fold


class _HandOver:
    """Awaited by the engine to let the consumer see the events so far."""

    def __await__(self) -> Generator[Any, None, None]:
        yield self


HAND_OVER: Final = _HandOver()


class Stream(AsyncIterator[Event]):
    """The events of one run. Closing it, or dropping it, leaves the run to be resumed."""

    def __init__(
        self,
        start: Callable[[], Coroutine[Any, Any, Any]],
        events: deque[Event],
        release: Callable[[], object],
    ) -> None:
        self._start = start
        self._release = release
        self._main: Coroutine[Any, Any, Any] | None = None
        self._events = events
        self._waits_for: Any = HAND_OVER  # what the engine yielded last
        self._over = False
        self._failure: Exception | None = None
        self._follower: asyncio.Task[Any] | None = None  # who waits for the next event
        self._closing = False
        self._asking = False  # someone waits for the next event
        self._close_after: Callable[[], Awaitable[object]] | None = None

    def then(self, close: Callable[[], Awaitable[object]]) -> Stream:
        """Await this, too, when the run is over or the stream is closed."""
        self._close_after = close
        return self

    def __aiter__(self) -> Stream:
        return self

    @types.coroutine
    def _next(self) -> Generator[Any, Any, Event]:
        while True:
            if self._events:
                return self._events.popleft()
            if self._over:
                failure, self._failure = self._failure, None
                raise failure or StopAsyncIteration
            if self._main is None:
                self._main = self._start()
            try:
                if self._waits_for is HAND_OVER:
                    self._waits_for = self._main.send(None)
                    continue
                self._follower = asyncio.current_task()
                try:
                    sent = yield self._waits_for
                except BaseException as error:
                    if self._closing and self._follower is not None:
                        self._follower.uncancel()
                        self._main.close()
                        self._over = True
                        continue
                    self._waits_for = self._main.throw(error)
                else:
                    self._waits_for = self._main.send(sent)
                finally:
                    self._follower = None
            except StopIteration:
                self._over = True
            except Exception as error:
                self._over = True
                self._failure = error  # after the events that led to it
            except BaseException:
                self._over = True
                raise

    async def __anext__(self) -> Event:
        if self._asking:
            raise RuntimeError("another task is reading this stream: one at a time may")
        self._asking = True
        try:
            return await self._next()
        except BaseException as error:
            if isinstance(error, Exception):
                fold(error)
            if self._over:
                await self._close_what_is_behind()
            raise
        finally:
            self._asking = False

    async def aclose(self) -> None:
        """Stop following the run: what is under way is dropped, what is finished is kept."""
        self._over = True
        self._events.clear()
        follower = self._follower
        try:
            if follower is not None and follower is not asyncio.current_task():
                self._closing = True  # it waits in another task, which must hear of it
                follower.cancel()
                while self._follower is follower:
                    await asyncio.sleep(0)
            elif self._main is not None:
                self._main.close()
        finally:
            self._release()
            await self._close_what_is_behind()

    async def _close_what_is_behind(self) -> None:
        close, self._close_after = self._close_after, None
        if close is not None:
            await close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
