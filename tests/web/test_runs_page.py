"""The list of runs."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import holdfast as hf
from holdfast import SyncCheckpointer
from holdfast.cli.main import holdfast
from holdfast.errors import StoreUnavailableError
from holdfast.views.rows import row_of
from holdfast.web.pages import runs as page
from holdfast.workflow import ask, step, workflow
from tests.waiting import run_process, wait_until
from tests.web.conftest import Serving


@step(retry=2)
def shaky(fails: bool) -> int:
    if fails:
        raise OSError("no space left")
    return 1


@workflow
async def report(fails: bool = False) -> int:
    return await shaky(fails)


@workflow
async def review() -> bool:
    return await ask("Refund 219 €?", returns=bool, assignees=["legal"])


DIES = """
import asyncio, os, signal, sys
import holdfast as hf
from holdfast.workflow import step, workflow

@step
async def last(dies: bool) -> None:
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(60)

@workflow
async def doomed(dies: bool) -> None:
    await last(dies)

async def main():
    engine = hf.Engine("runs.db")
    tasks = [asyncio.create_task(engine.run(doomed(False), run_id=name)) for name in sys.argv[1:-1]]
    await asyncio.sleep(0.5)
    await asyncio.gather(engine.run(doomed(True), run_id=sys.argv[-1]), *tasks)

asyncio.run(main())
"""


@step
def held(until: str) -> None:
    wait_until(Path(until).exists)


@workflow
async def busy(until: str) -> None:
    await held(until)


@contextmanager
def executed(directory: Path, *names: str) -> Iterator[None]:
    """Runs that this process executes."""
    done = directory / "done"
    engine = hf.Engine(directory / "runs.db")
    handles = [engine.start_sync(busy(str(done)), run_id=name) for name in names]
    try:
        yield
    finally:
        done.touch()
        for handle in handles:
            handle.result()


def orphaned(directory: Path, *names: str) -> None:
    """Runs of a process that was killed."""
    command = [sys.executable, "-c", DIES, *names]
    done = run_process(command, cwd=directory, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def answered(directory: Path, name: str) -> None:
    """A run that has its answer, and was not resumed."""
    engine = hf.Engine(directory / "runs.db")
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(review(), run_id=name)
    asyncio.run(engine.answer(name, True, by="legal"))


def tabs(client: TestClient, path: str = "/runs") -> dict[str, int]:
    """How many runs the page says that there are, by status."""
    found = re.findall(r">(\w+)<span(?: class=\"bad\")?>([\d,]+)</span></a>", client.get(path).text)
    return {name.lower(): int(number) for name, number in found}


def listed(client: TestClient, path: str = "/runs") -> list[str]:
    """The ids of the runs that a page shows."""
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return [unescape(found) for found in re.findall(r'data-run="([^"]*)"', answer.text)]


def row(client: TestClient, run_id: str) -> str:
    """The text of a run's row, without its markup."""
    answer = client.get("/rows", params={"id": run_id})
    return " ".join(unescape(re.sub("<[^>]*>", " ", answer.text)).split())


def link(client: TestClient, path: str, name: str) -> str:
    """Where a link of a page leads."""
    found = re.search(rf'id="{name}" href="([^"]*)"', client.get(path).text)
    return "" if found is None else unescape(found[1])


def saved(cp: SyncCheckpointer, names: Sequence[str], **options: Any) -> None:
    for name in names:
        cp.save(name, {"n": 1}, step="s", **options)


def test_an_empty_store_shows_the_lines_that_make_a_run(client: TestClient) -> None:
    text = unescape(client.get("/runs").text)
    assert "No run yet" in text
    assert 'save("first-run"' in text


def test_the_last_started_run_comes_first(cp: SyncCheckpointer, client: TestClient) -> None:
    saved(cp, ["a", "c", "b"])
    assert listed(client) == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("flow=nightly", ["n2", "n1"]),
        ("owner=ann", ["n2"]),
        ("thread=t1", ["x/y"]),
        ("status=open&flow=nightly&since=1h", ["n2", "n1"]),
        ("q=n", ["n2", "n1"]),
        ("q=ightl", ["n2", "n1"]),
        ("q=t1", ["x/y"]),
        ("q=X%2FY", ["x/y"]),
        ("status=failed", []),
        ("status=nonsense", ["x/y", "n2", "n1"]),
        ("since=nonsense&before=nonsense&children=1", ["x/y", "n2", "n1"]),
    ],
)
def test_filters_are_in_the_url(
    cp: SyncCheckpointer, client: TestClient, query: str, found: list[str]
) -> None:
    saved(cp, ["n1"], flow="nightly")
    saved(cp, ["n2"], flow="nightly", owner="ann")
    saved(cp, ["x/y"], thread_id="t1")
    assert listed(client, f"/runs?{query}") == found


