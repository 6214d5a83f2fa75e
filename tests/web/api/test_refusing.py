"""What the API refuses is told as a problem: what is wrong, where, and what to do."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from holdfast import SyncCheckpointer
from tests.web.api.conftest import API
from tests.web.conftest import Serving

HOSTILE = (
    *("../../etc/passwd", "..", ".", "%", "%2F", "a%00b", "\x00", "\n", "a\r\nX: y", "' OR 1=1 --"),
    *("{run_id}", "<script>", "\u202e", "x" * 5000, "\ud800", "-h", "--", "a@1", "*", "$ne"),
)


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["status"] == status
    assert found["detail"]
    assert "Traceback" not in answer.text
    return found


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/runs?bogus=1", "bogus"),
        ("/runs?limit=0", "limit"),
        ("/runs?limit=501", "limit"),
        ("/runs?limit=x", "limit"),
        ("/runs?limit=1&limit=2", "limit"),
        ("/runs?status=done", "status"),
        ("/runs?asking=yes", "asking"),
        ("/runs?since=yesterday", "since"),
        ("/runs?label=x", "label"),
        ("/runs?label=a=1&label=a=2", "label"),
        ("/runs?after=nonsense", "after"),
        ("/runs?after=1-a%00b", "after"),
        ("/runs?label=a=%00", "label"),
        ("/runs?flow=" + "x" * 3000, "flow"),
        ("/tally", "since"),
        ("/tally?since=999999w", "since"),
        ("/runs/r/diff?a=1", "b"),
        ("/runs/r/checkpoints/x", "seq"),
        ("/runs/r/checkpoints/-1", "seq"),
        ("/runs/r/checkpoints/99999999999999999999", "seq"),
    ],
)
def test_a_wrong_parameter_is_named(
    cp: SyncCheckpointer, client: TestClient, path: str, parameter: str
) -> None:
    cp.save("r", {"n": 1})
    assert problem(client.get(f"{API}{path}"), 400)["parameter"] == parameter


@pytest.mark.parametrize("run_id", HOSTILE, ids=ascii)
@pytest.mark.parametrize("part", ["", "/timeline", "/checkpoints", "/checkpoints/1", "/questions"])
def test_a_hostile_id_is_not_found(client: TestClient, run_id: str, part: str) -> None:
    encoded = quote(run_id, safe="", errors="surrogatepass").replace(".", "%2E")
    answer = client.get(f"{API}/runs/{encoded}{part}")
    assert problem(answer, 404)


@pytest.mark.parametrize("run_id", ["a/b", "a%2Fb", "%", "..", "ünï çödé", "a?b#c", "a b+c"])
def test_any_id_that_a_run_can_have_is_found(
    cp: SyncCheckpointer, client: TestClient, run_id: str
) -> None:
    cp.save(run_id, {"n": 1})
    encoded = quote(run_id, safe="").replace(".", "%2E")
    assert client.get(f"{API}/runs/{encoded}").json()["run"]["run_id"] == run_id
    page = client.get(f"{API}/runs/{encoded}/timeline?limit=1").json()
    assert client.get(page["next"]).json()["timeline"][0]["seq"] == 1


def test_what_is_not_there_is_not_found(cp: SyncCheckpointer, client: TestClient) -> None:
    cp.save("r", {"n": 1}, step="one")
    for path in (
        *("/nothing", "/runs/other", "/runs/r/checkpoints/7", "/runs/r/checkpoints/0"),
        *("/runs/r/checkpoints/1?path=/x", "/runs/r/diff?a=1&b=two", "/runs/r?at=two"),
        *("/runs/r?at=9", "/runs/r?at=other@1", "/runs/r/steps/two", "/runs/r/steps/one?at=7"),
    ):
        problem(client.get(f"{API}{path}"), 404)


def test_who_may_not_come_in_is_told_so_as_a_document(serving: Serving) -> None:
    client = serving(tokens={"ann": "correct-horse-battery-staple"})
    refused = client.get(f"{API}/runs")
    problem(refused, 401)
    assert refused.headers["www-authenticate"].startswith("Basic")
    problem(client.get(f"{API}/runs", headers={"host": "evil.example"}), 421)
    problem(client.post(f"{API}/runs", headers={"origin": "https://evil.example"}), 403)


@pytest.mark.parametrize("path", ["/api", "/api/", API, f"{API}/", "/api/v2", "/api/v2/runs"])
def test_the_address_of_the_api_refuses_as_every_other_does(serving: Serving, path: str) -> None:
    client = serving(allow_writes=True)
    is_there = path.startswith(API)
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"):
        refused = client.request(method, path, follow_redirects=False)
        assert problem(refused, 405 if is_there else 404)["advice"]
    if is_there:
        assert problem(client.get(f"{path}?bogus=1"), 400)["parameter"] == "bogus"
    else:
        assert problem(client.get(path), 404)["advice"] == "See /api/v1 for what there is."
    problem(client.get(path, headers={"host": "evil.example"}), 421)
    problem(client.post(path, headers={"origin": "https://evil.example"}), 403)
    problem(client.post(path, content=b"x" * 5_000_000), 413)
    problem(serving(tokens={"ann": "correct-horse-battery-staple"}).get(path), 401)


def test_nothing_is_written_unless_that_is_allowed(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"n": 1})
    found = problem(client.post(f"{API}/runs/r/verify"), 403)
    assert "--allow-writes" in found["advice"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'"x"', 400),
        (b'{"bogus": 1}', 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
        (b'{"x": NaN}', 400),
        (b'{"x": "' + b"y" * 5_000_000 + b'"}', 413),
    ],
    ids=["cut", "list", "text", "unknown", "nested", "no-utf8", "nan", "large"],
)
def test_a_body_that_is_none_is_refused(
    cp: SyncCheckpointer, serving: Serving, body: bytes, status: int
) -> None:
    cp.save("r", {"n": 1})
    client = serving(allow_writes=True)
    answer = client.post(
        f"{API}/runs/r/verify", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == status
    answer = client.post(f"{API}/runs/r/verify", data={"a": "b"})
    problem(answer, 415)


def test_a_lost_store_is_told_with_its_time_and_no_secret(
    cp: SyncCheckpointer, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.errors import StoreUnavailableError

    assert client.get("/healthz").json()["ok"]

    def lost(*_: object, **__: object) -> None:
        raise StoreUnavailableError("postgresql://ann:***@db/runs can't be reached")

    with monkeypatch.context() as gone:
        gone.setattr(type(cp.store), "listed", lost)
        gone.setattr(type(cp.store), "counts", lost)
        problem(client.get(f"{API}/runs"), 503)
        down = client.get("/healthz")
        assert down.status_code == 503
        since = down.json()["lost_since"]
        assert since is not None
        assert client.get("/healthz").json()["lost_since"] == since
        scraped = client.get("/metrics")
        assert scraped.status_code == 200
        assert "holdfast_runs{" not in scraped.text
    assert client.get("/healthz").json()["ok"]


def test_prometheus_reads_runs_and_what_this_process_saved(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"n": 1})
    found = client.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'holdfast_runs{status="open"} 1' in found.text
    assert "holdfast_save_entries_total 2" in found.text
