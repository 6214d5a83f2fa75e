"""Tells pages which runs changed, as server-sent events: `/events`.

One task watches the store for all pages, as long as there are any. A page gets the ids of runs, at
most twice a second, and asks for what it shows of them. One that reads too slowly is told that any
run may have changed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any, Final

import anyio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from holdfast.changes import ANY_RUN, Change
from holdfast.errors import HoldfastError
from holdfast.kernel.watching import Changes
from holdfast.logs import logger
from holdfast.model import STORE_JOURNAL, check_id
from holdfast.web.site import Site

EVERY: Final = 0.5
"""Seconds between two events for a page, at least."""

MEDIA: Final = "text/event-stream"

MOST_PAGES: Final = 500
"""Pages that can listen at a time."""

_MOST: Final = 500  # ids in an event; beyond that, any run may have changed
_BEAT: Final = 10.0  # seconds after which a page that was told nothing hears that we live
_PROBE: Final = 3.0  # seconds between two looks whether the store answers
_RETRY: Final = 2000  # milliseconds after which a browser connects again
_log: Final = logger()


class Live:
    """Those who listen to a site, and the task that watches its store for them.

    Everything but `close` is for the event loop of the server.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._listeners: set[Listener] = set()
        self._watching: asyncio.Task[None] | None = None
        self._follows = False  # changes from now on are told
        self._closed = False

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    @property
    def is_full(self) -> bool:
        """Whether nobody else can listen."""
        return self._closed or self.listeners >= MOST_PAGES

    def listen(self, run_id: str | None = None) -> Listener:
        """Somebody wants to know of changes of all runs, or of one."""
        return Listener(self, run_id)

    def close(self) -> None:
        """End every stream, and watching. Call it in the event loop; twice is fine."""
        self._closed = True
        for listener in list(self._listeners):
            listener.wake()
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    @property
    def closed(self) -> bool:
        """Whether the server stops."""
        return self._closed

    def add(self, listener: Listener) -> None:
        """Tell it of changes from now on, and that any run may have changed before."""
        self._listeners.add(listener)
        if self._follows:
            listener.put(ANY_RUN)
        if self._watching is None and not self._closed:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    def remove(self, listener: Listener) -> None:
        """Tell it no more."""
        self._listeners.discard(listener)
        if not self._listeners and self._watching is not None:
            self._watching.cancel()
            self._watching, self._follows = None, False

    async def _watch(self) -> None:
        """Watch until there is nobody to tell. An outage is reported; watching continues."""
        while True:
            try:
                async with (
                    Changes(self._site.cp.core, None, every=EVERY) as changes,
                    asyncio.TaskGroup() as tasks,
                ):
                    tasks.create_task(self._tell_changes(changes))
                    tasks.create_task(self._tell_outages())
            except* HoldfastError as errors:
                _log.warning("the web UI can't watch the store: %s", errors.exceptions[0])
            except* Exception:  # noqa: BLE001 - else nobody would hear of changes again
                _log.exception("the web UI failed to watch the store, and tries again")
            self._follows = False
            await asyncio.sleep(_PROBE)

    async def _tell_changes(self, changes: Changes) -> None:
        while True:
            for change in await changes.wait():  # first that any run may have changed
                self._site.count_questions_again()
                for listener in self._listeners:
                    listener.put(change)
            self._follows = True

    async def _tell_outages(self) -> None:
        """Ask the store now and then whether it answers: nobody else may be asking."""
        while True:
            await anyio.to_thread.run_sync(self._probe, abandon_on_cancel=True)
            for listener in self._listeners:
                listener.put_outage(self._site.lost_since)
            await asyncio.sleep(_PROBE)

    def _probe(self) -> None:
        try:
            with self._site.noting_outages():
                self._site.cp.store.read(STORE_JOURNAL, limit=1, bodies=False)
        except HoldfastError:
            return  # it is noted


class Listener:
    """One stream of events. Iterate over it: it ends when the server stops."""

    def __init__(self, live: Live, run_id: str | None) -> None:
        self._live = live
        self._run_id = run_id
        self._runs: dict[str, None] = {}
        self._any = False
        self._lost: datetime | None = None
        self._told_lost: datetime | None = None
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Have it look around."""
        self._news.set()

    def put(self, change: Change) -> None:
        """A run changed, or any may have."""
        if self._run_id is not None and change.run_id not in (None, self._run_id):
            return
        if change.run_id is None or len(self._runs) >= _MOST:
            self._any = True
            self._runs.clear()
        elif not self._any:
            self._runs[change.run_id] = None
        self._news.set()

    def put_outage(self, since: datetime | None) -> None:
        """The store can't be reached since then, or can be."""
        self._lost = since
        if since != self._told_lost:
            self._news.set()

    async def events(self) -> AsyncIterator[tuple[str, dict[str, Any]] | None]:
        """Names and data of events; None if it is only to be said that we live."""
        self._live.add(self)
        try:
            while not self._live.closed:
                try:
                    async with asyncio.timeout(_BEAT):
                        await self._news.wait()
                except TimeoutError:
                    yield None
                    continue
                self._news.clear()
                for event in self._taken():
                    yield event
                await self._pause()
        finally:
            self._live.remove(self)

    def _taken(self) -> list[tuple[str, dict[str, Any]]]:
        found: list[tuple[str, dict[str, Any]]] = []
        if self._lost != self._told_lost:
            self._told_lost = self._lost
            since = None if self._lost is None else self._lost.astimezone(UTC).isoformat()
            found.append(("store", {"lost_since": since}))
        if self._runs or self._any:
            found.append(("runs", {"ids": list(self._runs), "any": self._any}))
            self._runs.clear()
            self._any = False
        return found

    async def _pause(self) -> None:
        """Wait until the next event may be sent, or until the server stops."""
        until = asyncio.get_running_loop().time() + EVERY
        while not self._live.closed:
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return
            await asyncio.sleep(min(left, 0.1))


async def stream(listener: Listener, shown: Callable[[str, Any], str]) -> AsyncIterator[str]:
    """The text of a response: events as they are sent."""
    yield f"retry: {_RETRY}\n\n"
    async for event in listener.events():
        yield ": alive\n\n" if event is None else shown(*event)


def as_event(name: str, data: Any) -> str:
    """An event as it is sent. JSON has no line breaks."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


async def events(request: Request) -> Response:
    """Which runs changed; with `run`, only whether that one did."""
    live: Live = request.app.state.live
    run_id = request.query_params.get("run")
    if run_id is not None:
        check_id("run_id", run_id)
    if live.is_full:
        return PlainTextResponse("too many pages listen; close some\n", 503)
    if request.method == "HEAD":
        return Response(media_type=MEDIA)
    return streaming(live, run_id)


def streaming(live: Live, run_id: str | None) -> Response:
    """A response that lasts: which runs changed, or whether this one did."""
    return StreamingResponse(stream(live.listen(run_id), as_event), media_type=MEDIA)


ROUTES: list[BaseRoute] = [Route("/events", events)]
