"""A paused run says why it is paused."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.meta import Meta
from holdfast.model import Kind
from holdfast.views.pauses import Pause, pause_of
from holdfast.workflow import ask, step, workflow


@workflow("asking")
def asking() -> Generator[Any, Any, Any]:
    return (yield ask("well?"))


@workflow("parent")
def parent() -> Generator[Any, Any, Any]:
    return (yield step("child").subworkflow(asking))


@workflow("quick")
def quick() -> Generator[Any, Any, Any]:
    return (yield step("one").python(lambda: 1))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[hf.Engine]:
    engine = hf.Engine(tmp_path / "runs.db")
    yield engine
    engine.close_sync()


def why(tmp_path: Path, run_id: str) -> str:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        found = cp.run(run_id)
        assert found is not None
        return str(pause_of(cp, found))


def test_a_run_that_asks_says_so_and_so_does_its_parent(engine: hf.Engine, tmp_path: Path) -> None:
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(parent(), run_id="p")
    assert why(tmp_path, "p") == "waits for a child run"
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(asking(), run_id="a")
    assert why(tmp_path, "a") == "asks a person"


def test_a_run_that_somebody_paused_says_who_and_why(engine: hf.Engine, tmp_path: Path) -> None:
    engine.submit_sync(quick(), run_id="q", delay=timedelta(hours=1))
    assert why(tmp_path, "q") == "None", "it is not paused"
    engine.pause_sync("q", "lunch", by="ann")
    assert why(tmp_path, "q") == "paused by ann: lunch"
    engine.submit_sync(quick(), run_id="q2")
    engine.pause_sync("q2")
    assert why(tmp_path, "q2") == "was paused"


def test_a_run_that_its_process_paused_says_who_asked_for_it(
    engine: hf.Engine, tmp_path: Path
) -> None:
    def meanwhile() -> None:
        engine.pause_sync("w", by="bob")

    @workflow("two")
    def two() -> Generator[Any, Any, Any]:
        yield step("first").python(meanwhile)
        yield step("second").python(lambda: 2)

    with pytest.raises(hf.RunPausedError):
        engine.run_sync(two(), run_id="w")
    assert why(tmp_path, "w") == "paused by bob"


def test_every_pause_that_somebody_asked_for_is_recorded_in_the_same_way(
    engine: hf.Engine, tmp_path: Path
) -> None:
    @workflow("three")
    def three() -> Generator[Any, Any, Any]:
        yield step("first").python(lambda: engine.pause_sync("w", by="bob"))
        yield step("second").python(lambda: 2)
        return (yield ask("well?"))

    with pytest.raises(hf.RunPausedError):
        engine.run_sync(three(), run_id="w")
    assert why(tmp_path, "w") == "paused by bob"
    with pytest.raises(hf.RunPausedError):
        engine.resume_sync("w")
    engine.pause_sync("w")
    assert why(tmp_path, "w") == "was paused", "not by bob, who did that before"
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        pauses = [Meta(e) for e in cp.core.journals.trail("w") if e.kind == Kind.PAUSE]
    assert [pause.action for pause in pauses] == ["pause", "pause"]
    assert [pause.waits_for for pause in pauses] == [None, None]


def test_a_run_that_sleeps_says_until_when() -> None:
    when = datetime(2026, 11, 19, 10).astimezone()
    assert str(Pause("timer", until=when)) == "sleeps until 2026-11-19 10:00:00"
