"""No page and no REST route of a UI that is for one owner tells of another's runs, or changes one.

Routes are found by walking the application: a new one is tried without being named here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.web.app import make_app
from holdfast.web.site import Settings, Site
from tests.owners.conftest import Two
from tests.owners.world import THREAD, later, part, talk
from tests.web.walking import READING, walk

BODIES: list[dict[str, Any]] = [
    {},
    {"answer": "mine", "value": "mine", "question": "question"},
    {"seq": 1, "checkpoint": "1", "run_id": "mine", "keep_latest": 1},
]
ACTIONS = ("resume", "pause", "cancel", "fork", "rollback", "prune", "delete", "answer")
STREAMS = ("/events", "/api/v1/events")  # they never end; `live` is tried apart


def client_of(two: Two, owner: str | None) -> Iterator[TestClient]:
    with hf.SyncCheckpointer(two.store, owner=owner) as cp:
        cp.core.journals.keep_coded()
        settings = Settings(allow_writes=True, flows=[talk, later, part])
        app = make_app(Site(cp, two.store.url, settings))
        with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
            yield client


@pytest.fixture
def as_ann(two_in_file: Two) -> Iterator[TestClient]:
    yield from client_of(two_in_file, "ann")


@pytest.fixture
def as_all(two_in_file: Two) -> Iterator[TestClient]:
    yield from client_of(two_in_file, None)


def requests(client: TestClient, two: Two, run_id: str) -> Iterator[tuple[str, str]]:
    """Every request that can be made about a run, or about all: what it was, and what came."""
    app = client.app
    assert isinstance(app, Starlette)
    values = {"run_id": run_id, "seq": "1", "step": "say", "part": "runs", "path": "app.css"}
    for action in ACTIONS:
        for route in walk(app.routes, {**values, "action": action}):
            if route.path in STREAMS or (action != ACTIONS[0] and "action" not in route.given):
                continue
            for method in sorted(route.methods - {"HEAD"}):
                for body in [None] if method in READING else BODIES:
                    found = client.request(method, route.path, json=body)
                    assert found.status_code != 500, f"{method} {route.path}"
                    yield f"{method} {route.path} {found.status_code}", found.text


def leaks(client: TestClient, two: Two) -> set[str]:
    """The requests whose answers tell of Bob's runs, or that changed one."""
    before = two.untouched()
    found = set()
    for run_id in (two.bob.saved, two.bob.asks):
        for what, text in requests(client, two, run_id):
            if two.bob.among(text, {run_id}):
                found.add(f"{what} tells")
            if not what.startswith("GET") and two.untouched() != before:
                found.add(f"{what} changes")
                before = two.untouched()
    if two.untouched() != before:
        found.add("something that only reads changes")
    return found


def test_no_route_tells_or_changes_anything_of_another_owner(
    as_ann: TestClient, two_in_file: Two
) -> None:
    assert leaks(as_ann, two_in_file) == set()


LISTS = (
    "/",
    f"/runs?thread={THREAD}",
    "/runs?owner=bob",
    "/inbox",
    "/overview",
    "/metrics",
    "/api/v1/runs",
    "/api/v1/runs?owner=bob",
    "/api/v1/questions",
)


@pytest.mark.parametrize("path", LISTS)
def test_lists_have_the_owners_own_runs(as_ann: TestClient, two_in_file: Two, path: str) -> None:
    found = as_ann.get(path)
    assert found.status_code == 200
    assert not two_in_file.bob.among(found.text)


def test_a_ui_for_all_owners_shows_what_the_others_do_not(
    as_all: TestClient, two_in_file: Two
) -> None:
    told = [path for path in LISTS if two_in_file.bob.among(as_all.get(path).text)]
    assert {"/", "/inbox", "/api/v1/runs", "/api/v1/questions"} <= {*told}
    assert two_in_file.bob.words in as_all.get(f"/api/v1/runs/{two_in_file.bob.saved}").text


def test_a_run_that_is_submitted_belongs_to_the_owner_of_the_ui(
    as_ann: TestClient, two_in_file: Two
) -> None:
    body: dict[str, Any] = {"flow": "later", "inputs": {"words": "mine"}, "run_id": "new"}
    assert as_ann.post("/api/v1/runs", json=body).status_code in (200, 201)
    with hf.SyncCheckpointer(two_in_file.store) as cp:
        run = cp.run("new")
        assert run is not None
        assert run.owner == "ann"
    taken = as_ann.post("/api/v1/runs", json={**body, "run_id": two_in_file.bob.due})
    assert taken.status_code in (400, 409)
    other = as_ann.post("/api/v1/runs", json={**body, "run_id": "other", "owner": "bob"})
    assert 400 <= other.status_code < 500
