"""Questions that nobody is asked any more: their run went back, or is over."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.workflow import ask, step, workflow
from tests.web import small_flows
from tests.web.conftest import Serving
from tests.web.test_run_page import rows_of
from tests.web.test_waiting_runs import statuses, text_of


@step
def collect() -> int:
    return 3


@workflow
async def report() -> bool:
    await collect()
    publish = await ask("Publish it?", returns=bool, name="publish")
    await ask("Tell the press?", returns=bool, name="press")
    return publish


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def writing(serving: Serving) -> TestClient:
    return serving(allow_writes=True)


@pytest.fixture
def back(store: Path, cp: hf.SyncCheckpointer) -> str:
    """A run that went back to where it had not asked yet."""
    small_flows.execute(store, report, "report-1")
    cp.rollback("report-1", seq=1)
    return "report-1"


def test_a_question_that_a_rollback_left_behind_is_void(writing: TestClient, back: str) -> None:
    page = writing.get(f"/runs/{back}").text
    assert rows_of(page) == ["collect", "publish"]
    assert statuses(page) == ["completed", "void"]
    assert "/answer?" not in page
    drawer = text_of(writing.get(f"/runs/{back}?step=publish").text)
    assert "Void: the run went back to @1." in drawer
    assert "Answered" not in drawer
    journal = text_of(writing.get(f"/runs/{back}?tab=journal").text)
    assert "asks publish Publish it? (void: the run was rolled back behind it)" in journal


def test_the_inbox_says_why_a_question_is_void(writing: TestClient, back: str) -> None:
    assert "Publish it?" not in text_of(writing.get("/inbox").text)
    done = text_of(writing.get("/inbox?state=done").text)
    assert "Publish it? report-1 · never answered" in done
    assert "Void the run went back to @1" in done


def test_the_address_of_a_void_question_says_so_and_offers_no_form(
    writing: TestClient, store: Path, back: str
) -> None:
    small_flows.execute(store, report, "report-2")  # whose question is open
    page = writing.get(f"/inbox?run={back}&question=publish").text
    assert "This question is void: the run went back to @1." in text_of(page)
    assert "report-2" in text_of(page)
    assert '<form class="answer"' not in page
    refused = writing.get(f"/runs/{back}/answer?question=publish")
    assert refused.status_code == 409
    assert "is void: the run went back to @1" in text_of(refused.text)
    fields = {"by": "ann", "question": "publish", "answer": "true"}
    sent = writing.post(f"/runs/{back}/answer", data=fields)
    assert sent.status_code == 409
    assert "is void: the run went back to @1" in text_of(sent.text)


def test_a_question_that_is_asked_again_is_open_and_the_first_one_void(
    writing: TestClient, store: Path, cp: hf.SyncCheckpointer, back: str
) -> None:
    with hf.Engine(store, flows=[report]) as engine, pytest.raises(hf.RunPausedError):
        engine.resume_sync(back)
    page = writing.get(f"/runs/{back}?open=publish").text
    assert statuses(page) == ["completed", "asks", "void", "asks"]
    assert "/answer?question=publish" in page
    assert '<form class="answer"' in writing.get(f"/inbox?run={back}&question=publish").text


def test_an_answer_that_a_rollback_left_behind_does_not_count_any_more(
    writing: TestClient, store: Path, cp: hf.SyncCheckpointer
) -> None:
    small_flows.execute(store, report, "report-1")
    with hf.Engine(store, flows=[report]) as engine:
        engine.answer_sync("report-1", True, by="ann")
        with pytest.raises(hf.RunPausedError):
            engine.resume_sync("report-1")
    cp.rollback("report-1", seq=1)
    done = text_of(writing.get("/inbox?state=done").text)
    assert done.count("Void the run went back to @1") == 2
    assert "report-1 · ann" in done


def test_what_a_cancelled_run_asked_is_void(writing: TestClient, store: Path) -> None:
    small_flows.execute(store, report, "report-1")
    with hf.Engine(store) as engine:
        engine.cancel_sync("report-1", by="ann")
    assert statuses(writing.get("/runs/report-1").text) == ["completed", "void"]
    assert "Void the run was cancelled" in text_of(writing.get("/inbox?state=done").text)


def test_a_question_behind_many_others_is_shown_where_its_address_leads(
    writing: TestClient, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        small_flows.execute(store, report, f"report-{number}")
    monkeypatch.setattr("holdfast.web.pages.inbox.LISTED", 1)
    page = writing.get("/inbox?run=report-2&question=publish").text
    assert 'data-asked="report-2@publish"' in page
