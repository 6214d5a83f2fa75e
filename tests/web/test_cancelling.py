"""Runs that were asked to cancel while nobody executed them, and have steps to undo."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.workflow import ask, step, workflow
from tests.web.conftest import Serving
from tests.web.small_flows import execute
from tests.web.test_waiting_runs import statuses, text_of

given_back: list[str] = []


@step(with_rollback=given_back.append)
def reserve() -> str:
    return "room 7"


@workflow
async def trip() -> bool:
    await reserve()
    return await ask("Go on a trip?", returns=bool, name="go")


@workflow
async def other() -> bool:
    return await ask("Another question?", returns=bool, name="other")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def writing(serving: Serving, store: Path) -> TestClient:
    """Two runs ask; one of them was asked to cancel."""
    execute(store, trip, "trip-1")
    execute(store, other, "other-1")
    with hf.Engine(store) as engine:
        engine.cancel_sync("trip-1", reason="rain", by="ann")
    return serving(allow_writes=True)


def test_the_page_of_a_run_that_is_to_cancel_says_so_and_asks_nobody(writing: TestClient) -> None:
    page = writing.get("/runs/trip-1").text
    told = text_of(page)
    assert "ann asked to cancel it: rain" in told
    assert "It was asked to cancel, and its steps are to be undone." in told
    assert "holdfast resume trip-1" in told
    assert "asks a person" not in told
    assert "/runs/trip-1/answer" not in page
    assert ">Resume…<" in page
    assert ">Cancel…<" not in page
    assert statuses(page) == ["completed", "void"]


def test_lists_of_questions_leave_out_a_run_that_is_to_cancel(writing: TestClient) -> None:
    inbox = writing.get("/inbox").text
    assert "Another question?" in inbox
    assert "Go on a trip?" not in inbox
    assert '<span class="n" id="asking">1<' in inbox
    for path in ("/api/v1/questions", "/api/v1/runs/trip-1/questions"):
        found = writing.get(path).json()
        assert found["count"] == len(found["questions"]) == ("/runs/" not in path)
    assert "ann asked to cancel it: rain" in text_of(writing.get("/runs").text)
    asked_for = writing.get("/inbox", params={"run": "trip-1", "question": "go"}).text
    assert "This question is void: the run was asked to cancel." in text_of(asked_for)


def test_an_answer_to_a_run_that_is_to_cancel_is_refused(
    writing: TestClient, cp: hf.SyncCheckpointer
) -> None:
    before = len(cp.timeline("trip-1"))
    sent = writing.post("/api/v1/runs/trip-1/answer", json={"value": True, "by": "ann"})
    assert sent.status_code == 409
    assert "was asked to cancel: its questions are void" in sent.json()["detail"]
    form = writing.get("/runs/trip-1/answer?question=go")
    assert form.status_code == 409
    headers = {"Origin": "http://127.0.0.1"}
    fields = {"question": "go", "value": "yes", "by": "ann"}
    posted = writing.post("/runs/trip-1/answer", data=fields, headers=headers)
    assert posted.status_code == 409
    assert "was asked to cancel" in posted.text
    assert len(cp.timeline("trip-1")) == before


def test_a_worker_or_a_resume_here_undoes_its_steps(
    writing: TestClient, serving: Serving, store: Path, cp: hf.SyncCheckpointer
) -> None:
    here = serving(allow_writes=True, flows=[trip])
    assert "Its steps are undone when it is resumed" in text_of(here.get("/runs/trip-1").text)
    with hf.Engine(store) as engine:
        assert engine.work_sync(trip, until_idle=True) == 1
    assert given_back == ["room 7"]
    assert cp.run("trip-1").status == "cancelled"  # type: ignore[union-attr]
