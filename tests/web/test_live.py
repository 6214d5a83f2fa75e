"""Pages hear which runs changed."""

from __future__ import annotations

import asyncio
import functools
import http.client
import json
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from holdfast import SyncCheckpointer
from holdfast.changes import Change
from holdfast.errors import StoreUnavailableError
from holdfast.web import live as module
from holdfast.web.live import Live, as_event, stream
from holdfast.web.site import Settings, Site
from tests.waiting import PATIENCE, wait_until
from tests.web import serving


def awaited(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, in an event loop of its own."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


Event = tuple[str, dict[str, Any]]


@pytest.fixture
def site(cp: SyncCheckpointer) -> Site:
    return Site(cp, None, Settings())


@asynccontextmanager
async def opened(site: Site) -> AsyncIterator[Live]:
    live = Live(site)
    try:
        yield live
    finally:
        live.close()


async def next_event(events: AsyncIterator[Event | None]) -> Event:
    async with asyncio.timeout(PATIENCE):
        while (event := await anext(events)) is None:
            pass
    return event


async def until_told_of(run_id: str, events: AsyncIterator[Event | None]) -> None:
    while True:
        _, data = await next_event(events)
        if run_id in data.get("ids", ()):
            return


@awaited
async def test_every_listener_hears_of_a_run_that_changed(cp: SyncCheckpointer, site: Site) -> None:
    async with opened(site) as live:
        listeners = [live.listen().events() for _ in range(3)]
        for events in listeners:
            assert (await next_event(events))[1]["any"], "what was missed before"
        await asyncio.to_thread(cp.save, "run", {"n": 1})
        for events in listeners:
            await until_told_of("run", events)


@awaited
async def test_who_listens_to_one_run_hears_of_no_other(site: Site) -> None:
    async with opened(site) as live:
        listener = live.listen("mine")
        events = listener.events()
        assert (await next_event(events))[1]["any"]
        listener.put(Change("other", 1, "running"))
        listener.put(Change("mine", 1, "running"))
        assert await next_event(events) == ("runs", {"ids": ["mine"], "any": False})


@awaited
async def test_a_slow_listener_is_told_that_anything_may_have_changed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 3)
    async with opened(site) as live:
        listener = live.listen()
        events = listener.events()
        await next_event(events)
        for n in range(10):
            listener.put(Change(f"run-{n}", 1, "running"))
        assert await next_event(events) == ("runs", {"ids": [], "any": True})


@awaited
async def test_the_store_is_watched_only_while_somebody_listens(site: Site) -> None:
    async with opened(site) as live:
        first, second = live.listen().events(), live.listen().events()
        await next_event(first)
        await next_event(second)
        assert (live.listeners, live._watching is not None) == (2, True)
        await first.aclose()  # type: ignore[attr-defined]
        assert live._watching is not None
        await second.aclose()  # type: ignore[attr-defined]
        assert live.listeners == 0
        assert live._watching is None


@awaited
async def test_an_outage_is_told_with_its_beginning_and_its_end(
    cp: SyncCheckpointer, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PROBE", 0.01)

    def lost(*_: object, **__: object) -> None:
        raise StoreUnavailableError("the disk is gone")

    async def told(events: AsyncIterator[Event | None]) -> Any:
        while True:
            name, data = await next_event(events)
            if name == "store":
                return data["lost_since"]

    async with opened(site) as live:
        events = live.listen().events()
        with monkeypatch.context() as patch:
            patch.setattr(cp.store, "read", lost)
            since = await told(events)
            assert site.lost_since is not None
            assert since == site.lost_since.isoformat()
        assert await told(events) is None


@awaited
async def test_changes_are_told_again_after_an_error_that_nobody_foresaw(
    cp: SyncCheckpointer, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PROBE", 0.01)
    failed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def broken(_: Live) -> None:
        loop.call_soon_threadsafe(failed.set)
        raise ZeroDivisionError

    async with opened(site) as live:
        events = live.listen().events()
        with monkeypatch.context() as patch:
            patch.setattr(Live, "_probe", broken)
            await next_event(events)
            async with asyncio.timeout(PATIENCE):
                await failed.wait()
        await asyncio.to_thread(cp.save, "later", {"n": 1})
        async with asyncio.timeout(PATIENCE):
            while (await next_event(events))[0] != "runs":
                pass
            await asyncio.to_thread(cp.save, "last", {"n": 1})
            await until_told_of("last", events)


@awaited
async def test_streams_end_when_the_server_stops(site: Site) -> None:
    async with opened(site) as live:
        said = stream(live.listen(), as_event)
        assert (await anext(said)).startswith("retry: ")
        rest = asyncio.create_task(_all(said))
        while not live.listeners:
            await asyncio.sleep(0)
        live.close()
        async with asyncio.timeout(PATIENCE):
            await rest
        assert live.listeners == 0


async def _all(said: AsyncIterator[str]) -> list[str]:
    return [text async for text in said]


def test_a_name_with_line_breaks_makes_no_other_event() -> None:
    text = as_event("runs", {"ids": ["a\nevent: store\ndata: {}\n\n"]})
    assert text.count("\n") == 3


def test_only_so_many_pages_can_listen(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PAGES", 0)
    assert client.get("/events").status_code == 503
    assert client.head("/events").status_code == 503
    assert client.get("/api/v1/events").status_code == 503


def test_a_name_that_no_run_can_have_is_refused(client: TestClient) -> None:
    assert client.get("/events", params={"run": "a\x00b"}).status_code in (400, 404)


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    until = time.monotonic() + PATIENCE
    for line in answer:
        assert time.monotonic() < until, "it was told of nothing, but that the server lives"
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


@pytest.mark.parametrize("path", ["/events", "/api/v1/events"])
def test_ctrl_c_ends_the_server_though_pages_listen(tmp_path: Path, path: str) -> None:
    store = tmp_path / "runs.db"
    with SyncCheckpointer(store) as cp, serving.serve(store) as served:
        connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=PATIENCE)
        with closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.headers["content-type"].startswith("text/event-stream")
            told = _events(answer)
            assert next(told)["any"]
            cp.save("run", {"n": 1})
            assert any("run" in data.get("ids", ()) for data in told)
            began = time.monotonic()
            os.kill(served.pid, signal.SIGINT)
            for _ in told:
                pass
            wait_until(lambda: _is_gone(served.pid))
            assert time.monotonic() - began < PATIENCE


def _is_gone(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "Z"


def test_who_asks_while_questions_are_counted_gets_the_new_number(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, asks = threading.Event(), threading.Event()
    told: list[str] = []

    def count(_: Site) -> str:
        counts.set()
        assert asks.wait(PATIENCE)
        return "2"

    monkeypatch.setattr(Site, "_open_questions", count)
    site._asking = "1"
    threads = [threading.Thread(target=lambda: told.append(site.asking)) for _ in range(2)]
    threads[0].start()
    assert counts.wait(PATIENCE)
    threads[1].start()
    threads[1].join(0.1)
    assert not told, "it waits for the number"
    asks.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert told == ["2", "2"]
