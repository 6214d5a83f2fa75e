"""Passwords in URLs are shown on no page, wherever a run has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from tests.web import small_flows as flows

PAGES = (
    "/runs",
    "/runs/fails",
    "/runs/fails?tab=state",
    "/runs/fails?tab=journal",
    "/runs/fails?step=connects",
    "/runs/asks",
    "/runs/asks?tab=journal",
    "/runs/asks?step=ask",
    "/runs/stopped",
    "/runs/stopped?tab=journal",
    "/inbox",
    "/overview/part/errors",
)


@pytest.fixture
def runs(cp: hf.SyncCheckpointer, tmp_path: Path) -> None:
    flows.execute(tmp_path / "runs.db", flows.connecting, "fails")
    flows.execute(tmp_path / "runs.db", flows.confirming, "asks")
    flows.execute(tmp_path / "runs.db", flows.anything, "stopped")
    with hf.Engine(tmp_path / "runs.db", flows=flows.ALL) as engine:
        engine.pause_sync("stopped", f"moving {flows.DATABASE}", by="ann")


@pytest.mark.usefixtures("runs")
def test_passwords_in_urls_are_shown_on_no_page(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    pages = [*PAGES]
    for run in ("fails", "asks", "stopped"):
        pages += [f"/runs/{run}/entries/{one.seq}" for one in cp.timeline(run)]
    texts = {path: client.get(path) for path in pages}
    assert {answer.status_code for answer in texts.values()} == {200}
    assert [path for path, answer in texts.items() if "hunter2" in answer.text] == []
    for path in ("/runs/fails", "/runs/fails?step=connects", "/inbox", "/overview/part/errors"):
        assert "postgresql://ann:•••••@db/runs" in texts[path].text, path
