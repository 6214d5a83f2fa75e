"""Two runs, branches or checkpoints side by side."""

from __future__ import annotations

import html
import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.cli.main import holdfast
from holdfast.workflow import workflow
from tests.web import small_flows


@pytest.fixture
def forked(cp: hf.SyncCheckpointer) -> None:
    for number in range(4):
        cp.save("a run", {"n": number, "same": "x"}, step=f"s{number}", flow="etl")
    cp.fork("a run", seq=2, run_id="-b")
    cp.save("-b", {"n": 2, "same": "x"}, step="s2")
    cp.save("-b", {"n": "other", "more": [1, 2]}, step="s3")


def compare(client: TestClient, a: str, b: str) -> str:
    answer = client.get("/compare", params={"a": a, "b": b})
    assert answer.status_code == 200, answer.text
    return answer.text


def test_steps_are_aligned_and_equal_ones_are_folded(client: TestClient, forked: None) -> None:
    shown = compare(client, "a run", "-b")
    assert "1 differs, 3 are equal" in shown  # what was before the fork belongs to both
    assert "3 equal steps: s0 … s2" in shown
    assert "~ result" in shown
    assert '>~</b><span class="key">n</span>' in shown
    assert '>-</b><span class="key">same</span>' in shown
    assert '>+</b><span class="key">more</span>' in shown


def test_the_inputs_of_both_runs_are_shown_without_secrets(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    @workflow
    async def visit(place: str, password: str) -> None: ...

    long = "x" * 300
    with hf.Engine(cp) as engine:
        places = {"a": "Brest", "b": "Douarnenez", "c": long, "d": f"{long}!", "e": "x" * 9_000_000}
        for run, place in places.items():
            engine.run_sync(visit(place, password="hunter2"), run_id=run)
    shown = html.unescape(compare(client, "a", "b"))
    assert '"place": "Brest"' in shown
    assert '"place": "Douarnenez"' in shown
    assert "hunter2" not in shown
    assert compare(client, "c", "d").count("… (digest ") == 2, "they begin alike"
    assert "9.0 MB" in compare(client, "a", "e")


def test_checkpoints_of_one_run_can_be_compared_and_swapped(
    client: TestClient, forked: None
) -> None:
    shown = compare(client, "a run@2", "a run@4")
    assert "2 differ, 2 are equal" in shown
    assert shown.count("~ only b") == 2
    assert "/compare?a=a+run%404&amp;b=a+run%402" in shown or "a%20run%404" in shown


@pytest.mark.parametrize(("a", "b"), [("a run", "-b"), ("-b", "a run@2"), ("a run@1", "a run@3")])
def test_the_command_of_the_page_says_the_same(
    cp: hf.SyncCheckpointer, client: TestClient, forked: None, a: str, b: str
) -> None:
    shown = compare(client, a, b)
    found = re.search(r'cli-of-view" type="button" data-copy="([^"]+)"', shown)
    assert found
    program, *arguments = shlex.split(html.unescape(found[1]))
    assert program == "holdfast"
    told = CliRunner().invoke(holdfast, [*arguments], env={"HOLDFAST_STORE": cp.store.url})
    assert told.exit_code == 0, told.output
    keys = set(re.findall(r'class="key">([^<]+)<', shown))
    assert {line[2:].partition(":")[0] for line in told.output.splitlines()[1:]} == keys


@pytest.mark.parametrize(
    ("a", "told"),
    [
        ("", "Give a run"),
        ("nothing", "there is no run"),
        ("a run@99", "no checkpoint"),
        ("a run@x", "there is no run"),
        ("<script>@1", "&lt;script&gt;"),
        ("x" * 5000, "is"),
    ],
)
def test_a_side_that_is_not_there_is_told(
    client: TestClient, forked: None, a: str, told: str
) -> None:
    assert told in compare(client, a, "-b")
    assert told in compare(client, "-b", a)


def test_what_is_missing_is_asked_for_once_beside_the_fields(
    client: TestClient, forked: None
) -> None:
    shown = client.get("/compare").text
    card = shown.partition('<section class="card">')[2].partition("</section>")[0]
    assert card.count("Give a run, or a checkpoint as RUN@SEQ, for a and b.") == 1
    assert shown.count("Give a run") == 1
    assert "RUN@SEQ, for b." in compare(client, "a run", "")


def test_a_damaged_side_is_told_and_its_steps_are_still_compared(
    cp: hf.SyncCheckpointer, client: TestClient, forked: None, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET body = x'00' WHERE run = '-b' AND seq = 3")
    shown = compare(client, "-b", "a run")
    assert "-b@3 is damaged" in shown
    assert "s0 … s2" in shown
    assert "-b@3 is damaged" in compare(client, "-b@3", "a run@2")


def test_secrets_are_not_shown_side_by_side(cp: hf.SyncCheckpointer, client: TestClient) -> None:
    cp.save("r", {"api_key": "abc123", "n": 1})
    cp.save("r", {"api_key": "def456", "n": 1})
    shown = compare(client, "r@1", "r@2")
    assert "api_key" in shown
    assert not any(secret in shown for secret in ("abc123", "def456"))


def test_runs_of_other_kinds_and_without_checkpoints_can_be_compared(
    cp: hf.SyncCheckpointer, client: TestClient, forked: None
) -> None:
    cp.save("text", "a text that is no dict")
    assert "the whole state" in compare(client, "text", "a run")


def test_a_run_keeps_its_name_where_a_sentence_begins_with_it(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    cp.save("Order-B", {"n": 1}, step="s")
    with hf.Engine(cp.store, flows=[small_flows.two]) as engine:
        engine.submit_sync(small_flows.two(), run_id="order-A")
    assert "Order-A has no checkpoint yet." in compare(client, "order-A", "Order-B")