def test_a_run_is_found_by_its_label_and_not_by_another(tmp_path: Path, serving: Serving) -> None:
    engine = hf.Engine(tmp_path / "runs.db")
    for name in ("blue", "red"):
        engine.run_sync(report(), run_id=f"of-{name}", labels={"team": name})
    assert listed(serving(), "/runs?q=team=blue") == ["of-blue"]
    assert listed(serving(), "/runs?label=team%3Dred") == ["of-red"]


def test_pages_stay_in_place_while_runs_are_added(
    cp: SyncCheckpointer, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "SHOWN", 3)
    names = [f"run-{n}" for n in range(8)]
    saved(cp, names)
    older = link(client, "/runs", "older")
    saved(cp, ["new"])
    assert listed(client, older) == ["run-4", "run-3", "run-2"]
    assert "5–7 of 9, newest first" in client.get(older).text
    last = link(client, older, "older")
    assert listed(client, last) == ["run-1", "run-0"]
    assert link(client, last, "older") == ""
    assert listed(client, link(client, last, "newer")) == ["run-4", "run-3", "run-2"]
    newest = link(client, link(client, last, "newer"), "newer")
    assert listed(client, newest) == ["run-7", "run-6", "run-5"]


def test_a_page_stays_in_place_though_its_last_run_was_deleted(
    cp: SyncCheckpointer, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "SHOWN", 2)
    saved(cp, ["a", "b", "c", "d"])
    older = link(client, "/runs", "older")
    cp.forget(run_id="c")
    assert listed(client, older) == ["b", "a"]


def test_each_status_says_why(tmp_path: Path, client: TestClient) -> None:
    engine = hf.Engine(tmp_path / "runs.db")
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(review(), run_id="asks")
    with pytest.raises(hf.StepFailedError):
        engine.run_sync(report(fails=True), run_id="fails")
    engine.run_sync(report(), run_id="works")
    engine.submit_sync(report(), run_id="waits")
    assert row(client, "asks").startswith("Paused asks Refund 219 €? (for legal) review")
    assert row(client, "fails").startswith("Failed fails OSError: no space left report")
    assert row(client, "waits").startswith("Submitted waits waits for a worker report")
    assert row(client, "works").startswith("Completed works shaky report 1")
    tabs = re.findall(r">(\w+)<span[^>]*>(\d+)</span>", client.get("/runs").text)
    assert dict(tabs) | {"All": "4", "Paused": "1", "Failed": "1", "Submitted": "1"} == dict(tabs)


def test_child_runs_are_shown_if_they_are_wanted(tmp_path: Path, client: TestClient) -> None:
    @workflow
    async def outer() -> int:
        return await report()

    hf.Engine(tmp_path / "runs.db").run_sync(outer(), run_id="outer")
    assert listed(client) == ["outer"]
    assert listed(client, "/runs?children=1") == ["outer//report", "outer"]
    assert "id you mean" not in client.get("/runs?q=outer//report").text, "it is what was given"
    text = client.get("/runs").text
    assert "2 in this store, 1 is a child run" in text
    assert "2 completions · no failures (child runs and repeats count)" in text
    assert "child run<" not in client.get("/runs?children=1").text.partition("</h1>")[2][:200]


def test_no_match_offers_the_filters_to_drop(cp: SyncCheckpointer, client: TestClient) -> None:
    saved(cp, ["a"])
    text = client.get("/runs?status=failed&flow=nightly&q=zzz").text
    for path in ("/runs?flow=nightly&amp;q=zzz", "/runs?status=failed&amp;flow=nightly"):
        assert f'href="{path}"' in text


def test_a_damaged_entry_is_a_row(tmp_path: Path, cp: SyncCheckpointer, serving: Serving) -> None:
    saved(cp, ["whole", "hurt"])
    saved(cp, ["hurt"])
    with sqlite3.connect(tmp_path / "runs.db") as db:
        db.execute("UPDATE holdfast_entries SET meta = '{' WHERE run = 'hurt' AND seq = 1")
        db.execute("DELETE FROM holdfast_entries WHERE run = 'hurt' AND seq = 0")
    db.close()
    client = serving()
    assert set(listed(client)) == {"whole", "hurt"}
    assert "damaged" in row(client, "hurt")


def test_names_are_text_wherever_they_stand(cp: SyncCheckpointer, client: TestClient) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    cp.save(evil, {"n": 1}, step=evil, flow=evil, owner=evil, thread_id=evil)
    for answer in (
        client.get("/runs", params={"q": evil, "flow": evil, "owner": evil, "thread": evil}),
        client.get("/runs", params={"q": f"{evil}!", "label": f"{evil}={evil}"}),
        client.get("/rows", params={"id": evil}),
    ):
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text


