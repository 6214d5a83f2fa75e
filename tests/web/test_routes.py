"""Every route that the application has, with requests that it must refuse.

Routes are found by walking the application: a new one is tried without being named here. One of a
kind that this does not know fails, and so does one with a parameter that `UNKNOWN` does not have.
"""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient

from holdfast import SyncCheckpointer
from tests.web.conftest import Serving
from tests.web.walking import READING, Walked, walk

TOKEN = "correct-horse-battery-staple"
UNKNOWN = {
    "run_id": "no-such%2Frun",
    "seq": "999",
    "step": "no-such-step",
    "part": "no-such-part",
    "action": "no-such-action",
    "path": "no-such-file.css",
}
"""What each parameter of a path is given: something that is not in the store."""


@pytest.fixture
def routes(client: TestClient) -> list[Walked]:
    app = client.app
    assert isinstance(app, Starlette)
    return list(walk(app.routes, UNKNOWN))


def refusals(client: TestClient, routes: list[Walked], expected: int, **headers: str) -> list[str]:
    """The routes that answer otherwise, for each of their methods."""
    wrong = []
    for route in routes:
        for method in sorted(route.methods):
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            found = client.request(method, route.path, headers=names, follow_redirects=False)
            if found.status_code != expected:
                wrong.append(f"{method} {route.path}: {found.status_code}, not {expected}")
    return wrong


def test_the_walk_finds_the_pages_the_files_and_the_api(routes: list[Walked]) -> None:
    paths = {route.path for route in routes}
    assert {"/", "/runs", "/runs/no-such%2Frun", "/static/no-such-file.css"} <= paths


def test_a_route_of_a_new_kind_is_noticed() -> None:
    with pytest.raises(AssertionError, match="nobody checks"):
        list(walk([WebSocketRoute("/live", lambda socket: None)], UNKNOWN))
    with pytest.raises(AssertionError, match="say what"):
        list(walk([Route("/{another}", lambda request: None)], UNKNOWN))


def test_no_route_answers_without_a_token(serving: Serving, routes: list[Walked]) -> None:
    client = serving(tokens={"ann": TOKEN}, allow_writes=True)
    assert not refusals(client, routes, 401)


def test_no_route_answers_a_wrong_token(serving: Serving, routes: list[Walked]) -> None:
    client = serving(tokens={"ann": TOKEN}, allow_writes=True)
    assert not refusals(client, routes, 401, authorization="Bearer correct-horse-battery-stable")


def test_no_route_answers_a_name_that_is_not_ours(serving: Serving, routes: list[Walked]) -> None:
    assert not refusals(serving(allow_writes=True), routes, 421, host="evil.example")


def test_no_route_answers_a_page_of_another_site(serving: Serving, routes: list[Walked]) -> None:
    client = serving(allow_writes=True)
    assert not refusals(client, routes, 403, sec_fetch_site="cross-site")
    writing = [route._replace(methods=frozenset(route.writing)) for route in routes]
    assert not refusals(client, writing, 403, origin="https://evil.example")


def test_no_route_knows_what_is_not_in_the_store(serving: Serving, routes: list[Walked]) -> None:
    about = [route for route in routes if route.given]
    reading = [route._replace(methods=route.methods & READING) for route in about]
    assert not refusals(serving(), reading, 404)
    client = serving(allow_writes=True)
    for route in about:
        for method in route.writing:
            answer = client.request(method, route.path)
            assert answer.status_code in (400, 404, 422), f"{method} {route.path}: {answer.text}"


def test_each_route_has_only_its_own_methods(client: TestClient, routes: list[Walked]) -> None:
    by_path: dict[str, set[str]] = {}
    for route in routes:
        by_path.setdefault(route.path, set()).update(route.methods)
    for path, methods in by_path.items():
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - methods:
            answer = client.request(method, path)
            assert answer.status_code == 405, f"{method} {path}: {answer.status_code}"


def test_nothing_is_changed_unless_that_is_allowed(
    serving: Serving, cp: SyncCheckpointer, routes: list[Walked]
) -> None:
    cp.save("run", {"n": 1})
    writing = [route._replace(methods=frozenset(route.writing)) for route in routes]
    assert not refusals(serving(), writing, 403)


def test_every_write_is_a_post(routes: list[Walked]) -> None:
    assert {method for route in routes for method in route.methods} <= {"GET", "HEAD", "POST"}


def test_no_answer_shows_our_own_code(serving: Serving, routes: list[Walked]) -> None:
    client = serving(allow_writes=True)
    for route in routes:
        for method in (*route.writing, "OPTIONS"):
            answer = client.request(method, route.path, content=b"\xff{not json")
            assert answer.status_code < 500, f"{method} {route.path}: {answer.status_code}"
            assert "Traceback" not in answer.text
