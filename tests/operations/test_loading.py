from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.model import Entry
from holdfast.stores.memory import MemoryStore
from tests.conftest import Grow


@dataclass
class Invoice:
    number: int
    paid: bool = False


@dataclass
class Book:
    invoices: list[Invoice]
    closed: datetime | None = None


def test_what_does_not_exist_is_none(cp: hf.SyncCheckpointer) -> None:
    assert cp.load("run") is None
    cp.save("run", 1, step="a")
    assert cp.load("run", seq=99) is None
    assert cp.load("run", seq=0) is None, "the entry that opens a run is not a checkpoint"
    assert cp.load("run", step="b") is None
    assert cp.load("run", checkpoint_id="run@99") is None
    assert cp.load("run", checkpoint_id="other@1") is None
    assert cp.run("other") is None


def test_only_one_way_of_naming_a_checkpoint_at_a_time(cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(ValueError, match="at most one"):
        cp.load("run", seq=1, step="a")


def test_any_checkpoint_of_the_past_comes_back(cp: hf.SyncCheckpointer, grow: Grow) -> None:
    saved = grow("run", 30)
    for checkpoint in saved:
        loaded = cp.load("run", seq=checkpoint.seq)
        assert loaded is not None
        assert loaded.state == checkpoint.state
        assert cp.load("run", step=checkpoint.step) == checkpoint


def test_a_fresh_process_reads_the_same(kept_url: str) -> None:
    states = [{"n": n, "log": [f"entry {i:06}" for i in range(600 + n)]} for n in range(40)]
    with hf.SyncCheckpointer(kept_url) as writing:
        for state in states:
            writing.save("run", state)
    with hf.SyncCheckpointer(kept_url) as reading:
        loaded = [reading.load("run", seq=n + 1) for n in range(40)]
        assert [c.state for c in loaded if c] == states
        reading.save("run", states[-1] | {"n": 40})
        latest = reading.load("run")
        assert latest is not None
        assert latest.state["n"] == 40


def test_the_state_comes_back_as_the_type_asked_for(cp: hf.SyncCheckpointer) -> None:
    book = Book([Invoice(1), Invoice(2, paid=True)], datetime(2026, 1, 1, tzinfo=UTC))
    cp.save("run", book)
    plain = cp.load("run")
    typed = cp.load("run", as_type=Book)
    assert plain is not None
    assert typed is not None
    assert plain.state["invoices"][1] == {"number": 2, "paid": True}
    assert typed.state == book
    with pytest.raises(
        hf.ReviveError, match="expected list, found dict; correct the type, or load"
    ):
        cp.load("run", as_type=list[int])


def test_lists_are_newest_first_without_states_and_page_stably(cp: hf.SyncCheckpointer) -> None:
    seqs = [cp.save("run", n, step=f"s{n % 2}", type=f"t{n % 3}").seq for n in range(12)]
    assert [info.seq for info in cp.list_checkpoints("run", limit=5)] == seqs[:-6:-1]
    assert [info.seq for info in cp.list_checkpoints("run", limit=5, oldest_first=True)] == seqs[:5]
    first = cp.list_checkpoints("run", limit=5)
    cp.save("run", "meanwhile")
    second = cp.list_checkpoints("run", limit=5, after=first[-1].seq)
    assert [info.seq for info in (*first, *second)] == seqs[:1:-1]
    assert {info.step for info in cp.list_checkpoints("run", step="s1")} == {"s1"}
    assert len(cp.list_checkpoints("run", type="t2")) == 4
    assert not hasattr(first[0], "state")
    assert cp.list_checkpoints("nowhere") == []


def test_lists_filter_by_how_the_step_ended(cp: hf.SyncCheckpointer) -> None:
    cp.save("run", 1)
    cp.save("run", 2, status="failed")
    cp.save("run", 3, status="paused")
    assert [c.status for c in cp.list_checkpoints("run")] == ["paused", "failed", "completed"]
    assert [c.seq for c in cp.list_checkpoints("run", status="failed")] == [2]


def test_runs_are_found_by_what_they_are(cp: hf.SyncCheckpointer) -> None:
    cp.save("a", 1, flow="etl", owner="ann", type="llm_response")
    cp.save("b", 1, flow="etl", owner="bob", status="paused")
    cp.save("c", 1, flow="chat", owner="ann", status="failed")
    assert [run.run_id for run in cp.runs()] == ["c", "b", "a"]
    assert [run.run_id for run in cp.runs(flow="etl")] == ["b", "a"]
    assert [run.run_id for run in cp.runs(owner="ann")] == ["c", "a"]
    assert [run.run_id for run in cp.runs(status=["paused", "failed"])] == ["c", "b"]
    assert cp.count_runs() == {"open": 1, "paused": 1, "failed": 1}
    assert cp.count_runs(flow="etl") == {"open": 1, "paused": 1}
    assert [run.run_id for run in cp.runs(status="paused")] == ["b"]
    assert [run.run_id for run in cp.runs(type="llm_response")] == ["a"]
    assert [run.run_id for run in cp.runs(prefix="c")] == ["c"]
    assert [run.run_id for run in cp.runs(limit=2, after="c")] == ["b", "a"]
    run = cp.run("b")
    assert run is not None
    assert (run.status, run.flow, run.owner, run.seq) == ("paused", "etl", "bob", 1)


def test_stats_tell_what_is_stored_and_what_it_would_take_whole(
    cp: hf.SyncCheckpointer, grow: Grow
) -> None:
    grow("run", 20)
    cp.save("other", 1)
    stats, everything = cp.stats("run"), cp.stats()
    assert (stats.checkpoints, everything.checkpoints) == (20, 21)
    assert stats.oldest is not None
    assert everything.newest is not None
    assert stats.oldest <= everything.newest
    if cp.store.form == "packed":
        assert stats.stored_bytes < stats.state_bytes / 5, "states are stored as changes"


def test_an_outage_is_never_reported_as_nothing_there() -> None:
    class Down(MemoryStore):
        def read(self, run: str, **how: object) -> list[object]:  # type: ignore[override]
            raise hf.StoreUnavailableError("the server went away")

        def last(self, run: str) -> Entry | None:
            raise hf.StoreUnavailableError("the server went away")

    cp = hf.SyncCheckpointer(Down())
    with pytest.raises(hf.CheckpointLoadError, match="went away") as caught:
        cp.load("run")
    assert isinstance(caught.value, OSError)
    with pytest.raises(hf.CheckpointLoadError):
        cp.list_checkpoints("run")


def test_checkpoints_become_documents_and_come_back_exactly(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    saved = cp.save("run", {"t": (1, 2), "b": b"\x00"}, step="a", metadata={"k": (1,)}, owner="ann")
    document = json.loads(json.dumps(saved.to_dict()))
    again = hf.Checkpoint.from_dict(document)
    assert again == saved
    assert again.state == saved.state
    assert again.metadata == {"k": (1,)}
    info = cp.list_checkpoints("run")[0]
    assert hf.CheckpointInfo.from_dict(json.loads(json.dumps(info.to_dict()))) == info
    for broken in (
        {},
        {"holdfast": 1},
        document | {"holdfast": 2},
        document | {"seq": "x", "digest": 5},
    ):
        with pytest.raises(ValueError, match="JSON form"):
            hf.Checkpoint.from_dict(broken)


def test_another_flow_reads_the_latest_state_by_name(url: str) -> None:
    async def main() -> None:
        async with hf.Checkpointer(url) as cp:
            await cp.save("prices", {"eur": 1.1}, flow="prices")
            other = await cp.load("prices")
            assert other is not None
            await cp.save("orders", {"rate": other.state["eur"]}, flow="orders")
            orders = await cp.load("orders")
            assert orders is not None
            assert orders.state == {"rate": 1.1}

    asyncio.run(main())


def test_a_list_without_a_limit_has_everything(cp: hf.SyncCheckpointer) -> None:
    for n in range(25):
        cp.save("run", {"n": n})
        cp.save(f"run-{n}", {"n": n})
    assert [c.seq for c in cp.list_checkpoints("run")] == list(range(25, 0, -1))
    assert [c.seq for c in cp.list_checkpoints("run", limit=None)] == list(range(25, 0, -1))
    assert len(cp.runs()) == len(cp.runs(limit=None)) == 26
    assert len(cp.runs(prefix="run-", after="run-12")) == 12
    assert [run.run_id for run in cp.runs(limit=2)] == ["run-24", "run-23"]
    assert cp.runs(limit=0) == cp.list_checkpoints("run", limit=0) == []


@pytest.mark.parametrize("limit", [-1, 1.5, "20"])
def test_a_limit_that_is_no_number_of_things_is_refused(limit: Any) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        for listing in (cp.runs, partial(cp.list_checkpoints, "run")):
            with pytest.raises(ValueError, match="limit must be an int of 0 or more"):
                listing(limit=limit)


def test_a_step_is_found_although_an_older_file_is_damaged(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(f"file://{tmp_path}/runs") as cp:
        for name in "abcdefghijklmno":
            cp.save("run", f"data-{name}", step=name)
        (file,) = (
            path
            for path in tmp_path.rglob("*")
            if path.is_file() and "data-d" in path.read_text(errors="replace")
        )
        file.write_text(file.read_text().replace("data-d", "data-x"))
        for name in "efghijklmno":
            loaded = cp.load("run", step=name)
            assert loaded is not None
            assert loaded.state == f"data-{name}"
        for name in "abcd":  # the damaged one may be newer than what is found behind it
            with pytest.raises(hf.CheckpointCorruptedError, match="run@4 is damaged"):
                cp.load("run", step=name)
