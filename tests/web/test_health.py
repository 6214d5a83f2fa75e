"""What programs ask: /healthz and /metrics."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.errors import StoreUnavailableError
from tests.web.conftest import Serving


def _metrics(client: TestClient) -> dict[str, float]:
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = [line for line in answer.text.split("\n")[:-1] if not line.startswith("#")]
    for line in lines:
        assert re.fullmatch(r'[a-z_]+(\{([a-z_]+="([^"\\]|\\[\\n"])*",?)*\})? [0-9.e+-]+', line), (
            line
        )
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_a_store_that_answers_is_healthy(client: TestClient) -> None:
    answer = client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json() == {
        "ok": True,
        "store": "runs.db",
        "lost_since": None,
        "version": hf.__version__,
    }


def test_a_lost_store_is_unhealthy_since_it_was_lost(
    client: TestClient, cp: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*args: Any) -> Any:
        raise StoreUnavailableError("sqlite:///secret/runs.db", "disk on fire")

    with monkeypatch.context() as patched:
        patched.setattr(cp.store, "counts", lost)
        first, then = client.get("/healthz"), client.get("/healthz")
        assert first.status_code == then.status_code == 503
        assert first.json()["ok"] is False
        assert first.json()["lost_since"] == then.json()["lost_since"] is not None
        assert "secret" not in first.text
        assert "holdfast_store_runs" not in client.get("/metrics").text
    assert client.get("/healthz").json()["lost_since"] is None


def test_metrics_have_the_runs_of_each_flow(client: TestClient, cp: hf.SyncCheckpointer) -> None:
    for n in range(3):
        cp.save(f"run-{n}", n, flow="etl")
    cp.complete("run-0")
    cp.save("by-hand", 1)
    found = _metrics(client)
    assert found['holdfast_runs{status="open"}'] == 3
    assert found['holdfast_store_runs{flow="etl",status="open"}'] == 2
    assert found['holdfast_store_runs{flow="etl",status="completed"}'] == 1
    assert found['holdfast_store_runs{flow="other",status="open"}'] == 1
    assert found['holdfast_store_starts_total{flow="etl"}'] == 3
    assert found['holdfast_store_ends_total{flow="etl",status="completed"}'] == 1
    assert found['holdfast_store_saves_total{flow="etl"}'] >= 3
    assert found["holdfast_store_orphans"] == found["holdfast_store_due"] == 0


def test_a_hostile_flow_is_one_label(client: TestClient, cp: hf.SyncCheckpointer) -> None:
    cp.save("r", 1, flow='x"} 1\\\u2028{<b>')
    found = _metrics(client)
    assert any(name.startswith("holdfast_store_runs") for name in found)


def test_many_flows_are_counted_together(serving: Serving, cp: hf.SyncCheckpointer) -> None:
    for n in range(60):
        cp.save(f"run-{n}", n, flow=f"flow-{n}")
    found = _metrics(serving())
    flows = [name for name in found if name.startswith("holdfast_store_runs{")]
    assert len(flows) == 51
    assert found['holdfast_store_runs{flow="other",status="open"}'] == 10
