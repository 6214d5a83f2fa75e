"""The tabs State, Evidence, Journal and Forks of a run."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.evidence import EvidenceVerifier, Policy
from holdfast.views import claims, verifying
from holdfast.workflow import step, workflow
from tests.waiting import ENOUGH, wait_until
from tests.web.conftest import Serving

TOKEN = "correct-horse-battery-staple"


def tab(client: TestClient, run: str, name: str, **asked: Any) -> str:
    answer = client.get(f"/runs/{run}", params={"tab": name, **asked})
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_checkpoint_shows_what_its_step_changed_by_key(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    text = "The quick brown fox jumps over the lazy dog, again and again, until it is tired."
    cp.save("r", {"n": 1, "old": True, "same": [1], "text": text}, step="first")
    new = {"n": 2, "new": "<b>", "same": [1], "text": text.replace("brown", "red")}
    cp.save("r", new, step="second")
    shown = tab(client, "r", "state")
    for key, sign in (("n", "~"), ("old", "-"), ("new", "+"), ("text", "~")):
        assert f'>{sign}</b><span class="key">{key}</span>' in shown
    assert "<del>brown</del>" in shown  # by word, and what did not change is not said again
    assert "<ins>red</ins>" in shown
    assert "1 unchanged key" in shown
    assert "&lt;b&gt;" in shown
    assert "holdfast diff r 1 2" in shown
    before = tab(client, "r", "state", at=2, view="before")
    assert "old" in before
    assert ">new<" not in before


def test_a_workflows_result_is_shown_as_what_it_adds(
    cp: hf.SyncCheckpointer, client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with hf.Engine(cp.store.url) as engine:
        engine.run_sync(report("kelp"), run_id="w")
    shown = tab(client, "w", "state")
    assert '>+</b><span class="key">write</span>' in shown
    assert "1 unchanged key" in shown
    assert "all about kelp" in tab(client, "w", "state", view="after")


def test_secrets_are_hidden_in_states_differences_and_downloads(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"db": {"password": "hunter2"}, "n": 1})
    cp.save("r", {"db": {"password": "hunter3"}, "n": 2})
    pages = [tab(client, "r", "state", view=view) for view in ("difference", "after", "before")]
    pages += [tab(client, "r", "journal"), client.get("/runs/r/entries/2").text]
    pages.append(client.get("/runs/r/states/2/download").text)
    assert not any("hunter" in page for page in pages)
    assert "db.password" in pages[0]  # that it changed is no secret


def test_a_long_value_is_shown_if_asked_for_and_a_very_long_one_is_a_file(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"long": "x" * 50_000, "huge": ["y" * 1000] * 2000, "a/b": "z" * 3000})
    shown = tab(client, "r", "state", view="after")
    assert "50.0 KB, show" in shown
    assert "2.0 MB, download" in shown
    assert len(shown) < 60_000
    assert "x" * 50_000 in client.get("/runs/r/states/1/value", params={"path": "/long"}).text
    assert "z" * 3000 in client.get("/runs/r/states/1/value", params={"path": "/a~1b"}).text
    saved = client.get("/runs/r/states/1/download", params={"path": "/huge"})
    assert saved.headers["content-disposition"] == 'attachment; filename="r-1.json"'
    assert saved.headers["x-content-type-options"] == "nosniff"
    assert len(json.loads(saved.text)) == 2000
    assert client.get("/runs/r/states/1/value", params={"path": "/no"}).status_code == 404


def test_a_state_of_many_megabytes_does_not_hold_the_page_up(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"blob": b"\x00" * (5 << 20), "n": 1})
    shown = tab(client, "r", "state")
    assert 'hx-get="/runs/r/states/1?view=difference"' in shown
    assert "Reading" in shown
    panel = client.get("/runs/r/states/1").text
    assert "&lt;bytes, 5.2 MB&gt;" in panel
    assert len(panel) < 10_000


def test_what_a_rollback_left_behind_is_marked_in_every_list(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    for number in range(4):
        cp.save("r", {"n": number}, step=f"s{number}")
    cp.rollback("r", seq=2)
    cp.save("r", {"n": 9}, step="again")
    for name in ("state", "journal"):
        assert tab(client, "r", name).count("left behind") == 2, name
    shown = tab(client, "r", "forks")
    assert "2 checkpoints left behind" in shown
    assert "/compare?a=r%404&amp;b=r%406" in shown
    assert ">@2</a>" in tab(client, "r", "state", at=6)  # what it builds on, not the one before it


@pytest.mark.parametrize(
    ("name", "path", "row"),
    [("state", "states", r'class="seq">@(\d+)<'), ("journal", "entries", r'id="e(\d+)"')],
)
def test_a_long_list_comes_in_windows_that_have_every_row_once(
    cp: hf.SyncCheckpointer, client: TestClient, name: str, path: str, row: str
) -> None:
    cp.save_many([{"run_id": "r", "state": {"n": number}} for number in range(250)])
    page = tab(client, "r", name)
    found = re.findall(row, page)
    assert len(found) == 100
    while more := re.search(rf'hx-get="(/runs/r/{path}[^"]+)"', page):
        page = client.get(more[1].replace("&amp;", "&")).text
        found += re.findall(row, page)
    last = 1 if name == "state" else 0
    assert found == [str(seq) for seq in range(250, last - 1, -1)]
    deep = tab(client, "r", name, at=120)
    assert "120" in re.findall(row, deep)
    assert "Newest" in deep


def test_the_journal_finds_entries_by_kind_and_by_seq(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    for number in range(130):
        cp.save("r", {"n": number})
    cp.rollback("r", seq=3)
    found = tab(client, "r", "journal", kind="rollback")
    assert found.count("<tr id=") == 1
    assert 'id="e131"' in found
    near = tab(client, "r", "journal", at=7)
    assert re.search(r'id="e7" [^>]*class=" left sel"', near)
    assert 'id="e130"' not in near
    assert 'id="e0"' in near


def test_an_edited_status_is_damage_and_offers_no_retry(
    cp: hf.SyncCheckpointer,
    client: TestClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with hf.Engine(cp.store.url) as engine:
        engine.run_sync(report("kelp"), run_id="w")
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET status = 'failed' WHERE status = 'completed'")
    shown = client.get("/runs/w").text
    assert "Damaged: w@" in shown
    assert "Retry" not in shown
    assert "its checksum does not match" in client.get("/rows", params={"id": "w"}).text
    assert 'data-status="damaged"' in client.get("/runs").text
    told = client.get("/api/v1/runs/w").json()
    assert told["run"]["status"] == "running"
    for damage in (told["damage"], told["run"]["damage"]):
        assert damage.startswith("w@")
    assert client.get("/api/v1/runs").json()["runs"][0]["damage"] == told["run"]["damage"]


def test_a_damaged_entry_is_a_row_with_the_commands_that_help(
    cp: hf.SyncCheckpointer, client: TestClient, tmp_path: Path
) -> None:
    for number in range(4):
        cp.save("r", {"n": number}, step=f"s{number}")
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET body = x'00' WHERE seq = 4")
        db.execute("DELETE FROM holdfast_entries WHERE seq = 1")
    shown = tab(client, "r", "journal")
    assert "the entry is missing" in shown
    for seq, back in ((4, "holdfast rollback r 3"), (1, "holdfast verify r")):
        detail = client.get(f"/runs/r/entries/{seq}")
        assert detail.status_code == 200
        assert back in detail.text
    for name in ("state", "evidence", "forks"):
        tab(client, "r", name)
    assert "r@4 is damaged" in tab(client, "r", "state", at=4)
    assert "the entry is missing" in tab(client, "r", "state", at=1)
    assert "This is the state after it" in tab(client, "r", "state", at=3)
    assert client.get("/runs/r/entries/99").status_code == 404


@step(outputs="out.txt")
def write(text: str) -> str:
    Path("out.txt").write_text(text)
    return text


@step
def think(topic: str) -> str:
    return f"all about {topic}"


@workflow
async def report(topic: str) -> str:
    return await write(await think(topic))


@pytest.fixture
def claiming(cp: hf.SyncCheckpointer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that claims what a file holds; the file is another by now."""
    monkeypatch.chdir(tmp_path)
    with hf.Engine(cp.store.url) as engine:
        engine.run_sync(report("kelp"), run_id="w")
    Path("out.txt").write_text("something else")
    return "w"


