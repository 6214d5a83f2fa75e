"""Whatever a store holds is shown as text: nothing in it is ever executed."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Page, expect

from holdfast import SyncCheckpointer
from holdfast.web.app import make_app
from holdfast.web.rendering import run_path
from holdfast.web.site import Settings, Site
from tests.web import hostile, serving
from tests.web.addresses import compare, general, of_run
from tests.web.browser.browsing import Visits
from tests.web.hostile import RUN, RUNS, TAG, evil
from tests.web.made_once import copied
from tests.web.serving import Served
from tests.web.walking import walk

TAKEN_FOR_A_PAGE = f"""() => [...document.querySelectorAll(
    '{TAG}, [onmouseover], [onerror], [onload], [onfocus], [hx-on\\\\:load], [srcdoc],' +
    'img[src=x], a[href^="javascript:" i], form[action^="javascript:" i]'
)].map((element) => element.outerHTML.slice(0, 200))"""

DATA = ("text/html", "text/plain", "application/json", "application/problem", "text/event-stream")


@pytest.fixture(scope="package")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = copied(tmp_path_factory, "hostile")
    with serving.serve(directory / hostile.NAME, "--allow-writes", cwd=directory) as started:
        yield started


def _fetch(served: Served, path: str) -> tuple[int, str, str]:
    """What is sent for a path, as it is; only the beginning of what never ends."""
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        kind = answer.getheader("content-type", "")
        assert answer.getheader("x-content-type-options") == "nosniff"
        body = "" if kind.startswith("text/event-stream") else answer.read().decode()
        return answer.status, kind, body
    finally:
        connection.close()


def _pages() -> list[str]:
    """Every page, with what a store can hold of each kind."""
    found = [*general().values(), "/runs?status=failed", "/inbox?state=done"]
    for run_id in RUNS:
        found += of_run(run_id).values()
    found.append(compare(f"{hostile.PLAIN}@1", f"{hostile.PLAIN}@2"))
    found.append(compare(f"{hostile.ASKS}@1", f"{RUN}@8"))
    found += [run_path(RUN, step=evil("step")), run_path(RUN, step=evil("failing", 1))]
    return found


def _everything() -> list[str]:
    """Every path that the application has, of hostile runs."""
    with SyncCheckpointer("memory://") as cp:
        routes = make_app(Site(cp, None, Settings())).routes
    found = []
    for run_id, seq in ((RUN, "2"), (hostile.ASKS, "1"), (hostile.PLAIN, "1")):
        values = {"run_id": quote(run_id, safe=""), "seq": seq, "part": "health", "path": "app.js"}
        values["step"] = quote(evil("step"), safe="")
        for action in ("fork", "answer", "cancel", evil("action")):
            filled = values | {"action": quote(action, safe="")}
            found += [route.path for route in walk(routes, filled) if "GET" in route.methods]
    return sorted(set(found) - {"/static/app.js"})


ASKED = ("status", "flow", "thread", "owner", "since", "q", "before", "state", "mine", "label")


def _reflections(*asked: str) -> list[str]:
    """Pages that are asked for what only an attacker asks for."""
    found = [path for name in asked for path in general(**{name: evil(name)}).values()]
    found += [compare(evil("a"), evil("b")), compare(f"{RUN}@{evil('seq')}", f"{evil('x')}@1")]
    found += [run_path(RUN, **{name: evil(name)}) for name in ("tab", "step", "attempt", "at")]
    return [*found, run_path(evil("nobody")), f"/{quote(evil('nothing'), safe='')}"]


@pytest.mark.parametrize("paths", [_pages(), _reflections(*ASKED)], ids=["pages", "reflections"])
def test_a_page_is_sent_with_nothing_of_the_store_as_html(
    attacked: Served, paths: list[str]
) -> None:
    wrong = []
    for path in paths:
        status, kind, body = _fetch(attacked, path)
        if status >= 500 or not kind.startswith("text/html") or f"<{TAG}" in body.lower():
            wrong.append(f"{path}: {status} {kind}")
    assert not wrong, "\n".join(wrong)


def test_whatever_a_route_sends_no_browser_takes_it_for_a_page_of_the_store(
    attacked: Served,
) -> None:
    wrong = []
    for path in _everything():
        status, kind, body = _fetch(attacked, path)
        shown = kind.startswith("text/html") and f"<{TAG}" in body.lower()
        if status >= 500 or shown or (body and not kind.startswith(DATA)):
            wrong.append(f"{path}: {status} {kind}")
        if kind.startswith("application/json"):
            json.loads(body)
    assert not wrong, "\n".join(wrong)


def _harms(page: Page, path: str) -> list[str]:
    """What is wrong with a page that shows what an attacker wrote."""
    page.goto(path)
    expect(page.locator(".loading")).to_have_count(0)  # parts come later
    page.mouse.move(400, 300)
    taken = [f"{path}: {element}" for element in page.evaluate(TAKEN_FOR_A_PAGE)]
    ran = [
        f"{path}: a script ran"
        for frame in page.frames
        if frame.evaluate("() => typeof window.hacked") != "undefined"
    ]
    return taken + ran


def test_nothing_in_a_store_is_executed(visit: Visits, attacked: Served) -> None:
    page = visit("/runs", of=attacked)
    again = {path for run_id in RUNS[2:] for path in list(of_run(run_id).values())[3:]}
    wrong = []
    for path in _pages():
        if path in again:  # the same templates, and no scripts of their own
            continue
        wrong += _harms(page, path)
        if f"<{TAG}>" not in page.inner_text("body"):
            wrong.append(f"{path} does not show it")
    assert not wrong, "\n".join(wrong)


def test_nothing_in_an_address_is_executed(visit: Visits, attacked: Served) -> None:
    page = visit("/runs", of=attacked, tolerated=["status of 4"])
    wrong = [harm for path in _reflections("q", "flow") for harm in _harms(page, path)]
    assert not wrong, "\n".join(wrong)
