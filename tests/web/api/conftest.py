"""A store with a run of each kind, which the command line and the API are asked about."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import holdfast as hf
from holdfast import SyncCheckpointer
from holdfast.cli.main import holdfast
from holdfast.workflow import ask, step, workflow
from tests.web.conftest import Serving

API = "/api/v1"
Cli = Callable[..., list[Any]]


@workflow("inner")
def inner(rows: list[int]) -> Generator[Any, Any, Any]:
    return (yield step("sum").python(sum, args=(rows,)))


@workflow("etl")
def etl(day: str) -> Generator[Any, Any, Any]:
    found = yield step("fetch").python(lambda: [1, 2, 3])
    return (yield step("total").subworkflow(inner, rows=found))


@workflow("writes")
def writes() -> Generator[Any, Any, Any]:
    return (yield step("write").python(_write).outputs("out.txt"))


@workflow("review")
def review() -> Generator[Any, Any, Any]:
    return (yield ask("publish?", returns=bool, name="publish", assignees=["ann"]))


@workflow("color")
def color() -> Generator[Any, Any, Any]:
    return (yield ask("which color?", choices=["red", "blue"], show={"password": "hunter2"}))


@workflow("broken")
def broken() -> Generator[Any, Any, Any]:
    yield step("fail").python(_fail)


def _write() -> None:
    Path("out.txt").write_text("high water")


def _fail() -> None:
    raise RuntimeError("no such table")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)


@pytest.fixture
def filled(tmp_path: Path, cp: SyncCheckpointer) -> Iterator[SyncCheckpointer]:
    """A store with runs of all kinds."""
    engine = hf.Engine(tmp_path / "runs.db")
    cp.save("plain", {"n": 1, "rows": [1]}, step="one", owner="ann", thread_id="t")
    cp.save("plain", {"n": 2, "rows": [1, 2]}, step="two", metadata={"tag": "x"})
    cp.fork("plain", seq=1, run_id="forked")
    cp.save("a/b%ü?#&=+ '\"<i>", {"n": 1})
    engine.run_sync(etl("monday"), run_id="etl-1", labels={"team": "blue"})
    engine.run_sync(writes(), run_id="writes-1")
    engine.submit_sync(etl("tuesday"), run_id="later")
    for call, name in ((review(), "review-1"), (color(), "color-1")):
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(call, run_id=name)
    with pytest.raises(hf.StepFailedError):
        engine.run_sync(broken(), run_id="broken-1")
    yield cp
    engine.close_sync()


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """What the command line prints as JSON, document by document."""

    def call(*arguments: str) -> list[Any]:
        store = f"--store={tmp_path}/runs.db"
        done = CliRunner().invoke(holdfast, [arguments[0], store, "--json", *arguments[1:]])
        assert done.exit_code in (0, 1), done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    return call


@pytest.fixture
def api(filled: SyncCheckpointer, serving: Serving) -> Callable[..., Any]:
    """What the API answers."""
    client = serving(allow_writes=True)

    def get(path: str, **query: Any) -> Any:
        answer = client.get(f"{API}{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return get


@pytest.fixture
def writing(filled: SyncCheckpointer, serving: Serving) -> TestClient:
    return serving(allow_writes=True)
