"""What can be done to runs in the browser: said before, done once, and recorded with who did it."""

from __future__ import annotations

import html
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.cli.main import holdfast
from holdfast.web import editing
from holdfast.workflow import step, workflow
from tests.web import small_flows as flows
from tests.web.conftest import Serving

ACTIONS = ("resume", "retry", "pause", "cancel", "fork", "rollback", "prune", "deadline")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def writing(serving: Serving, store: Path) -> TestClient:
    return serving(allow_writes=True)


@pytest.fixture
def failed(store: Path) -> str:
    flows.broken[:] = [True]
    flows.execute(store, flows.site, "site-1")
    flows.broken.clear()
    return "site-1"


@pytest.fixture
def done(store: Path) -> str:
    flows.execute(store, flows.two, "two-1")
    return "two-1"


def post(client: TestClient, path: str, **fields: Any) -> Any:
    return client.post(path, data={"by": "ann", **fields}, follow_redirects=False)


def notes(cp: hf.SyncCheckpointer, run: str) -> list[str]:
    return [moment.note for moment in cp.timeline(run) if moment.note]


def hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}"[^>]*? value="([^"]*)"', page)
    assert found, page
    return html.unescape(found[1])


@pytest.mark.parametrize("action", ACTIONS)
def test_nothing_is_changed_without_leave(
    client: TestClient, cp: hf.SyncCheckpointer, failed: str, action: str
) -> None:
    before = len(cp.timeline(failed))
    answer = post(client, f"/runs/{failed}/do/{action}")
    assert answer.status_code == 403
    assert "--allow-writes" in answer.text
    assert len(cp.timeline(failed)) == before
    shown = client.get(f"/runs/{failed}/do/{action}")
    assert "This server is read-only" in shown.text


@pytest.mark.parametrize("action", ACTIONS)
def test_every_form_names_its_run_and_asks_who_it_is(
    writing: TestClient, failed: str, action: str
) -> None:
    page = writing.get(f"/runs/{failed}/do/{action}").text
    assert '<p class="m sub">site-1</p>' in page
    assert 'name="by"' in page
    assert f'action="/runs/{failed}/do/{action}"' in page


def test_a_failed_run_is_retried_by_a_worker_and_says_so_until_then(
    writing: TestClient, cp: hf.SyncCheckpointer, store: Path, failed: str
) -> None:
    assert ">Retry…<" in writing.get(f"/runs/{failed}").text
    for _ in range(2):
        answer = post(writing, f"/runs/{failed}/do/retry")
        assert answer.status_code == 303
    assert notes(cp, failed).count("resume, by ann") == 1
    page = writing.get(f"/runs/{failed}").text
    assert "none of its flow is alive" in page
    assert "holdfast worker" in page
    with hf.Engine(store) as engine:
        engine.work_sync(flows.site, until_idle=True)
    run = cp.run(failed)
    assert run is not None
    assert run.status == "completed"
    over = post(writing, f"/runs/{failed}/do/resume")
    assert over.status_code == 409
    assert "is completed; fork it or roll it back" in over.text


def test_what_waits_for_an_answer_is_not_resumed(writing: TestClient, store: Path) -> None:
    flows.execute(store, lambda: flows.digest(["a"]), "digest-1")
    answer = post(writing, "/runs/digest-1/do/resume")
    assert answer.status_code == 409
    assert "waits for an answer to &#39;ask&#39;" in answer.text


def test_a_run_is_cancelled_once_with_reason_and_name(
    writing: TestClient, cp: hf.SyncCheckpointer, failed: str
) -> None:
    for _ in range(2):
        assert post(writing, f"/runs/{failed}/do/cancel", reason="wrong day").status_code == 303
    assert notes(cp, failed).count("cancel wrong day, by ann") == 1
    run = cp.run(failed)
    assert run is not None
    assert run.status == "cancelled"


def test_a_submitted_run_is_paused_and_resumed(
    writing: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    with hf.Engine(store) as engine:
        engine.submit_sync(flows.two(), run_id="two-1")
    for _ in range(2):
        assert post(writing, "/runs/two-1/do/pause").status_code == 303
    assert notes(cp, "two-1") == ["pause, by ann"]
    assert ">Resume…<" in writing.get("/runs/two-1").text
    assert post(writing, "/runs/two-1/do/resume").status_code == 303
    with hf.Engine(store) as engine:
        assert engine.work_sync(flows.two, until_idle=True) == 1


def test_a_fork_with_an_edited_state_is_made_once_and_keeps_what_is_hidden(
    writing: TestClient, cp: hf.SyncCheckpointer, store: Path, done: str
) -> None:
    page = writing.get(f"/runs/{done}/do/fork").text
    place, new_id = hidden(page, "at"), hidden(page, "new_id")
    text = html.unescape(page.partition('data-json="strict">')[2].partition("</textarea>")[0])
    assert "k-123" not in page
    state = json.loads(text)
    state["fetch"]["rows"] = 99
    del state["fetch#2"]
    sent = {"at": place, "new_id": new_id, "state": json.dumps(state), "continue": "1"}
    for _ in range(2):
        answer = post(writing, f"/runs/{done}/do/fork", **sent)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{new_id}")
    with hf.Engine(store) as engine:
        assert engine.work_sync(flows.two, until_idle=True) == 1
    first, second = _result(cp, new_id)
    assert first == {"page": "a", "rows": 99, "api_key": "k-123"}
    assert second["rows"] == 12
    assert f"forked from {place}, by ann" in notes(cp, new_id)
    assert post(writing, f"/runs/{done}/do/fork", **sent).status_code == 303, "it was made before"
    state["fetch"]["rows"] = 7
    other = post(writing, f"/runs/{done}/do/fork", **{**sent, "state": json.dumps(state)})
    assert other.status_code == 409
    assert "already exists" in other.text
    assert len(cp.runs()) == 2


def _result(cp: hf.SyncCheckpointer, run: str) -> list[Any]:
    found = cp.load(run)
    assert found is not None
    return [found.state["fetch"], found.state["fetch#2"]]


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("{", "is not JSON"),
        ("[]", "is a dict of them by step"),
        ('{"fetch": {"$nothing": 1}}', "not a stored value"),
        ('{"fetch": {"page": "•••••"}}', "hidden value at fetch.page was moved"),
        ('{"fetch": 1, "other": 1}', "had no result of"),
    ],
)
def test_a_state_that_can_not_be_is_refused_beside_the_editor(
    writing: TestClient, cp: hf.SyncCheckpointer, done: str, state: str, error: str
) -> None:
    answer = post(writing, f"/runs/{done}/do/fork", new_id="copy", state=state)
    assert answer.status_code == 422
    _, found, after = answer.text.partition('id="state-wrong"')
    assert found
    assert error in after[:300]
    assert html.escape(state, quote=False) in html.unescape(answer.text).replace("&#34;", '"')
    assert cp.run("copy") is None


def test_an_id_that_can_not_be_is_refused_beside_its_field(writing: TestClient, done: str) -> None:
    answer = post(writing, f"/runs/{done}/do/fork", new_id="a\x00b")
    assert answer.status_code == 422
    assert 'id="new_id-wrong"' in answer.text
    assert 'id="state-wrong"' not in answer.text


def test_the_id_suggested_for_the_fork_of_a_child_run_is_accepted(
    writing: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    @workflow
    async def parent() -> str:
        return await step("part").subworkflow(flows.site)

    flows.execute(store, parent, "parent-1")
    (child,) = (one for one in cp.runs() if one.parent_id)
    path = f"/runs/{quote(child.run_id, safe='')}/do/fork"
    page = writing.get(path).text
    new_id = hidden(page, "new_id")
    assert new_id.startswith("parent-1/part")
    made = post(writing, path, at=hidden(page, "at"), new_id=new_id)
    assert made.status_code == 303, made.text
    assert cp.run(new_id) is not None


def test_a_large_state_is_forked_as_it_is_and_edited_elsewhere(
    writing: TestClient, cp: hf.SyncCheckpointer
) -> None:
    cp.save("large", {"text": "x" * editing.LARGEST})
    page = writing.get("/runs/large/do/fork").text
    assert "holdfast fork large --at=1 --edit" in page
    assert "<textarea" not in page
    assert post(writing, "/runs/large/do/fork", new_id="copy").status_code == 303
    copy = cp.load("copy")
    assert copy is not None
    assert len(copy.state["text"]) == editing.LARGEST


def test_a_run_is_rolled_back_once(writing: TestClient, cp: hf.SyncCheckpointer, done: str) -> None:
    first = cp.list_checkpoints(done)[-1]
    page = writing.get(f"/runs/{done}/do/rollback").text
    assert f'<option value="{first.seq}"' in page
    assert post(writing, f"/runs/{done}/do/rollback").status_code == 422
    for _ in range(2):
        answer = post(writing, f"/runs/{done}/do/rollback", at=str(first.seq))
        assert answer.status_code == 303
    assert notes(cp, done).count(f"to {first.checkpoint_id}, by ann") == 1
    found = cp.load(done)
    assert found is not None
    assert found.seq == first.seq
    assert post(writing, f"/runs/{done}/do/rollback", at="99").status_code == 404


def test_pruning_deletes_exactly_what_was_shown(
    writing: TestClient, cp: hf.SyncCheckpointer
) -> None:
    for n in range(6):
        cp.save("log", {"n": n})
    page = writing.get("/runs/log/do/prune?keep_latest=2").text
    assert "<b>4</b> checkpoints would be deleted" in page
    sent = {"keep_latest": "2", "preview": hidden(page, "preview")}
    cp.save("log", {"n": 6})
    answer = post(writing, "/runs/log/do/prune", **sent)
    assert answer.status_code == 409
    assert "has changed since it was shown" in answer.text
    assert "<b>5</b> checkpoints would be deleted" in answer.text
    sent["preview"] = hidden(answer.text, "preview")
    assert post(writing, "/runs/log/do/prune", **sent).status_code == 303
    assert len(cp.list_checkpoints("log")) == 2
    assert post(writing, "/runs/log/do/prune", keep_latest="1").status_code == 422


def test_a_failed_run_says_why_nothing_of_it_is_pruned(writing: TestClient, failed: str) -> None:
    page = writing.get(f"/runs/{failed}/do/prune?keep_latest=1").text
    assert "Nothing would be deleted" in page


def test_htmx_is_led_to_what_was_done_and_told_of_it(writing: TestClient, failed: str) -> None:
    answer = writing.post(
        f"/runs/{failed}/do/cancel", data={"by": "ann"}, headers={"hx-request": "true"}
    )
    assert answer.status_code == 200
    assert answer.headers["hx-redirect"] == f"/runs/{failed}"
    assert json.loads(answer.headers["hx-trigger"]) == {"holdfast:done": "It is cancelled."}


def test_a_form_must_be_one(writing: TestClient, failed: str) -> None:
    path = f"/runs/{failed}/do/cancel"
    assert writing.post(path, json={"by": "ann"}).status_code == 415
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert writing.post(path, content="&".join(["a=1"] * 600), headers=kind).status_code == 400
    assert writing.post(path, content=b"by=%ff", headers=kind).status_code == 400
    assert writing.get(f"/runs/{failed}/do/explode").status_code == 404
    assert writing.post(f"/runs/{failed}/do/explode", data={"by": "a"}).status_code == 404


def test_every_command_that_a_page_shows_does_what_it_says(
    serving: Serving, cp: hf.SyncCheckpointer, store: Path, failed: str, done: str
) -> None:
    client = serving()
    pages = [client.get(f"/runs/{run}").text for run in (failed, done)]
    found = [re.findall(r'data-copy="([^"]+)" data-action', page) for page in pages]
    commands = [shlex.split(html.unescape(one)) for page in found for one in page]
    assert {words[1] for words in commands} == {"fork", "cancel", "resume", "rollback", "prune"}
    for words in sorted(commands, key=lambda words: words[1] == "cancel"):  # it is the end
        assert words[0] == "holdfast"
        result = CliRunner().invoke(holdfast, words[1:])
        assert result.exit_code == 0, (words, result.output)


def test_what_a_worker_continues_by_itself_is_not_asked_for(
    serving: Serving, cp: hf.SyncCheckpointer, store: Path
) -> None:
    flows.execute(store, lambda: flows.digest(["a"]), "live-1")
    writing = serving(allow_writes=True)
    assert post(writing, "/runs/live-1/answer", question="ask", answer="true").status_code == 303
    for client in (writing, serving()):
        page = client.get("/runs/live-1").text
        assert "Nobody executes it, and no worker of its flow is alive" in page
        assert "holdfast resume live-1 --flow=MODULE:NAME" in page
        assert 'data-action="resume"' not in page
    form = writing.get("/runs/live-1/do/resume").text
    assert "A worker continues it by itself." in form
    assert "<form" not in form
    assert 'name="by"' not in form


def test_a_command_that_needs_a_flows_name_is_not_for_copying(
    serving: Serving, store: Path
) -> None:
    flows.execute(store, lambda: replace(flows.digest(["a"]), source="jobs:x; true"), "live-1")
    asks = "/runs/live-1/answer?question=ask"
    unnamed = serving(allow_writes=True).get(asks).text
    assert "holdfast resume live-1 --flow=MODULE:NAME" in unnamed
    assert not re.search(r'data-copy="[^"]*MODULE:NAME', unnamed)
    assert "Replace MODULE:NAME" in unnamed
    assert "its record says it was started as <q>jobs:x; true</q>" in unnamed
    page = serving(allow_writes=True, sources={"digest": "jobs:digest"}).get(asks).text
    assert 'data-copy="holdfast resume live-1 --flow=jobs:digest ' in page
    assert "MODULE:NAME" not in page