def test_a_lost_store_says_since_when(
    cp: SyncCheckpointer, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(cp, ["a"])

    def lost(*_: object, **__: object) -> None:
        raise StoreUnavailableError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(cp.store, "listed", lost)
        first, second = client.get("/runs"), client.get("/runs")
    assert first.status_code == second.status_code == 503
    assert "the disk is gone" in first.text
    since = re.search(r'be reached since <time datetime="([^"]*)"', first.text)
    assert since is not None
    assert since[0] in second.text
    assert 'http-equiv="refresh"' in first.text
    assert listed(client) == ["a"]


def test_what_nobody_executes_is_not_running(tmp_path: Path, client: TestClient) -> None:
    orphaned(tmp_path, "dead-1", "dead-2")
    answered(tmp_path, "told")
    with executed(tmp_path, "alive"):
        counts = {"all": 4, "running": 1, "orphaned": 2, "answered": 1}
        for path in ("/runs", "/runs?status=running", "/runs?status=orphaned", "/runs?q=e"):
            found = {name: number for name, number in tabs(client, path).items() if number}
            assert found == counts, path
        assert listed(client, "/runs?status=running") == ["alive"]
        assert listed(client, "/runs?status=running&q=e") == ["alive"]
        assert listed(client, "/runs?status=orphaned") == ["dead-2", "dead-1"]
        assert listed(client, "/runs?status=answered") == ["told"]
        tiles = client.get("/overview/part/counts").text
        assert '<b>1</b><span class="q s">running' in tiles
        for words in ("running", "orphaned", "answered", "running&status=answered"):
            asked = client.get(f"/api/v1/runs?status={words}&counts=true").json()
            shown = [one["run_id"] for one in asked["runs"]]
            some = {"running": ["alive"], "orphaned": ["dead-2", "dead-1"], "answered": ["told"]}
            assert shown == some.get(words, ["alive", "told"])
            assert asked["counts"] == {"running": 4}, "the recorded status of all of them"


@step(outputs="claimed.txt")
def write() -> None:
    Path("claimed.txt").write_text("here")


@workflow
async def writes() -> None:
    await write()


def test_a_claim_looks_verified_only_once_it_is(
    tmp_path: Path, cp: SyncCheckpointer, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hf.Engine(tmp_path / "runs.db").run_sync(writes(), run_id="w")

    def sign(path: str) -> tuple[str, ...]:
        found = re.findall(r'class="(\w+)"[^>]*><i class="ev"', client.get(path).text)
        return tuple(found)

    places = ("/rows?id=w", "/runs/w/evidence", "/runs/w?step=write")
    told = "not checked yet"
    for path in places:
        assert set(sign(path)) == {"new"}, path
        assert told in client.get(path).text.lower(), path
    for sees in ("ok", "bad"):
        CliRunner().invoke(holdfast, ["verify", "w", f"--store={tmp_path / 'runs.db'}"])
        for path in places:
            assert set(sign(path)[:1]) == {sees}, path
            assert told not in client.get(path).text.lower(), path
        (tmp_path / "claimed.txt").unlink(missing_ok=True)


def test_pages_of_running_runs_pass_by_what_nobody_executes(
    tmp_path: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "SHOWN", 2)
    with executed(tmp_path, "a1", "a2", "a3"):
        orphaned(tmp_path, "d1", "d2", "d3")
        with executed(tmp_path, "a4", "a5"):
            path = "/runs?status=running"
            assert listed(client, path) == ["a5", "a4"]
            assert "1–2 of 5" in client.get(path).text
            second = link(client, path, "older")
            assert listed(client, second) == ["a3", "a2"]
            assert "3–4 of 5" in client.get(second).text
            third = link(client, second, "older")
            assert listed(client, third) == ["a1"]
            assert "5–5 of 5" in client.get(third).text
            assert listed(client, link(client, third, "newer")) == ["a3", "a2"]
            assert listed(client, link(client, second, "newer")) == ["a5", "a4"]


@pytest.mark.parametrize(
    "query",
    [
        "status=open&flow=nightly&since=24h",
        "thread=t1&children=1",
        "owner=ann+b",
        "q=-odd",
        "label=team=blue&asking=1",
        "status=orphaned",
        "q=team=red",
    ],
)
def test_the_command_lists_the_same_runs(
    tmp_path: Path, cp: SyncCheckpointer, serving: Serving, query: str
) -> None:
    saved(cp, ["n1"], flow="nightly")
    saved(cp, ["-odd"], owner="ann b", thread_id="t1")
    hf.Engine(tmp_path / "runs.db").run_sync(report(), run_id="of-red", labels={"team": "red"})
    client = serving()
    found = re.search(r'data-copy="([^"]*)"', client.get(f"/runs?{query}").text)
    assert found is not None
    program, *words = shlex.split(unescape(found[1]), comments=True)
    assert program == "holdfast"
    store = ["--store", str(tmp_path / "runs.db")]
    given = [*words[:1], *store, "--json", *words[1:]]
    result = CliRunner().invoke(holdfast, given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    ids = re.findall(r'"run_id": ?"([^"]*)"', result.output)
    assert ids == listed(client, f"/runs?{query}")


def test_htmx_gets_the_list_alone_and_the_url_it_is_at(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    saved(cp, ["a"], flow="nightly")
    here = {"hx-request": "true", "hx-current-url": "http://127.0.0.1/runs"}
    answer = client.get("/runs?flow=nightly&thread=&q=&since=", headers=here)
    assert "<html" not in answer.text
    assert answer.headers["hx-push-url"] == "/runs?flow=nightly"
    typing = here | {"hx-current-url": "http://127.0.0.1/runs?flow=nightly&q=a"}
    answer = client.get("/runs?flow=nightly&q=ab", headers=typing)
    assert answer.headers["hx-replace-url"] == "/runs?flow=nightly&q=ab"


def test_news_counts_what_was_started_since(cp: SyncCheckpointer, client: TestClient) -> None:
    saved(cp, ["a", "b"], flow="nightly")
    found = re.search(r'data-newest="([^"]*)"', client.get("/runs").text)
    assert found is not None
    newest = unescape(found[1])
    assert client.get("/news", params={"newest": newest}).text.strip() == ""
    saved(cp, ["c"], flow="nightly")
    saved(cp, ["d"])
    assert client.get("/news", params={"newest": newest}).text.strip() == "2 new"
    of_flow = {"newest": newest, "flow": "nightly"}
    assert client.get("/news", params=of_flow).text.strip() == "1 new"


def test_the_header_says_how_many_questions_are_open(tmp_path: Path, serving: Serving) -> None:
    with pytest.raises(hf.RunPausedError):
        hf.Engine(tmp_path / "runs.db").run_sync(review(), run_id="asks")
    text = serving().get("/nothing").text
    assert re.search(r'id="asking">1<', text)


def test_runs_of_an_encrypted_store_are_listed_without_its_key(tmp_path: Path) -> None:
    ring = hf.Keyring({"2026": bytes(range(32))})
    with hf.Engine(tmp_path / "runs.db", key=ring) as engine:
        engine.run_sync(report(), run_id="done")
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(review(), run_id="asks")
    with SyncCheckpointer(tmp_path / "runs.db") as cp:
        rows = {run.run_id: row_of(cp, run) for run in cp.runs()}
    assert {run_id: row.word for run_id, row in rows.items()} == {
        "done": "completed",
        "asks": "paused",
    }
    assert "key was not given" in str(rows["asks"].note)


def test_a_run_that_is_not_there_leads_to_the_one_that_was_meant(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    cp.save("brest-1", {"n": 1})
    cp.save("Oslo/2", {"n": 1})
    link = 'href="/runs/brest-1">brest-1</a>'
    for path in ("/runs/brets-1", "/runs/BREST-1"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "did you mean &#39;brest-1&#39;?" in answer.text
        assert link in answer.text
    assert f'Did you mean <a class="m link" {link}?' in client.get("/runs?q=brets-1").text
    assert 'href="/runs/Oslo%2F2"' in client.get("/runs/Oslo%2F3").text
    for path in (
        "/runs/something-else",
        "/runs?q=something-else",
        "/runs?q=brest",
        "/runs?q=brest-1&status=failed",
        "/runs?q=brets-1&status=failed",
        "/runs?q=brets-1&flow=other",
    ):
        assert "id you mean" not in client.get(path).text
    told = client.get("/api/v1/runs/brets-1")
    assert told.status_code == 404
    assert "did you mean 'brest-1'?" in told.json()["detail"]


def test_a_run_that_did_nothing_took_no_time(cp: hf.SyncCheckpointer, tmp_path: Path) -> None:
    engine = hf.Engine(cp)
    engine.run_sync(report(), run_id="first")
    engine.submit_sync(report(), run_id="submitted")
    cp.save("saved", {"n": 1}, step="s", flow="etl")
    for origin in ("first", "saved"):
        cp.fork(origin, run_id=f"{origin}-b")
    for name in ("first-b", "submitted"):
        engine.cancel_sync(name)

    def took(name: str) -> float | None:
        run = cp.run(name)
        assert run is not None
        return row_of(cp, run).took

    assert [took(name) for name in ("first-b", "saved-b", "submitted")] == [None] * 3
    cp.save("saved-b", {"n": 2}, step="t")
    assert None not in (took("first"), took("saved"), took("saved-b"))
