"""The overview: numbers that are right, limits that are said, and nothing of a run's that is run."""

from __future__ import annotations

import html
import json
import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.cli.main import holdfast
from holdfast.evidence import EvidenceVerifier
from holdfast.seams import SystemClock
from holdfast.views.recent import recent
from holdfast.views.statistics import WINDOWS
from holdfast.views.verifying import check
from holdfast.web import keeping
from holdfast.workflow import step, workflow
from tests.faults import FakeClock
from tests.web.conftest import Serving

DAY = WINDOWS["24h"]


class HalfPast(SystemClock):
    """In the middle of an hour: a run and the question about it are never in different ones."""

    def now(self) -> int:
        return int(datetime(2026, 5, 5, 12, 30, tzinfo=UTC).timestamp() * 1e6)


@pytest.fixture
def cp(tmp_path: Path) -> Iterator[hf.SyncCheckpointer]:
    with hf.SyncCheckpointer(tmp_path / "runs.db", clock=HalfPast()) as opened:
        yield opened


def _save(cp: hf.SyncCheckpointer, run: str, seconds: float, **options: Any) -> None:
    cp.save(run, {"n": 1}, step="load", duration=seconds, flow="etl", **options)


def test_an_empty_store_says_what_will_be_there(client: TestClient) -> None:
    answer = client.get("/overview")
    assert answer.status_code == 200
    assert "Nothing was saved here yet" in answer.text
    assert "holdfast demo" in answer.text


def test_the_page_counts_runs_and_links_to_them(
    client: TestClient, cp: hf.SyncCheckpointer
) -> None:
    _save(cp, "good", 1)
    _save(cp, "bad", 1, status="failed")
    assert "2 runs of etl" in client.get("/overview?since=7d&flow=etl").text
    text = client.get("/overview/part/counts?flow=etl").text
    assert re.search(r'href="/runs\?status=failed&amp;flow=etl".*<b>1</b>', text)
    assert re.search(r'href="/runs\?status=paused&amp;flow=etl".*<b>0</b>', text)
    assert '<option value="etl">' in client.get("/overview/part/flows").text


def test_submitted_runs_are_as_many_as_their_list_has(
    client: TestClient, cp: hf.SyncCheckpointer
) -> None:
    """Due are runs of other kinds as well: those that a worker left, or whose timer is over."""

    @workflow
    async def tidy() -> None:
        pass

    engine = hf.Engine(cp)
    engine.submit_sync(tidy(), run_id="now")
    engine.submit_sync(tidy(), run_id="later", delay=3600)
    (tile,) = re.findall(
        r'href="(/runs\?status=submitted[^"]*)"(.*)', client.get("/overview/part/counts").text
    )
    assert "<b>2</b>" in tile[1]
    page = client.get(html.unescape(tile[0])).text
    assert 'data-run="now"' in page
    assert 'data-run="later"' in page
    assert "due" not in client.get("/overview/part/now").text


def test_the_command_of_the_view_has_the_same_parts(
    client: TestClient, cp: hf.SyncCheckpointer
) -> None:
    _save(cp, "a", 1)
    text = client.get("/overview?since=7d&flow=etl").text
    (command,) = re.findall(r'cli-of-view"[^>]* data-copy="([^"]*)"', text)
    words = shlex.split(html.unescape(command))
    assert words[:2] == ["holdfast", "stats"]
    printed = CliRunner().invoke(holdfast, [*words[1:], "--json"])
    shown = client.get("/overview/data?since=7d&flow=etl").json()
    told = json.loads(printed.stdout)  # by the real clock
    for name in ("since", "hours", "flow"):
        assert told[name] == shown[name]
    assert len(told["periods"]) == len(shown["periods"])
    assert told["periods"][0].keys() == shown["periods"][0].keys()


def test_a_time_that_there_is_not_is_refused(client: TestClient) -> None:
    assert client.get("/overview?since=1y").status_code == 400
    assert client.get("/overview/data?since=").status_code == 400


def test_a_flow_that_there_cant_be_is_not_found(client: TestClient) -> None:
    for path in ("/overview", "/overview/data", "/overview/part/counts"):
        assert client.get(f"{path}?flow=a%00b").status_code == 404
    assert client.get("/healthz").json()["lost_since"] is None


def test_a_lost_store_says_since_when(
    client: TestClient, cp: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*args: Any, **options: Any) -> Any:
        raise hf.StoreUnavailableError("the server is gone")

    _save(cp, "a", 1)
    for name in ("counts", "tally", "listed", "due", "stats"):
        monkeypatch.setattr(cp.store, name, lost)
    answer = client.get("/overview")
    assert answer.status_code == 503
    assert "since" in answer.text
    for path in ("data", "recent", "part/now", "part/steps", "part/health"):
        assert client.get(f"/overview/{path}").status_code == 503, path


@pytest.mark.parametrize(("since", "parts"), [("24h", 25), ("7d", 29), ("30d", 31)])
def test_charts_have_a_number_for_every_part_of_the_time(
    client: TestClient, cp: hf.SyncCheckpointer, since: str, parts: int
) -> None:
    _save(cp, "a", 1)
    cp.complete("a")
    told = client.get(f"/overview/data?since={since}").json()
    read = client.get(f"/overview/recent?since={since}").json()
    assert len(told["periods"]) == parts
    assert [period["start"] for period in told["periods"]] == read["starts"]
    assert (told["periods"][-1]["started"], told["periods"][-1]["completed"]) == (1, 1)
    assert len(read["bytes"]) == len(read["starts"])
    assert read["bytes"][-1] > 0
    assert read["limits"] == "From all 1 run of this time."


