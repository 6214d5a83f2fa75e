"""What is stored or sent to mislead the pages, or to exhaust them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.codec.redaction import redacted
from holdfast.views.forms import form_of
from holdfast.workflow import step, workflow
from tests.web.conftest import Serving
from tests.web.test_actions import hidden, post

ACCOUNTS = [{"n": "a", "password": "AAA"}, {"n": "b", "password": "BBB"}]


@step
async def fails() -> None:
    raise ValueError("x" * 5_000_000)


@workflow
async def failing() -> None:
    await fails()


def _fork(cp: hf.SyncCheckpointer, client: TestClient, accounts: Any) -> Any:
    state = json.dumps({"accounts": accounts, "more": 1})
    return post(client, "/runs/r/do/fork", new_id="copy", state=state)


def test_items_of_an_edited_list_keep_their_own_secrets(
    serving: Serving, cp: hf.SyncCheckpointer
) -> None:
    cp.save("r", {"accounts": ACCOUNTS, "more": 0})
    client = serving(allow_writes=True)
    assert _fork(cp, client, [{"n": "b", "password": "•••••"}]).status_code == 303
    forked = cp.load("copy")
    assert forked is not None
    assert forked.state["accounts"] == [ACCOUNTS[1]]


def test_a_secret_whose_item_is_not_known_any_more_is_refused(
    serving: Serving, cp: hf.SyncCheckpointer
) -> None:
    cp.save("r", {"accounts": ACCOUNTS, "more": 0})
    client = serving(allow_writes=True)
    refused = _fork(cp, client, [{"n": "c", "password": "•••••"}, ACCOUNTS[1]])
    assert refused.status_code == 422
    assert cp.run("copy") is None


def test_an_old_preview_prunes_nothing_else(serving: Serving, cp: hf.SyncCheckpointer) -> None:
    cp.save("r", {"n": 1})
    cp.save("r", {"n": 2})
    client = serving(allow_writes=True)
    sent = {"keep_latest": "1"}
    sent["preview"] = hidden(client.get("/runs/r/do/prune?keep_latest=1").text, "preview")
    assert post(client, "/runs/r/do/prune", **sent).status_code == 303
    cp.save("r", {"n": 3})
    assert post(client, "/runs/r/do/prune", **sent).status_code == 409
    assert len(cp.list_checkpoints("r")) == 2


def test_a_schema_that_refers_to_itself_ever_more_often_is_answered_as_json() -> None:
    def many(to: str) -> dict[str, Any]:
        return {"type": "object", "properties": {f"p{n}": {"$ref": to} for n in range(59)}}

    schema = many("#/$defs/a") | {"$defs": {"a": many("#/$defs/b"), "b": many("#/$defs/c")}}
    schema["$defs"]["c"] = many("#/$defs/a")
    assert form_of(schema).kind == "json"


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//", "http://127.0.0.1:x"])
def test_an_origin_that_is_no_address_is_refused(client: TestClient, origin: str) -> None:
    answer = client.post("/runs", headers={"origin": origin})
    assert answer.status_code == 403
    assert "content-security-policy" in answer.headers


def test_text_that_has_no_form_in_utf_8_is_shown(
    client: TestClient, cp: hf.SyncCheckpointer
) -> None:
    cp.save("r", {"a": "\ud800", "\udfff": "x"})
    cp.save("r", {"a": "\ud801"})
    for path in ("/runs/r?tab=state", "/runs/r?tab=journal", "/compare?a=r@1&b=r@2"):
        assert client.get(path).status_code == 200


def test_an_error_of_megabytes_makes_no_page_of_megabytes(
    client: TestClient, cp: hf.SyncCheckpointer
) -> None:
    with pytest.raises(hf.StepFailedError):
        hf.Engine(cp).run_sync(failing(), run_id="r")
    for tab in ("timeline", "journal"):
        assert len(client.get(f"/runs/r?tab={tab}").content) < 200_000


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://u:p@SECRET@h/db", "postgres://u:•••••@h/db"),
        ("amqp://u:pa/SECRET@h", "amqp://u:•••••@h"),
        ("http://localhost:8080/@ann", "http://localhost:8080/@ann"),
        ("http://[::1]:80/x", "http://[::1]:80/x"),
    ],
)
def test_passwords_in_urls_are_hidden_whatever_they_hold(url: str, shown: str) -> None:
    assert redacted(url) == shown


@pytest.mark.parametrize("name", ["flow", "thread", "owner", "q"])
@pytest.mark.parametrize("text", ["%00", "%ED%A0%80", "%0A"])
def test_a_filter_that_no_store_can_look_for_is_no_outage(
    client: TestClient, cp: hf.SyncCheckpointer, name: str, text: str
) -> None:
    cp.save("r", 1)
    assert client.get(f"/runs?{name}={text}").status_code == 200
    assert client.get("/healthz").json()["lost_since"] is None


def test_files_are_kept_by_browsers_and_pages_are_not(client: TestClient) -> None:
    assert client.get("/static/app.js").headers["cache-control"] == "no-cache"
    assert client.get("/runs").headers["cache-control"] == "no-store"
