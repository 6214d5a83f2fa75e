"""Lists of runs, their numbers, and statistics over time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoint import to_micros
from holdfast.operations.listing import last_known
from holdfast.stores import MemoryStore
from holdfast.testing.invariants import entry
from tests.faults import FakeClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def opened(store: MemoryStore, run: str, after: timedelta = timedelta(0), **fields: Any) -> None:
    given: dict[str, Any] = {"kind": "open", "status": "running", "at": to_micros(NOON + after)}
    assert store.append([entry(run, 0, **(given | fields))]) == [True]


def names(found: list[hf.RunInfo]) -> list[str]:
    return [run.run_id for run in found]


def test_runs_are_listed_by_when_they_were_started() -> None:
    store = MemoryStore()
    for hours, run in enumerate(("b", "c", "a")):
        opened(store, run, hours * HOUR)
    with hf.SyncCheckpointer(store) as cp:
        assert names(cp.runs()) == ["a", "c", "b"]
        assert names(cp.runs(since=NOON + HOUR)) == ["a", "c"]
        assert names(cp.runs(until=NOON + HOUR)) == ["b"]
        assert names(cp.runs(since=NOON + HOUR, until=NOON + 2 * HOUR)) == ["c"]
        assert names(cp.runs(after="a", limit=1)) == ["c"]
        assert cp.count_runs(since=NOON + HOUR) == {"running": 2}


def test_a_run_says_when_it_began_who_holds_it_and_what_it_waits_for() -> None:
    store = MemoryStore()
    facts = '{"labels":{"team":"blue","x":"a=b"},"holder":"3|n|host|place|17|s","questions":2}'
    opened(store, "run//part", meta=facts[:-1] + ',"parent":"run@part"}')
    store.append([entry("run//part", 1, term=0, status="running", step="fetch")])
    pause: dict[str, Any] = {"kind": "pause", "status": "paused", "step": None, "parent": 1}
    due = to_micros(NOON + HOUR)
    with hf.SyncCheckpointer(store) as cp:
        (run,) = cp.runs(labels={"team": "blue"}, asking=True)
        assert run == last_known(cp.core, "run//part")
        assert run.started_at == NOON
        assert run.labels == {"team": "blue", "x": "a=b"}
        assert (run.holder, run.questions, run.due_at) == ("host:17", 2, None)
        assert (run.parent_id, run.step) == ("run", "fetch")
        store.append([entry("run//part", 2, meta=f'{{"due":{due}}}', **pause)])
        (run,) = cp.runs()
        assert (run.holder, run.due_at, run.status) == (None, NOON + HOUR, "paused")
        assert run.step == "fetch", "the last one"
        assert cp.runs(roots=True) == cp.runs(labels={"team": "red"}) == []
        assert cp.count_runs(labels={"team": "blue"}, roots=True) == {}


def test_a_page_behind_a_deleted_run_is_an_error() -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        cp.save("a", 1)
        cp.clear("a")
        with pytest.raises(hf.CheckpointNotFoundError):
            cp.runs(after="a")


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ({"status": "resting"}, "status must be one of"),
        ({"status": ["open", "deleted"]}, "status must be one of"),
        ({"since": 5}, "since must be a datetime"),
        ({"labels": {"a=b": "c"}}, "no run can have the label"),
        ({"labels": {"a": 1}}, "no run can have the label"),
    ],
)
def test_a_filter_that_cant_be_meant_is_refused(where: dict[str, Any], error: str) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        for ask in (cp.runs, cp.count_runs, cp.iter_runs):
            with pytest.raises((ValueError, TypeError), match=error):
                ask(**where)


def test_statistics_have_every_hour() -> None:
    clock = FakeClock(to_micros(NOON))
    with hf.SyncCheckpointer("memory://", clock=clock) as cp:
        for n in range(10):
            cp.save(f"run-{n}", n, flow="etl" if n else "chat")
        clock.advance(2 * 3600)
        for n in range(8):
            cp.complete(f"run-{n}")
        cp.save("run-9", 1, status="failed")
        cp.clear("run-3")
        hours = cp.tally(NOON)
        assert [hour.start for hour in hours] == [NOON, NOON + HOUR]
        hours = cp.tally(NOON, NOON + 3 * HOUR)
        assert [hour.started for hour in hours] == [10, 0, 0]
        assert [hour.completed for hour in hours] == [0, 0, 8]
        assert [hour.failed for hour in hours] == [0, 0, 1]
        assert hours[1].mean is hours[1].median is None
        assert hours[2].mean == 2 * HOUR
        assert 2 * HOUR <= hours[2].median <= 4 * HOUR  # type: ignore[operator]
        assert [hour.started for hour in cp.tally(NOON, flow="chat")] == [1, 0]
        assert cp.tally(NOON, NOON) == []
        days = cp.tally(NOON, NOON + 3 * HOUR, hours=24)
        assert [day.start.hour for day in days] == [0]
        assert [(day.started, day.completed, day.failed) for day in days] == [(10, 8, 1)]
        with pytest.raises(ValueError, match="at least 1"):
            cp.tally(NOON, hours=0)


def test_a_run_that_ends_twice_is_counted_at_each_end() -> None:
    clock = FakeClock(to_micros(NOON))
    with hf.SyncCheckpointer("memory://", clock=clock) as cp:
        cp.save("run", 1)
        cp.complete("run")
        cp.rollback("run", seq=1)
        cp.complete("run")
        (hour,) = cp.tally(NOON, NOON + HOUR)
        assert (hour.started, hour.completed) == (1, 2)
        assert cp.count_runs() == {"completed": 1}


def test_a_timeline_is_read_in_pages_from_either_end(cp: hf.SyncCheckpointer) -> None:
    for n in range(9):
        cp.save("run", n, step=f"s{n}")
    cp.rollback("run", seq=3)
    cp.save("run", "again")
    whole = cp.timeline("run")
    assert cp.timeline("run", newest_first=True) == whole[::-1]
    for newest_first in (False, True):
        every = whole[::-1] if newest_first else whole
        found = page = cp.timeline("run", limit=2, newest_first=newest_first)
        while page:
            page = cp.timeline("run", after=page[-1].seq, limit=2, newest_first=newest_first)
            found = found + page
        waited = 0.0  # of the first on a page, it is not known without the one before
        assert [m._replace(waited=waited) for m in found] == [
            m._replace(waited=waited) for m in every
        ]
    assert cp.timeline("run", limit=0) == []