def checks(tmp_path: Path) -> EvidenceVerifier:
    return EvidenceVerifier(policy=Policy(base_path=tmp_path, own_word=False))


def test_claims_are_verified_on_request_and_who_asked_is_recorded(
    serving: Serving, claiming: str, tmp_path: Path
) -> None:
    client = serving(allow_writes=True, tokens={"ann": TOKEN}, verifier=checks(tmp_path))
    client.headers["authorization"] = f"Bearer {TOKEN}"
    shown = tab(client, claiming, "evidence")
    assert "out.txt is unchanged" in shown
    assert "Verify now" in shown
    began = client.post(f"/runs/{claiming}/verify")
    assert began.status_code == 200
    wait_until(lambda: "aria-busy" not in client.get(f"/runs/{claiming}/evidence").text)
    over = tab(client, claiming, "evidence")
    assert "1 found false" in over
    assert "Intact, but a claim is false" in over
    assert "ann" in over.partition('class="checks"')[2]


def test_whoever_is_shown_the_outcome_of_a_check_is_shown_the_claims_after_it(
    serving: Serving, claiming: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serving(allow_writes=True, verifier=checks(tmp_path))
    read, over = claims.claims, threading.Event()

    def read_and_wait(cp: hf.SyncCheckpointer, run: str) -> Any:
        found = read(cp, run)
        over.wait(ENOUGH)  # the check ends after the claims were read
        return found

    def check_then_tell(*args: Any, **options: Any) -> verifying.Report:
        try:
            return check(*args, **options)
        finally:
            threading.Timer(0.2, over.set).start()

    check = verifying.check
    monkeypatch.setattr(claims, "claims", read_and_wait)
    monkeypatch.setattr(verifying, "check", check_then_tell)
    client.headers["hx-request"] = "true"
    shown = client.post(f"/runs/{claiming}/verify").text
    assert ("aria-busy" in shown) != ("1 found false" in shown)


def test_a_read_only_page_checks_claims_and_records_nothing(
    serving: Serving, cp: hf.SyncCheckpointer, claiming: str, tmp_path: Path
) -> None:
    client = serving(verifier=checks(tmp_path))
    assert client.post(f"/runs/{claiming}/verify").status_code == 403
    shown = tab(client, claiming, "evidence")
    assert "Verify now" not in shown
    assert f"holdfast verify {claiming}" in shown
    client.get(f"/runs/{claiming}/check")  # a link somewhere leads here, and begins nothing
    assert "not recorded" not in tab(client, claiming, "evidence")
    client.get(f"/runs/{claiming}/check", headers={"hx-request": "true"})
    wait_until(lambda: "aria-busy" not in client.get(f"/runs/{claiming}/evidence").text)
    over = tab(client, claiming, "evidence")
    assert "checked, not recorded" in over
    assert "1 found false" not in over


def test_forks_are_a_tree_and_say_where_they_began(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    for number in range(3):
        cp.save("origin", {"n": number}, step=f"s{number}")
    cp.fork("origin", seq=2, run_id="fork")
    cp.save("fork", {"n": 70}, step="s9")
    cp.fork("fork", run_id="of the fork")
    cp.save("unrelated", {"n": 1})
    for run in ("origin", "fork", "of%20the%20fork"):
        shown = client.get(f"/runs/{run}?tab=forks").text
        places = [shown.find(f">{name}</a>") for name in ("origin", "fork", "of the fork")]
        assert -1 not in places
        assert places == sorted(places)
        assert "unrelated" not in shown
        assert "/runs/origin?tab=state&amp;at=2" in shown
    told = client.get("/compare/summary", params={"a": "origin", "b": "fork"}).text
    assert "2 steps differ" in told


def test_a_fork_whose_origin_was_deleted_says_so(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    cp.save("origin", {"n": 1})
    cp.fork("origin", run_id="fork")
    cp.clear("origin")
    shown = tab(client, "fork", "forks")
    assert "deleted" in shown
    assert ">fork</a>" in shown
