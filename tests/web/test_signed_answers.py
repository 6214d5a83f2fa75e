"""What the web UI shows of signed answers, and that it can't answer for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from tests.web import small_flows as flows
from tests.web.conftest import Serving

UI = hf.SigningKey.ed25519("ui", bytes(range(32)))
ANN = hf.SigningKey.ed25519("ann", bytes(range(1, 33)))


@pytest.fixture
def cp(tmp_path: Path) -> Iterator[hf.SyncCheckpointer]:
    with hf.SyncCheckpointer(tmp_path / "runs.db", sign=UI, trusted=ANN.trusted()) as opened:
        yield opened


@pytest.fixture
def client(serving: Serving, cp: hf.SyncCheckpointer) -> TestClient:
    with hf.Engine(cp) as engine, pytest.raises(hf.RunPausedError):
        engine.run_sync(flows.refund(219), run_id="refund-1")
    return serving(allow_writes=True)


def test_a_signed_answer_is_shown_as_one(client: TestClient, cp: hf.SyncCheckpointer) -> None:
    with hf.Engine(cp) as engine:
        engine.answer_sync("refund-1", {"approved": True}, sign=ANN)
    assert "signed by ann" in client.get("/inbox?state=done").text
    assert "signed by ann" in client.get("/runs/refund-1?tab=journal").text


def test_a_name_in_a_form_is_no_signature(client: TestClient, cp: hf.SyncCheckpointer) -> None:
    sent = {"by": "ann", "question": "approve", "answer.approved": "true"}
    done = client.post("/runs/refund-1/answer", data=sent, follow_redirects=False)
    assert done.status_code >= 400
    assert "sign with their own key" in done.text
    assert [moment for moment in cp.timeline("refund-1") if moment.kind == "answer"] == []
