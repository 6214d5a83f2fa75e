"""Who gets in, and what every answer says."""

from __future__ import annotations

import base64

import pytest
from starlette.testclient import TestClient

from holdfast.web.security import HEADERS, MAX_BODY
from holdfast.web.site import Site
from tests.web.conftest import Serving

TOKEN = "correct-horse-battery-staple"


def _basic(name: str, token: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{token}".encode()).decode()}


@pytest.mark.parametrize("path", ["/runs", "/static/style.css", "/nothing", "/api/v1/runs"])
def test_without_its_token_nobody_sees_whether_a_path_exists(serving: Serving, path: str) -> None:
    client = serving(tokens={"ann": TOKEN})
    answer = client.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize(
    "headers", [_basic("ann", TOKEN), {"authorization": f"Bearer {TOKEN}"}], ids=["basic", "bearer"]
)
def test_a_token_lets_in(serving: Serving, headers: dict[str, str]) -> None:
    assert serving(tokens={"ann": TOKEN}).get("/runs", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        _basic("ann", "wrong"),
        _basic("bob", TOKEN),
        {"authorization": "Bearer "},
        {"authorization": "Basic ###"},
        {"authorization": TOKEN},
        {"cookie": f"token={TOKEN}"},
    ],
)
def test_anything_else_does_not(serving: Serving, headers: dict[str, str]) -> None:
    assert serving(tokens={"ann": TOKEN}).get("/runs", headers=headers).status_code == 401


def test_a_token_in_the_address_counts_for_nothing(serving: Serving) -> None:
    assert serving(tokens={"ann": TOKEN}).get(f"/runs?token={TOKEN}").status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", ""])
def test_a_name_that_is_not_ours_leads_nowhere(client: TestClient, host: str) -> None:
    assert client.get("/runs", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "[::1]:8765", "10.0.0.7:80"])
def test_addresses_and_localhost_do(client: TestClient, host: str) -> None:
    assert client.get("/runs", headers={"host": host}).status_code == 200


def test_a_name_that_was_given_does(serving: Serving) -> None:
    client = serving(names=("runs.example.org",))
    assert client.get("/runs", headers={"host": "runs.example.org"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_site_can_send_nothing(
    client: TestClient, headers: dict[str, str]
) -> None:
    assert client.post("/runs", headers=headers).status_code == 403


def test_a_page_of_another_site_is_not_advised_to_allow_writes(client: TestClient) -> None:
    answer = client.post("/api/v1/runs", headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert answer.json()["advice"] == "Send it from a page of this site, or from a program."


def test_a_page_of_another_site_can_link_here_but_not_embed(client: TestClient) -> None:
    linked = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    embedded = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client.get("/runs", headers=linked).status_code == 200
    assert client.get("/runs", headers=embedded).status_code == 403


@pytest.mark.parametrize("path", ["/runs", "/nothing", "/static/style.css", "/static/nothing.js"])
def test_every_answer_forbids_scripts_of_others(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "set-cookie" not in answer.headers
    assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/runs", "/api/v1/runs", "/healthz"])
def test_an_answer_to_what_nobody_foresaw_forbids_them_too(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("in our own code")

    monkeypatch.setattr(Site, "noting_outages", broken)
    answer = client.get(path)
    assert answer.status_code == 500
    assert "in our own code" not in answer.text
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"origin": "http://["}, 403), ({"authorization": b"Basic \xe9"}, 405)],
)
def test_headers_that_can_not_be_read_are_refused(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    assert client.post("/runs", headers=headers).status_code == status


def test_a_body_has_a_limit_also_if_its_length_is_not_said(client: TestClient) -> None:
    assert client.post("/runs", content=b"x" * (MAX_BODY + 1)).status_code == 413


def test_only_what_reads_is_allowed_where_nothing_is_written(client: TestClient) -> None:
    assert client.post("/runs").status_code == 405


def test_static_files_stay_in_their_directory(client: TestClient) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"):
        assert client.get(path).status_code == 404
