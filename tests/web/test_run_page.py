"""The page of a run: its header, its timeline, and what a step did."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from holdfast import SyncCheckpointer

TABS = ("timeline", "graph", "state", "evidence", "journal", "forks")


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_of_a_run_has_an_address(
    cp: SyncCheckpointer, client: TestClient, tab: str
) -> None:
    cp.save("a/b", {"n": 1}, step="fetch")
    answer = client.get(f"/runs/a%2Fb?tab={tab}")
    assert answer.status_code == 200
    assert "<h1>a/b</h1>" in answer.text
    assert f'data-tab="{tab}"' in answer.text


def test_a_run_that_is_not_there_is_said_to_be_missing(client: TestClient) -> None:
    answer = client.get("/runs/nothing")
    assert answer.status_code == 404
    assert "nothing" in answer.text