def test_only_the_newest_runs_are_read_and_it_is_said() -> None:
    clock = FakeClock(int(datetime(2026, 5, 5, 12, tzinfo=UTC).timestamp() * 1e6))
    with hf.SyncCheckpointer("memory://", clock=clock) as own:
        for n in range(5):
            clock.advance(3600)
            _save(own, f"run-{n}", n)
        found = recent(own, DAY, most=2)
        assert (found.read, found.runs, found.whole) == (2, 5, False)
        assert found.starts[found.unread] == datetime(2026, 5, 5, 16, tzinfo=UTC)
        assert [step.longest for step in found.steps] == [4.0]
        assert recent(own, DAY, patience=-1).read == 1


def test_the_slowest_steps_are_one_row_for_all_rounds_of_a_loop(
    client: TestClient, cp: hf.SyncCheckpointer
) -> None:
    for n in range(20):
        cp.save("r", n, step=f"fetch[{n}]", duration=n / 10, flow="crawl")
    cp.save("slow", 0, step="wait#2", duration=60.0, flow="crawl")
    found = recent(cp, DAY)
    assert [(one.step, one.times, one.longest) for one in found.steps] == [
        ("wait", 1, 60.0),
        ("fetch", 20, 1.9),
    ]
    assert (found.steps[1].median, found.steps[1].p95) == (0.9, 1.8)
    text = client.get("/overview/part/steps").text
    assert 'href="/runs/slow"' in text
    assert "1 m 0 s" in text


@pytest.fixture
def engine(tmp_path: Path, cp: hf.SyncCheckpointer) -> Iterator[hf.Engine]:
    with (
        closing(hf.open_store(cp.store.url)) as store,
        hf.Engine(hf.Checkpointer(store, clock=HalfPast())) as opened,
    ):
        yield opened


def test_failures_are_counted_by_their_error(
    client: TestClient, cp: hf.SyncCheckpointer, engine: hf.Engine
) -> None:
    @step(retry=2)
    def pay() -> None:
        raise TimeoutError("no <b>answer</b>")

    @workflow
    async def shop() -> None:
        await pay()

    for n in range(2):
        with pytest.raises(hf.StepFailedError):
            engine.run_sync(shop(), run_id=f"order-{n}")
    text = client.get("/overview/part/errors").text
    assert "no &lt;b&gt;answer&lt;/b&gt;" in text
    (error,) = recent(cp, DAY).errors
    assert (error.error, error.runs, error.run_id) == ("TimeoutError", 2, "order-1")


def test_verdicts_are_counted_by_type_of_evidence(
    client: TestClient, cp: hf.SyncCheckpointer, engine: hf.Engine, tmp_path: Path
) -> None:
    @step(outputs=lambda made: [made])
    def write(name: str) -> str:
        path = tmp_path / name
        path.write_text(name)
        return str(path)

    @workflow
    async def report(name: str) -> str:
        return await write(name)

    for name in ("kept", "lost"):
        engine.run_sync(report(name), run_id=name)
    (tmp_path / "lost").unlink()
    for name in ("kept", "lost", "lost"):
        check(cp, name, verifier=EvidenceVerifier(base_path=tmp_path))
    told = client.get("/overview/recent").json()["checks"]
    now = {outcome: numbers[-1] for outcome, numbers in told.pop("file_sha256").items()}
    assert told == {}
    assert now == {"verified": 1, "failed": 2, "undecided": 0}


def test_what_names_hold_is_text(client: TestClient, cp: hf.SyncCheckpointer) -> None:
    hostile = "<script>alert(1)</script>\"'"
    cp.save(hostile, 1, step=hostile, duration=1.0, flow=hostile)
    for part in ("now", "counts", "flows", "steps", "errors", "workers", "health"):
        answer = client.get(f"/overview/part/{part}")
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text, part
    answer = client.get("/overview", params={"flow": hostile})
    assert "<script>alert" not in answer.text
    assert client.get("/overview/data").headers["content-type"] == "application/json"


def test_a_damaged_entry_costs_no_more_than_itself(
    client: TestClient, cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    for run in ("r", "r", "r", "s"):
        _save(cp, run, 1)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as raw, raw:
        raw.execute("DELETE FROM holdfast_entries WHERE run = 'r' AND seq = 1")
    text = client.get("/overview/part/errors").text
    assert "1 entry could not be read" in text
    assert client.get("/overview/data").status_code == 200


def test_findings_come_with_the_command_that_helps(
    client: TestClient, cp: hf.SyncCheckpointer
) -> None:
    _save(cp, "r", 1)
    text = client.get("/overview/part/health").text
    assert "can be opened" in text
    assert "Look for damage" in text
    full = client.get("/overview/part/health?full=1").text
    assert "1 run, every byte as it was written" in full
    assert "Look for damage" not in full


def test_workers_are_listed_with_what_they_work_for(
    client: TestClient, cp: hf.SyncCheckpointer
) -> None:
    text = client.get("/overview/part/workers").text
    assert "holdfast worker --flow=MODULE:NAME" in text


def test_the_same_answer_is_kept_for_some_seconds(
    serving: Serving, cp: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "monotonic", lambda: 1.0)  # none are over
    client = serving()
    _save(cp, "a", 1)
    before = client.get("/overview/data").json()
    _save(cp, "b", 1)
    assert client.get("/overview/data").json() == before
    assert client.get("/overview/data?since=7d").json()["periods"][-1]["started"] == 2


def test_a_window_is_whole() -> None:
    now = datetime(2026, 5, 5, 12, 30, tzinfo=UTC)
    for window in WINDOWS.values():
        starts = window.starts(int(now.timestamp() * 1e6))
        assert starts[0] <= now - timedelta(hours=window.hours)
        assert starts[-1] <= now < starts[-1] + timedelta(hours=window.step)
