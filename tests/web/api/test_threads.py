"""LangGraph's threads, as the API shows them."""

from __future__ import annotations

from pathlib import Path

from holdfast import SyncCheckpointer
from holdfast.integrations.langgraph import HoldfastSaver
from tests.cli.langgraph_databases import fill, graph
from tests.web.api.conftest import API, Cli
from tests.web.conftest import Serving


def test_a_thread_is_shown_as_by_the_command_line(
    cp: SyncCheckpointer, cli: Cli, serving: Serving, tmp_path: Path
) -> None:
    with HoldfastSaver(tmp_path / "runs.db") as saver:
        fill(graph(saver))
    client = serving(allow_writes=True)
    for thread in ("waiting", "done"):
        (expected,) = cli("show", thread)
        found = client.get(f"{API}/runs/{thread}").json()
        assert found.pop("cut") == []
        assert found == expected
    assert found["state"]["messages"]
    newest = client.get(f"{API}/runs/waiting").json()["checkpoint_id"]
    a, b = "1", newest.rpartition("@")[2]
    (expected,) = cli("diff", "waiting", a, b)
    found = client.get(f"{API}/runs/waiting/diff?a={a}&b={b}").json()
    assert found == expected | {"cut": False}
    assert client.get(f"{API}/runs/waiting/questions").status_code == 409
    answer = client.post(f"{API}/runs/waiting/answer", json={"value": "yes"})
    assert answer.status_code == 409
    assert "Command(resume=...)" in answer.json()["detail"]
