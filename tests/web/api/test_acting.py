"""What can be done to runs over HTTP, and who is recorded as having done it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from holdfast import SyncCheckpointer
from holdfast.codec.redaction import HIDDEN
from tests.waiting import wait_until
from tests.web.api.conftest import API, etl
from tests.web.conftest import Serving

TOKEN = "correct-horse-battery-staple"


def post(client: TestClient, path: str, status: int = 200, **body: Any) -> Any:
    headers = {"content-type": "application/json"}
    answer = client.post(f"{API}{path}", content=json.dumps(body), headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


def notes(cp: SyncCheckpointer, run_id: str) -> str:
    return " | ".join(moment.note for moment in cp.timeline(run_id))


def test_a_question_is_answered_once(filled: SyncCheckpointer, writing: TestClient) -> None:
    wrong = post(writing, "/runs/color-1/answer", 422, value="green", by="ann")
    assert "must be one of 'red', 'blue'" in wrong["detail"]
    done = post(writing, "/runs/color-1/answer", value="red", by="ann")
    assert (done["answered"], done["new"], done["then"]["by"]) == (True, True, "nobody")
    assert done["then"]["command"].startswith("holdfast worker")
    assert post(writing, "/runs/color-1/answer", value="red", by="ann")["new"] is False
    post(writing, "/runs/color-1/answer", 409, value="blue", by="bob")
    post(writing, "/runs/plain/answer", 409, value="blue", by="bob")
    assert "by ann" in notes(filled, "color-1")


def test_the_token_says_who_it_is(filled: SyncCheckpointer, serving: Serving) -> None:
    client = serving(allow_writes=True, tokens={"ann": TOKEN, "bob": TOKEN[::-1]})
    client.headers["authorization"] = f"Bearer {TOKEN}"
    refused = post(client, "/runs/review-1/answer", 400, value=True, by="bob")
    assert refused["parameter"] == "by"
    post(client, "/runs/review-1/answer", value=True)
    post(client, "/runs/later/pause", reason="lunch")
    assert "by ann" in notes(filled, "review-1")
    assert "lunch, by ann" in notes(filled, "later")


def test_runs_are_paused_resumed_and_cancelled(writing: TestClient) -> None:
    assert post(writing, "/runs/later/pause", by="ann")["status"] == "paused"
    assert post(writing, "/runs/later/resume", by="ann")["asked"] == "resume"
    assert post(writing, "/runs/later/cancel", reason="wrong day")["status"] == "cancelled"
    assert post(writing, "/runs/later/cancel")["new"] is False
    assert "advice" in post(writing, "/runs/later/resume", 409)


def test_a_fork_keeps_the_secrets_that_were_hidden(cp: SyncCheckpointer, serving: Serving) -> None:
    client = serving(allow_writes=True)
    cp.save("r", {"db": {"password": "hunter2", "host": "a"}, "n": 1}, step="one")
    cp.save("r", {"db": {"password": "hunter2", "host": "a"}, "n": 2}, step="two")
    state = client.get(f"{API}/runs/r/checkpoints/1").json()["state"]
    assert state["db"] == {"password": HIDDEN, "host": "a"}
    state["db"]["host"], state["n"] = "b", 100
    done = post(client, "/runs/r/fork", at="one", run_id="what if", state=state)
    assert done == {**done, "run_id": "what if", "origin": "r@1", "new": True}
    made = cp.load("what if")
    assert made is not None
    assert made.state == {"db": {"password": "hunter2", "host": "b"}, "n": 100}
    assert post(client, "/runs/r/fork", at="1", run_id="what if", state=state)["new"] is False
    post(client, "/runs/r/fork", 409, at="2", run_id="what if")
    refused = post(client, "/runs/r/fork", 422, state={"token": HIDDEN})
    assert refused["parameter"] == "state"
    post(client, "/runs/r/fork", 422, state={"$bytes": "no base64"})
    assert cp.load(post(client, "/runs/r/fork")["run_id"]) is not None


def test_a_run_goes_back(filled: SyncCheckpointer, writing: TestClient) -> None:
    assert post(writing, "/runs/plain/rollback", at="one", by="ann")["checkpoint_id"] == "plain@1"
    assert post(writing, "/runs/plain/rollback", at="1")["new"] is False
    found = filled.load("plain")
    assert found is not None
    assert found.state["n"] == 1
    post(writing, "/runs/plain/rollback", 400)
    post(writing, "/runs/plain/rollback", 404, at="three")


def test_pruning_deletes_what_was_shown(cp: SyncCheckpointer, serving: Serving) -> None:
    client = serving(allow_writes=True)
    for number in range(4):
        cp.save("r", {"n": number})
    cp.complete("r")
    shown = post(client, "/runs/r/prune", keep_latest=1)
    assert (shown["dry_run"], shown["checkpoints"]) == (True, 3)
    assert len(cp.list_checkpoints("r")) == 4
    post(client, "/runs/r/prune", 409, keep_latest=2, preview=shown["preview"])
    done = post(client, "/runs/r/prune", keep_latest=1, preview=shown["preview"])
    assert (done["dry_run"], done["checkpoints"]) == (False, 3)
    assert len(cp.list_checkpoints("r")) == 1
    post(client, "/runs/r/prune", 400)


@pytest.mark.parametrize("by", ["", "a\x00b", "x" * 600, "\ud800", 7])
def test_a_name_that_nobody_has_is_refused(writing: TestClient, by: Any) -> None:
    assert post(writing, "/runs/later/pause", 400, by=by)


def test_changes_are_told_as_they_happen(cp: SyncCheckpointer, client: TestClient) -> None:
    answer = client.head(f"{API}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert client.get(f"{API}/events?bogus=1").status_code == 400
    assert client.get(f"{API}/events?run=%00").status_code == 400


def test_a_program_starts_a_run_and_reads_its_result(
    cp: SyncCheckpointer, serving: Serving
) -> None:
    client = serving(allow_writes=True, flows=[etl])
    done = post(client, "/runs", flow="etl", inputs={"day": "monday"}, run_id="e/1", by="ann")
    assert (done["run_id"], done["flow"], done["new"]) == ("e/1", "etl", True)
    wait_until(lambda: client.get(f"{API}/runs/e%2F1").json()["run"]["status"] == "completed")
    assert client.get(f"{API}/runs/e%2F1").json()["run"]["owner"] == "ann"
    again: dict[str, Any] = {"flow": "etl", "inputs": {"day": "monday"}, "run_id": "e/1"}
    assert post(client, "/runs", **again)["new"] is False
    post(client, "/runs", 409, **again | {"inputs": {"day": "friday"}})
    late = post(client, "/runs", flow="etl", inputs={"day": "tuesday"}, delay="1h")
    assert (late["status"], late["due"] is None) == ("submitted", False)
    wrong = post(client, "/runs", 422, flow="etl", inputs={"night": 1})
    assert wrong["parameter"] == "inputs"
    assert "day" in wrong["detail"]
    assert "'etl'" in post(client, "/runs", 404, flow="other")["detail"]
    post(client, "/runs", 422, flow="etl", inputs={"day": "x"}, labels={"": "\x00"})


def test_a_server_without_flows_starts_no_runs(writing: TestClient) -> None:
    assert "executed here: none" in post(writing, "/runs", 404, flow="etl")["detail"]
