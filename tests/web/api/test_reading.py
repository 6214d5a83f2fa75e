"""The API answers what the command line prints with --json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from holdfast import Engine, Evidence, SyncCheckpointer, __version__
from holdfast.codec.redaction import HIDDEN
from holdfast.workflow import step, workflow
from tests.web.api.conftest import API, Cli
from tests.web.conftest import Serving

Api = Callable[..., Any]
RUNS = (
    *("plain", "forked", "a/b%ü?#&=+ '\"<i>", "etl-1", "writes-1", "later", "review-1"),
    *("color-1", "broken-1"),
)


def at(run_id: str, *parts: str) -> str:
    return "/".join(("/runs", quote(run_id, safe=""), *parts))


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ((), {}),
        (("--children",), {"children": "true"}),
        (("--status=paused", "--status=failed"), {"status": ["paused", "failed"]}),
        (("--status=orphaned", "--status=failed"), {"status": ["orphaned", "failed"]}),
        (("--status=running",), {"status": "running"}),
        (("--status=answered",), {"status": "answered"}),
        (("--flow=etl",), {"flow": "etl"}),
        (("--owner=ann",), {"owner": "ann"}),
        (("--thread=t",), {"thread": "t"}),
        (("--label=team=blue",), {"label": "team=blue"}),
        (("--since=1h",), {"since": "1h"}),
        (("--until=1h",), {"until": "1h"}),
        (("--asking",), {"asking": "true"}),
        (("review",), {"prefix": "review"}),
    ],
)
def test_runs_are_those_of_the_command_line(
    api: Api, cli: Cli, options: tuple[str, ...], query: dict[str, Any]
) -> None:
    assert api("/runs", **query)["runs"] == cli("runs", *options)


def test_a_run_is_what_the_command_line_shows(api: Api, cli: Cli) -> None:
    for run_id in RUNS:
        (expected,) = cli("show", "--", run_id)
        found = api(at(run_id))
        assert found.pop("cut") == []
        assert found == expected
    (expected,) = cli("show", "plain", "--at=one")
    assert api("/runs/plain", at="one")["state"] == expected["state"] == {"n": 1, "rows": [1]}


@workflow
async def claiming() -> None:
    for name in ("one.txt", "two.txt"):
        claim = Evidence("artifact_exists", name, {"path": name, "type": "absent"})
        await step(name).python(int).evidence(claim)


def test_a_run_at_a_checkpoint_has_the_claims_up_to_it(api: Api, cli: Cli, tmp_path: Path) -> None:
    Engine(f"sqlite:///{tmp_path}/runs.db").run_sync(claiming(), run_id="claiming")
    (expected,) = cli("show", "claiming", "--at=1")
    assert api("/runs/claiming", at="1")["claims"] == expected["claims"]
    assert len(expected["claims"]) == 1
    assert len(api("/runs/claiming")["claims"]) == 2


def test_a_step_is_what_the_command_line_shows(api: Api, cli: Cli) -> None:
    for run_id, name in (("etl-1", "fetch"), ("broken-1", "fail"), ("plain", "two")):
        (expected,) = cli("show", run_id, f"--step={name}")
        assert api(at(run_id, "steps", name)) == expected | {"cut": False}


def test_the_parts_of_a_run_are_those_of_the_whole(api: Api) -> None:
    whole = api("/runs/etl-1")
    assert api("/runs/etl-1/timeline")["timeline"] == whole["timeline"]
    assert api("/runs/etl-1/children")["children"] == whole["children"]
    assert api("/runs/etl-1/children")["count"] == 1


def test_questions_are_those_of_the_command_line(api: Api, cli: Cli) -> None:
    expected = cli("questions")
    expected[[one["run_id"] for one in expected].index("color-1")]["shown"]["password"] = HIDDEN
    assert api("/questions") == {"questions": expected, "count": 2}
    assert api("/questions", assignee="ann")["questions"] == expected
    assert [one["run_id"] for one in api("/questions", assignee="bob")["questions"]] == ["color-1"]
    assert api("/runs/review-1/questions")["questions"] == cli("questions", "review-1")


def test_a_difference_is_that_of_the_command_line(api: Api, cli: Cli) -> None:
    (expected,) = cli("diff", "plain", "one", "2")
    assert api("/runs/plain/diff", a="one", b="2") == expected | {"cut": False}


def test_the_store_is_described_as_by_the_command_line(api: Api, cli: Cli) -> None:
    assert [api("/stats")] == cli("stats")
    assert [api("/runs/plain/stats")] == cli("stats", "plain")
    assert api("/workers")["workers"] == cli("workers")
    assert [api("/doctor", quick="false")] == cli("doctor")
    assert [api("/doctor")] == cli("doctor", "--quick")
    hours = api("/tally", since="2h")["hours"]
    assert sum(hour["started"] for hour in hours) == len(RUNS) + 1


def test_hours_until_the_end_of_time_are_no_error(api: Api) -> None:
    assert api("/tally", since="9999-12-31T23:59:59-14:00") == {"hours": [], "next": None}


def test_verifying_answers_as_the_command_line(
    filled: SyncCheckpointer, cli: Cli, serving: Serving
) -> None:
    from holdfast.evidence import EvidenceVerifier, Policy

    client = serving(allow_writes=True, verifier=EvidenceVerifier(policy=Policy(base_path=Path())))
    for run_id in ("writes-1", "plain", "etl-1"):
        before = len(filled.timeline(run_id))
        read = client.get(f"{API}/runs/{run_id}/verify").json()
        written = client.post(f"{API}/runs/{run_id}/verify").json()
        assert [written] == [read] == cli("verify", run_id)
        assert len(filled.timeline(run_id)) == before


def test_paging_is_stable_while_runs_come_and_go(cp: SyncCheckpointer, client: TestClient) -> None:
    for number in range(7):
        cp.save(f"r/{number}", {"n": number})
    seen, address = [], f"{API}/runs?limit=2&counts=true"
    while address:
        page = client.get(address).json()
        assert sum(page["counts"].values()) >= 5
        seen += [run["run_id"] for run in page["runs"]]
        cp.save(f"new {len(seen)}", {})
        cp.clear(seen[-1])  # the one that the next page is behind
        address = page["next"]
    assert seen == [f"r/{number}" for number in reversed(range(7))]


def test_timelines_and_checkpoints_are_paged(cp: SyncCheckpointer, client: TestClient) -> None:
    for number in range(5):
        cp.save("r", {"n": number}, step=f"s{number}")
    for path, name in (
        ("timeline", "timeline"),
        ("timeline?newest_first=true", "timeline"),
        ("checkpoints", "checkpoints"),
        ("checkpoints?oldest_first=true", "checkpoints"),
    ):
        whole = client.get(f"{API}/runs/r/{path}").json()
        assert whole["next"] is None
        found: list[Any] = []
        address = f"{API}/runs/r/{path}{'&' if '?' in path else '?'}limit=2"
        while address:
            page = client.get(address).json()
            assert len(page[name]) <= 2
            found += page[name]
            address = page["next"]
        assert [one["seq"] for one in found] == [one["seq"] for one in whole[name]]
        assert len(found) >= 5


def test_secrets_are_hidden_and_can_not_be_selected(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"db": {"password": "hunter2", "host": "a"}}, metadata={"api_key": "hunter2"})
    cp.save("r", {"db": {"password": "hunter3", "host": "b"}})
    for path in (
        *("", "/timeline", "/checkpoints", "/checkpoints/1", "/checkpoints/2", "/diff?a=1&b=2"),
        *("/checkpoints/1?path=/db", "/checkpoints/1?path=/db/password"),
    ):
        answer = client.get(f"{API}/runs/r{path}")
        assert answer.status_code == 200
        assert "hunter" not in answer.text
    part = client.get(f"{API}/runs/r/checkpoints/1?path=/db").json()
    assert part["state"] == {"password": HIDDEN, "host": "a"}


def test_what_is_too_large_is_left_out_and_said_so(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"small": 1, "large": "x" * 1_200_000})
    cp.save("r", {"small": 2, "large": "y" * 1_200_000})
    assert client.get(f"{API}/runs/r").json()["cut"] == ["state"]
    whole = client.get(f"{API}/runs/r/checkpoints/1").json()
    assert (whole["state"], whole["cut"]) == (None, True)
    part = client.get(f"{API}/runs/r/checkpoints/1?path=/small").json()
    assert (part["state"], part["cut"]) == (1, False)
    assert client.get(f"{API}/runs/r/diff?a=1&b=2").json()["patch"] is None


def test_a_damaged_checkpoint_is_told_and_the_others_are_shown(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    import sqlite3
    from contextlib import closing

    for number in range(3):
        cp.save("r", {"n": number})
    path = cp.store.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE holdfast_entries SET body = x'00' WHERE run = 'r' AND seq = 3")
    cp.core.journals.forget("r")
    found = client.get(f"{API}/runs/r").json()
    assert "damaged" in found["damage"]
    assert client.get(f"{API}/runs/r/checkpoints/3").status_code == 409
    assert client.get(f"{API}/runs/r/checkpoints/2").json()["state"] == {"n": 1}
    assert client.get(f"{API}/runs/r/verify").json()["ok"] is False


@pytest.mark.parametrize("path", [API, f"{API}/"])
def test_the_index_says_what_the_server_is_and_its_links_lead_somewhere(
    writing: TestClient, path: str
) -> None:
    answer = writing.get(path, follow_redirects=False)
    assert answer.status_code == 200
    index = answer.json()
    assert index["name"] == "holdfast"
    assert index["version"] == __version__
    assert index["store"] == "runs.db"
    assert index["may_write"]
    assert {"self", "openapi", "health", "runs", "questions"} <= index["links"].keys()
    for name, link in index["links"].items():
        assert writing.head(link, follow_redirects=False).status_code == 200, name
    assert writing.get(index["links"]["self"]).json() == index
