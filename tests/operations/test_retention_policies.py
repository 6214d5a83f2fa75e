"""Several retention policies: each run has one, by its owner, thread, flow and status."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoint import to_micros
from holdfast.operations import retention
from holdfast.workflow import step, workflow
from tests.faults import FakeClock

DAY = 86_400
WEEK = timedelta(days=7)


@step
def count() -> int:
    return 1


@step
def fails() -> int:
    raise ValueError("no")


@workflow
async def part() -> int:
    return await count()


@workflow
async def etl(*, ends_well: bool = True) -> int:
    return await (part() if ends_well else fails())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(to_micros(datetime(2026, 1, 1, tzinfo=UTC)))


@pytest.fixture
def filled(url: str, clock: FakeClock) -> Iterator[hf.Store]:
    store = hf.open_store(url)
    with hf.SyncCheckpointer(store, clock=clock) as cp:
        cp.save("ann-1", 1, owner="ann", thread_id="t")
        cp.save("bob-1", 1, owner="bob", thread_id="t")
        cp.save("bob-2", 1, owner="bob")
        cp.save("waiting", 1, owner="bob", status="paused")
        engine = hf.Engine(cp)
        engine.run_sync(etl(), run_id="good")
        with pytest.raises(hf.StepFailedError):
            engine.run_sync(etl(ends_well=False), run_id="bad")
    yield store
    store.close()


def left_by(store: hf.Store, clock: FakeClock, *policies: hf.Retention) -> set[str]:
    clock.advance(30 * DAY)
    with hf.SyncCheckpointer(store, clock=clock, retention=policies) as cp:
        would = {run.run_id for run in cp.runs() if cp.retain(run.run_id, dry_run=True).whole}
        before = {run.run_id for run in cp.runs()}
        cp.apply_retention()
        left = {run.run_id for run in cp.runs()}
        assert would == {run for run in before - left if "//" not in run}
    return left


ALL = {"ann-1", "bob-1", "bob-2", "waiting", "good", "good//part", "bad"}


@pytest.mark.parametrize(
    ("which", "gone"),
    [
        ({"owner": "ann"}, {"ann-1"}),
        ({"owner": "bob"}, {"bob-1", "bob-2"}),
        ({"thread_id": "t", "owner": "bob"}, {"bob-1"}),
        ({"flow": "etl"}, {"good", "good//part", "bad"}),
        ({"flow": "etl", "status": "completed"}, {"good", "good//part"}),
        ({"status": ("failed", "open"), "owner": "bob"}, {"bob-1", "bob-2"}),
        ({"flow": "part"}, set()),
        ({}, ALL - {"waiting"}),
    ],
)
def test_a_policy_applies_to_the_runs_that_match_all_it_names(
    filled: hf.Store, clock: FakeClock, which: dict[str, Any], gone: set[str]
) -> None:
    assert left_by(filled, clock, hf.Retention(run_ttl=WEEK, **which)) == ALL - gone


def test_the_first_policy_that_matches_decides_alone(filled: hf.Store, clock: FakeClock) -> None:
    left = left_by(
        filled,
        clock,
        hf.Retention(owner="ann", keep_all=True),
        hf.Retention(flow="etl", status="failed", run_ttl=timedelta(days=90)),
        hf.Retention(run_ttl=WEEK),
    )
    assert left == {"ann-1", "bad", "waiting"}


def test_each_policy_has_its_own_archive(
    filled: hf.Store, clock: FakeClock, tmp_path: Path
) -> None:
    left_by(
        filled,
        clock,
        hf.Retention(owner="ann", run_ttl=WEEK, archive=tmp_path / "ann"),
        hf.Retention(flow="etl", run_ttl=WEEK, archive=tmp_path / "etl"),
    )
    assert [file.name.partition("@")[0] for file in (tmp_path / "ann").iterdir()] == ["ann-1"]
    with hf.SyncCheckpointer("memory://") as other:
        for file in (tmp_path / "etl").iterdir():
            other.import_run(file)
        assert {run.run_id for run in other.runs()} == {"good", "good//part", "bad"}


def test_checkpoints_of_a_child_run_follow_the_policy_of_its_parent(url: str) -> None:
    policies = [hf.Retention(flow="part", keep_all=True), hf.Retention(flow="etl", keep_latest=1)]
    with hf.SyncCheckpointer(url, retention=policies) as cp:
        hf.Engine(cp).run_sync(etl(), run_id="good")
        head = cp.core.journals.head("good//part")
        assert head is not None
        assert retention.policy_of(cp.core, head) is policies[1]


def test_a_policy_that_can_never_apply_is_refused() -> None:
    everything = hf.Retention(keep_latest=1)
    with pytest.raises(ValueError, match="put it last"):
        hf.SyncCheckpointer("memory://", retention=[everything, hf.Retention(keep_latest=2)])
    for wrong in ("running", "paused", "submitted", "no such"):
        with pytest.raises(ValueError, match="deletes only runs that are open, failed"):
            hf.Retention(keep_latest=1, status=wrong)
    with pytest.raises(ValueError, match="keep_all=True keeps everything"):
        hf.Retention(keep_latest=1, keep_all=True)
    with pytest.raises(hf.InvalidIdError):
        hf.Retention(keep_latest=1, owner="")
    with pytest.raises(TypeError, match="list of them"):
        hf.SyncCheckpointer("memory://", retention="30d")  # type: ignore[arg-type]


def test_an_engine_applies_retention_while_it_executes_runs(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "SWEEP_EVERY", 4)
    policy = hf.Retention(flow="etl", status="completed", run_ttl=WEEK)
    with hf.SyncCheckpointer("memory://", clock=clock, retention=policy) as cp:
        engine = hf.Engine(cp)
        engine.run_sync(etl(), run_id="old")
        clock.advance(30 * DAY)
        for n in range(3):
            engine.run_sync(etl(), run_id=f"new-{n}")
        assert {run.run_id for run in cp.runs(roots=True)} == {"new-0", "new-1", "new-2"}


def test_policies_are_read_from_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "pyproject.toml"
    monkeypatch.chdir(tmp_path)
    assert hf.Retention.configured() == []
    project.write_text(
        "[[tool.holdfast.retention]]\nowner = 'ann'\nkeep_all = true\n"
        "[[tool.holdfast.retention]]\nstatus = ['failed']\nrun_ttl = '90d'\nkeep_latest = 2\n"
    )
    assert hf.Retention.configured() == [
        hf.Retention(owner="ann", keep_all=True),
        hf.Retention(status="failed", run_ttl=timedelta(days=90), keep_latest=2),
    ]
    for wrong, why in (
        ("ttl = '3d'", "has no 'ttl'"),
        ("run_ttl = 'soon'", "not a length of time"),
        ("keep_latest = true", "can't be True"),
        ("status = 'paused'\nkeep_latest = 1", "can't be 'paused'"),
        ("keep_latest = 1\n[[tool.holdfast.retention]]\nkeep_latest = 2", "put it last"),
    ):
        project.write_text(f"[[tool.holdfast.retention]]\n{wrong}\n")
        with pytest.raises(ValueError, match=why) as caught:
            hf.Retention.configured()
        assert "pyproject.toml: retention" in str(caught.value)
