"""Whole runs that Dask's workers execute."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

import holdfast as hf
from holdfast.integrations.dask import runs, submit
from holdfast.integrations.dask.flows import FlowName, name_of
from holdfast.integrations.dask.places import resolved
from holdfast.store import RunFilter
from holdfast.workflow import workflow
from tests.integrations.dask import flows
from tests.integrations.dask.conftest import kill
from tests.integrations.dask.flows import Port, Tally
from tests.waiting import wait_until


def status(url: str, run_id: str) -> str:
    with hf.Engine(url) as engine:
        return engine.status_sync(run_id)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_worker_executes_the_run_and_its_result_comes_back(client: Client, url: str) -> None:
    call, labels = flows.survey(Port("Brest")), {"team": "blue"}
    future = submit(client, call, run_id="brest", store=url, labels=labels)
    assert future.result() == Port("Brest", 3.0)
    with hf.SyncCheckpointer(url) as cp:
        (info,) = cp.runs()
        assert cp.store.listed(RunFilter(labels=("team=blue",)))
        assert (info.run_id, info.status, info.flow) == ("brest", "completed", "survey")


def test_graphs_are_executed_like_workflows(client: Client, url: str) -> None:
    assert submit(client, flows.counting(Tally(3)), run_id="g", store=url).result() == Tally(4)


def test_the_key_of_the_task_names_flow_and_run(client: Client, url: str) -> None:
    future = submit(client, flows.survey(Port("Brest")), run_id="brest", store=url)
    assert isinstance(future.key, tuple)
    assert future.key[:2] == ("holdfast:survey", "brest")
    future.result()


def test_a_completed_run_is_not_executed_again(
    client: Client, cluster: LocalCluster, url: str, tmp_path: Path
) -> None:
    notes, gate = tmp_path / "notes", tmp_path / "gate"
    gate.touch()
    call = flows.killed_between
    first = submit(client, call(str(notes), str(gate)), run_id="r", store=url).result()
    with Client(cluster.scheduler_address) as other:  # Dask has forgotten the first one by then
        assert submit(other, call(str(notes), str(gate)), run_id="r", store=url).result() == first
    assert lines(notes) == ["first", "last"]


def test_submitting_a_run_that_is_under_way_gives_the_same_task(
    client: Client, url: str, tmp_path: Path
) -> None:
    notes, gate = tmp_path / "notes", tmp_path / "gate"
    first = submit(client, flows.killed_between(str(notes), str(gate)), run_id="r", store=url)
    again = submit(client, flows.killed_between(str(notes), str(gate)), run_id="r", store=url)
    assert first.key == again.key
    gate.touch()
    assert first.result() == again.result()
    assert lines(notes) == ["first", "last"]


def test_a_run_whose_worker_is_killed_is_resumed_by_another(
    client: Client, url: str, tmp_path: Path
) -> None:
    notes, gate = tmp_path / "notes", tmp_path / "gate"
    future = submit(client, flows.killed_between(str(notes), str(gate)), run_id="r", store=url)
    began = tmp_path / "gate.pid"
    wait_until(began.exists)
    killed = int(began.read_text())
    kill(killed)
    gate.touch()
    first, pid = future.result(60)
    assert first == "first"
    assert pid != killed
    assert lines(notes) == ["first", "last"], "what is recorded does not run again"


def test_a_second_worker_waits_for_the_one_that_executes_the_run(
    client: Client, url: str, tmp_path: Path
) -> None:
    """As when Dask has lost the connection to a worker that lives."""
    notes, gate = tmp_path / "notes", tmp_path / "gate"
    call = flows.killed_between
    first = submit(client, call(str(notes), str(gate)), run_id="r", store=url)
    wait_until((tmp_path / "gate.pid").exists)
    same = str(tmp_path / "runs.db")  # another name of the store is another key for Dask
    second = submit(client, call(str(notes), str(gate)), run_id="r", store=same)
    assert first.key != second.key
    wait_until(lambda: len(client.processing()) == 2 and all(client.processing().values()))
    gate.touch()
    assert first.result(60) == second.result(60)
    assert lines(notes) == ["first", "last"]


def test_a_run_that_failed_is_resumed_when_it_is_submitted_again(
    client: Client, url: str, tmp_path: Path
) -> None:
    def submitted() -> Any:
        call = flows.fails_at_first(str(tmp_path / "mark"))
        return submit(client, call, run_id="r", store=url)

    failed = submitted()
    with pytest.raises(hf.StepFailedError, match="ValueError: not yet"):
        failed.result()
    assert submitted().result() == "done"


def test_a_run_that_waits_for_people_is_submitted_again_when_they_answered(
    client: Client, url: str
) -> None:
    paused = submit(client, flows.approved(), run_id="r", store=url)
    with pytest.raises(hf.RunPausedError):
        paused.result()
    with hf.Engine(url) as engine:
        engine.answer_sync("r", True)
    assert submit(client, flows.approved(), run_id="r", store=url).result() is True


def test_a_failed_step_is_described_where_its_error_is_unknown(client: Client, url: str) -> None:
    with pytest.raises(hf.StepFailedError, match="OddError: odd 1 2") as failed:
        submit(client, flows.failing(), run_id="r", store=url).result()
    assert "raise OddError(1, 2)" in failed.value.trace
    assert failed.value.__cause__ is None
    with pytest.raises(RuntimeError, match="OddError: odd 3 4"):
        submit(client, flows.failing_itself(), run_id="s", store=url).result()


def test_other_inputs_than_the_run_began_with_are_refused(
    client: Client, cluster: LocalCluster, url: str
) -> None:
    submit(client, flows.survey(Port("Brest")), run_id="r", store=url).result()
    with (
        Client(cluster.scheduler_address) as other,
        pytest.raises(hf.InputMismatchError, match="Brest"),
    ):
        submit(other, flows.survey(Port("Dover")), run_id="r", store=url).result()


def test_an_async_client_awaits_the_result(cluster: LocalCluster, url: str) -> None:
    async def use() -> Port:
        async with Client(cluster.scheduler_address, asynchronous=True) as client:
            call = flows.survey(Port("Dover"), times=1)
            result: Port = await submit(client, call, run_id="r", store=url)
            return result

    assert asyncio.run(use()) == Port("Dover", 1.5)


def test_workers_use_their_own_default_store_when_none_is_given(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use(where: str) -> None:
        import os

        os.environ["HOLDFAST_STORE"] = where

    client.run(use, url)
    monkeypatch.setenv("HOLDFAST_STORE", url)
    submit(client, flows.survey(Port("Brest")), run_id="r").result()
    assert status(url, "r") == "completed"


# --- what can't be executed


@pytest.fixture
def only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A flow in a module that this process can import, and workers can't."""
    code = """
        from holdfast.workflow import step, workflow

        @step
        def fail() -> None:
            raise ValueError("no")

        @workflow
        async def local() -> None:
            await fail()
    """
    place = tmp_path / "only"
    place.mkdir()
    (place / "only_here.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(str(place))
    import only_here  # type: ignore[import-not-found]

    yield only_here.local
    del sys.modules["only_here"]


def test_a_flow_that_the_worker_does_not_have_is_refused_and_the_run_stays(
    client: Client, url: str, only_here: Any
) -> None:
    with pytest.raises(hf.FlowMissingError, match="only_here:local can't be imported") as missing:
        submit(client, only_here(), run_id="new", store=url).result()
    assert "Dask worker tcp://" in str(missing.value)
    with hf.Engine(url) as engine:
        with pytest.raises(hf.StepFailedError):
            engine.run_sync(only_here(), run_id="old")
        before = engine.checkpointer.store.last("old")
        with pytest.raises(hf.FlowMissingError):
            submit(client, only_here(), run_id="old", store=url).result()
        assert engine.checkpointer.store.last("old") == before
        assert engine.checkpointer.store.last("new") is None


def test_a_worker_with_another_version_of_the_flow_refuses_it() -> None:
    name = name_of(flows.survey)
    assert name == FlowName("survey", "1", "tests.integrations.dask.flows", "survey")
    assert name.load("here") is flows.survey
    with pytest.raises(hf.FlowMissingError, match="it is version 1 there, and version 2 is wanted"):
        name._replace(version="2").load("here")
    with pytest.raises(hf.FlowMissingError, match="it is <workflow 'survey'"):
        name._replace(flow="other").load("here")
    with pytest.raises(hf.FlowMissingError, match="defined in the program itself"):
        name._replace(module="__main__").load("here")


def test_a_flow_without_a_name_of_its_own_is_refused_at_once(client: Client, url: str) -> None:
    @workflow
    async def local() -> None: ...

    with pytest.raises(ValueError, match="at the top level of a module"):
        submit(client, local(), run_id="r", store=url)


def test_a_run_on_a_worker_may_not_wait_for_steps_on_the_same_workers(
    client: Client, url: str
) -> None:
    with hf.Engine(url) as engine:
        assert engine.run_sync(flows.spreading({}), run_id="here") == [4, 9]
    with pytest.raises(hf.StepFailedError, match="give the steps workers of their own"):
        submit(client, flows.spreading({}), run_id="there", store=url).result()
    call = flows.spreading({"steps": 1})
    assert submit(client, call, run_id="apart", store=url).result() == [4, 9]


@pytest.mark.parametrize("store", ["memory://", "duckdb:///runs.duckdb"])
def test_a_store_of_one_process_is_refused_at_once(client: Client, store: str) -> None:
    with pytest.raises(hf.StoreURLError, match="only one process can use this store"):
        submit(client, flows.survey(Port("Brest")), run_id="r", store=store)


def test_a_file_of_another_machine_is_refused_before_anything_starts(
    client: Client, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "place_of", lambda _: "another boot 1 2 /there")
    with pytest.raises(
        hf.StoreURLError, match="a file of another machine than that of Dask worker"
    ):
        submit(client, flows.survey(Port("Brest")), run_id="r", store=url).result()
    assert not (tmp_path / "runs.db").exists()


def test_a_relative_path_is_the_same_file_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/tmp")
    assert (
        resolved("sqlite:///a b.db?survives=nothing") == "sqlite:////tmp/a%20b.db?survives=nothing"
    )
    assert resolved("runs.db") == "/tmp/runs.db"
    assert resolved("runs/") == "/tmp/runs/"
    for url in ("sqlite:////tmp/a.db", "file:///tmp/runs", "postgresql://me@host/db", "/tmp/a.db"):
        assert resolved(url) == url


def test_options_that_do_not_exist_are_refused_at_once(client: Client, url: str) -> None:
    call = flows.survey(Port("Brest"))
    with pytest.raises(TypeError, match="submit has no option 'timeouts'; did you mean 'timeout'"):
        submit(client, call, run_id="r", store=url, timeouts=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="call it with its inputs"):
        submit(client, flows.survey, run_id="r", store=url)  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidIdError):
        submit(client, call, run_id="", store=url)
    with pytest.raises(ValueError, match="dead_after"):
        submit(client, call, run_id="r", store=url, dead_after=0)
