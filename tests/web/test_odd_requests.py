"""Numbers, times and nesting that no page offers are refused, and break nothing."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from tests.web.conftest import Serving


@pytest.fixture
def writing(serving: Serving, cp: hf.SyncCheckpointer) -> TestClient:
    for n in range(3):
        cp.save("log", {"n": n})
    return serving(allow_writes=True)


@pytest.mark.parametrize("since", ["999999w", "0001-01-01T00:00:00+14:00", "0001-01-01"])
def test_runs_since_before_any_calendar_are_all_runs(writing: TestClient, since: str) -> None:
    answer = writing.get("/runs", params={"since": since})
    assert answer.status_code == 200
    assert "/runs/log" in answer.text


@pytest.mark.parametrize("digits", ["1" * 19, "1" * 30, "1" * 5000])
@pytest.mark.parametrize("part", ["states/{}", "states/{}/value", "entries/{}", "entries/{}/value"])
def test_an_entry_with_a_number_that_no_store_counts_to_is_not_found(
    writing: TestClient, part: str, digits: str
) -> None:
    assert writing.get(f"/runs/log/{part.format(digits)}").status_code == 404


@pytest.mark.parametrize("days", ["0000000012345678901234567890", "9" * 5000, "1000000", "0", "x"])
def test_an_age_that_is_no_number_of_days_is_refused(writing: TestClient, days: str) -> None:
    answer = writing.get("/runs/log/do/prune", params={"older_than": days})
    assert "must be a number from 1 to 999,999" in answer.text
    assert answer.status_code == 422


def test_nothing_is_older_than_the_calendar(writing: TestClient, cp: hf.SyncCheckpointer) -> None:
    answer = writing.get("/runs/log/do/prune?older_than=999999")
    assert "Nothing would be deleted" in answer.text
    sent = {"by": "ann", "older_than": "999999w"}
    answer = writing.post("/api/v1/runs/log/prune", json=sent)
    assert answer.status_code == 200, answer.text
    assert len(cp.list_checkpoints("log")) == 3


def test_a_state_that_is_nested_too_deep_is_refused(
    writing: TestClient, cp: hf.SyncCheckpointer
) -> None:
    for levels in (200, 300):
        text = '{"a": [' * levels + "1" + "]}" * levels
        sent = {"by": "ann", "new_id": "copy", "state": text}
        assert writing.post("/runs/log/do/fork", data=sent).status_code == 422
        body = f'{{"by": "ann", "run_id": "copy", "state": {text}}}'
        answer = writing.post("/api/v1/runs/log/fork", content=body)
        assert answer.status_code == 422, answer.text
        assert "deep" in answer.json()["detail"]
    assert cp.run("copy") is None
