"""Runs that wait: for a worker after an answer, or for the answer to a child run."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.workflow import ask, step, workflow
from tests.web import small_flows
from tests.web.conftest import Serving
from tests.web.test_run_page import rows_of


@step
def collect() -> int:
    return 3


@workflow
async def asks() -> bool:
    await collect()
    return await ask("Publish?", returns=bool, name="publish")


@workflow
async def parent() -> bool:
    return await asks()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def answer(store: Path, run_id: str) -> None:
    with hf.Engine(store) as engine:
        engine.answer_sync(run_id, True, by="ann")


def text_of(page: str) -> str:
    """What a page says."""
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", page.partition("<main")[2]).split()))


def statuses(page: str) -> list[str]:
    """The statuses of the rows of a timeline."""
    return re.findall(r'<span class="sr">([\w ]+) </span></span>', page)


def test_an_answered_run_waits_for_a_worker_and_nothing_of_it_runs(
    store: Path, client: TestClient
) -> None:
    small_flows.execute(store, asks, "asks-1")
    answer(store, "asks-1")
    page = client.get("/runs/asks-1").text
    assert rows_of(page) == ["collect", "publish", "next step"]
    assert statuses(page) == ["completed", "answered", "waits"]
    assert "waits for a worker" in text_of(page)
    assert "Answered: waits for a worker" in text_of(page)
    assert 'class="run"' not in page
    assert "running" not in text_of(client.get("/runs/asks-1?tab=graph").text)
    drawer = text_of(client.get("/runs/asks-1?step=under+way").text)
    assert "Waits" in drawer
    assert "Running" not in drawer
    assert "waits for a worker" in text_of(client.get("/runs").text)


def test_the_command_beside_an_answered_run_continues_it(store: Path, client: TestClient) -> None:
    small_flows.execute(store, asks, "asks-1")
    answer(store, "asks-1")
    said = text_of(client.get("/runs/asks-1").text)
    assert "start your program again, or continue it with" in said
    found = re.search(r"holdfast resume asks-1 --flow=MODULE:NAME --store=\S+", said)
    assert found is not None
    assert shlex.split(found[0])[1:3] == ["resume", "asks-1"]


def test_a_submitted_run_that_was_answered_names_the_command_of_a_worker(
    store: Path, client: TestClient
) -> None:
    with hf.Engine(store, flows=[asks]) as engine:
        engine.submit_sync(asks(), run_id="asks-1")
        with pytest.raises(hf.RunPausedError):
            engine.resume_sync("asks-1")
    answer(store, "asks-1")
    said = text_of(client.get("/runs/asks-1").text)
    assert "It waits for a worker, and none of its flow is alive. Start one with" in said
    assert "holdfast worker --flow=MODULE:NAME" in said


def test_a_run_that_waits_for_a_child_run_shows_what_that_asks(
    store: Path, client: TestClient
) -> None:
    small_flows.execute(store, parent, "parent-1")
    page = client.get("/runs/parent-1").text
    assert statuses(page) == ["waits"]
    assert "Next problem" not in page
    assert "Publish? Question publish of the child run parent-1//asks" in text_of(page)
    answer(store, "parent-1//asks")
    for run in ("parent-1", "parent-1%2F%2Fasks"):
        said = text_of(client.get(f"/runs/{run}").text)
        assert "Publish?" not in said
        assert "holdfast resume parent-1 --flow=MODULE:NAME" in said
    opened = client.get("/runs/parent-1?open=run:parent-1//asks").text
    assert statuses(opened) == ["waits", "completed", "answered", "waits"]


def test_the_form_of_a_question_says_what_continues_its_run(store: Path, serving: Serving) -> None:
    small_flows.execute(store, asks, "asks-1")
    form = text_of(serving(allow_writes=True).get("/inbox").text)
    assert "when it is answered, start your program again, or continue it with" in form
    assert "holdfast resume asks-1 --flow=MODULE:NAME" in form


def test_a_flow_without_inputs_has_no_empty_card(store: Path, client: TestClient) -> None:
    small_flows.execute(store, asks, "asks-1")
    assert "Inputs" not in text_of(client.get("/runs/asks-1").text)


def test_a_run_that_went_back_says_so_in_the_list(
    store: Path, cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    small_flows.execute(store, asks, "asks-1")
    cp.rollback("asks-1", seq=1)
    assert "went back to @1" in text_of(client.get("/runs").text)
