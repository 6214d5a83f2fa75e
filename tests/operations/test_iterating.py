"""Iterators over runs, checkpoints and states: a page at a time, and states in one pass."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.codec import chain, delta, envelope
from holdfast.heads import RunHead
from holdfast.kernel import pages, rewriting
from holdfast.model import Entry
from holdfast.operations import iterating
from holdfast.store import PAGE, RunFilter
from holdfast.stores import MemoryStore
from holdfast.workflow import step, workflow
from tests.conftest import Grow
from tests.effort import examples

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["save", "save", "go back", "delete", "prune"]), st.integers(0, 99)),
    min_size=5,
    max_size=40,
)


class Counting(MemoryStore):
    """Counts the pages that are read, and the entries with their bodies."""

    pages = bodies = 0

    def read(self, run: str, **how: Any) -> list[Entry]:
        found = super().read(run, **how)
        self.pages += 1
        self.bodies += len(found) if how.get("bodies", True) else 0
        return found

    def listed(self, where: RunFilter = RunFilter(), **how: Any) -> list[tuple[RunHead, Entry]]:
        self.pages += 1
        return super().listed(where, **how)


class Interrupted(MemoryStore):
    """Something happens before one of its reads."""

    reads_left = 0
    then: Callable[[], object]

    def read(self, run: str, **how: Any) -> list[Entry]:
        self.reads_left -= 1
        if self.reads_left == 0:
            self.then()
        return super().read(run, **how)


def big(n: int) -> dict[str, Any]:
    """A state that is stored as a change to the one before it."""
    return {"n": n, "log": [f"line {i:06}" for i in range(800 + n)]}


def test_iterators_give_what_lists_give(cp: hf.SyncCheckpointer) -> None:
    for n in range(7):
        cp.save(
            "run", n, step=f"s{n % 2}", type=f"t{n % 3}", status="failed" if n == 3 else "paused"
        )
        cp.save(f"other-{n}", n, owner="ann" if n % 2 else "bob")
    with (
        patch("holdfast.operations.iterating.PAGE", 2),
        patch("holdfast.operations.listing.PAGE", 2),
    ):
        for where in ({}, {"owner": "ann"}, {"prefix": "other"}, {"after": "other-4"}):
            assert list(cp.iter_runs(**where)) == cp.runs(**where)  # type: ignore[arg-type]
        for which in (
            {},
            {"step": "s1"},
            {"after": 4},
            {"oldest_first": True},
            {"status": "failed"},
        ):
            listed = cp.list_checkpoints("run", **which)
            assert list(cp.iter_checkpoints("run", **which)) == listed
    assert list(cp.iter_checkpoints("nowhere")) == []
    assert list(cp.iter_states("nowhere")) == []


def test_async_iterators_give_the_same(url: str) -> None:
    async def main() -> None:
        async with hf.Checkpointer(url) as cp:
            await cp.save_many({"run_id": f"run-{n}", "state": n} for n in range(5))
            for n in range(5):
                await cp.save("run-0", big(n))
            assert [run async for run in cp.iter_runs()] == await cp.runs()
            listed = await cp.list_checkpoints("run-0")
            assert [info async for info in cp.iter_checkpoints("run-0")] == listed
            states = [checkpoint.state async for checkpoint in cp.iter_states("run-0")]
            assert states == [0, *map(big, range(5))]
            async for run in cp.iter_runs():  # leaving early is fine
                assert run.run_id == "run-4"
                break

    asyncio.run(main())


def test_an_iterator_reads_a_page_at_a_time() -> None:
    store = Counting()
    with hf.SyncCheckpointer(store) as cp:
        cp.save_many({"run_id": f"run-{n:04}", "state": n} for n in range(PAGE + 10))
        cp.save_many({"run_id": "long", "state": n} for n in range(PAGE + 10))
        for iterator in (cp.iter_runs(), cp.iter_checkpoints("long")):
            store.pages = 0
            assert len(list(islice(iterator, PAGE))) == PAGE
            assert store.pages == 1
            assert list(iterator)
            assert store.pages == 2


def test_arguments_are_checked_before_the_first_page_is_read() -> None:
    cp = hf.SyncCheckpointer("memory://")
    with pytest.raises(ValueError, match="status must be one of"):
        cp.iter_runs(status="resting")
    with pytest.raises(ValueError, match="status must be"):
        cp.iter_checkpoints("run", status="resting")
    with pytest.raises(hf.InvalidIdError):
        cp.iter_checkpoints("")
    with pytest.raises(hf.InvalidIdError):
        cp.iter_states("")
    with pytest.raises(TypeError, match="after must be an int"):
        cp.iter_states("run", after="1")  # type: ignore[call-overload]
    cp.close()
    with pytest.raises(hf.StoreClosedError):
        cp.iter_runs()


def test_an_iterator_sees_what_was_saved_before_though_it_is_not_durable_yet() -> None:
    with hf.SyncCheckpointer("memory://", durability="async") as cp:
        for n in range(10):
            cp.save("run", n)
        assert [checkpoint.state for checkpoint in cp.iter_states("run")] == list(range(10))

    async def main() -> None:
        async with hf.Checkpointer("memory://", durability="exit") as cp:
            for n in range(10):
                await cp.save("run", n)
            assert [checkpoint.state async for checkpoint in cp.iter_states("run")][-1] == 9

    asyncio.run(main())


def test_an_outage_while_iterating_is_never_the_end_of_the_list() -> None:
    class Failing(MemoryStore):
        down = False

        def listed(self, where: RunFilter = RunFilter(), **how: Any) -> list[tuple[RunHead, Entry]]:
            if self.down:
                raise hf.StoreUnavailableError("the server went away")
            return super().listed(where, **how)

    store = Failing()
    with hf.SyncCheckpointer(store) as cp:
        cp.save_many({"run_id": f"run-{n:04}", "state": n} for n in range(PAGE + 10))
        iterator = cp.iter_runs()
        next(iterator)
        store.down = True
        with pytest.raises(hf.CheckpointLoadError, match="went away"):
            list(iterator)


def test_the_states_of_a_run_come_oldest_first(cp: hf.SyncCheckpointer, grow: Grow) -> None:
    saved = grow("run", 30)
    found = list(cp.iter_states("run"))
    assert [checkpoint.state for checkpoint in found] == [checkpoint.state for checkpoint in saved]
    assert [checkpoint.step for checkpoint in found] == [f"s{n}" for n in range(30)]
    assert [checkpoint.seq for checkpoint in cp.iter_states("run", after=25)] == list(range(26, 31))


def test_all_states_of_a_run_cost_one_pass_over_its_journal() -> None:
    """Each entry is read once, and each change applied once, however long the run is."""
    store = Counting()
    saves = 1000
    with hf.SyncCheckpointer(store) as cp:
        for n in range(saves):
            cp.save("run", big(n))
    with hf.SyncCheckpointer(store) as cp:
        store.bodies = store.pages = 0
        with (
            patch.object(delta, "apply", side_effect=delta.apply) as applied,
            patch.object(envelope, "unseal", side_effect=envelope.unseal) as unsealed,
        ):
            found = [checkpoint.state["n"] for checkpoint in cp.iter_states("run")]
        assert found == list(range(saves))
        entries = saves + 1  # with the one that opened the run
        assert store.bodies == entries + 2  # and its head, with the one before
        assert unsealed.call_count == saves
        assert applied.call_count < saves
        store.bodies = 0
        _ = [cp.load("run", seq=seq) for seq in range(1, saves, 10)]
        assert store.bodies > 3 * entries, "a tenth of them, loaded one by one, costs more"


def test_exports_and_copies_cost_one_pass_too(tmp_path: Path) -> None:
    store = Counting()
    with hf.SyncCheckpointer(store) as cp:
        for n in range(300):
            cp.save("run", big(n))
        exports: list[Callable[[], int]] = [
            lambda: cp.export_run("run", tmp_path / "run.jsonl"),
            lambda: cp.export_checkpoints(tmp_path / "table.jsonl"),
            lambda: 300 * cp.copy_to(f"file://{tmp_path}/runs"),  # as JSON: each state is whole
        ]
        for export in exports:
            store.bodies = 0
            assert export() >= 300
            assert store.bodies <= 301 + 2
        with hf.SyncCheckpointer("memory://") as other:
            other.import_run(tmp_path / "run.jsonl")
            assert [c.state["n"] for c in other.iter_states("run")] == list(range(300))


def test_what_a_rollback_left_behind_is_left_out_unless_it_is_asked_for(
    cp: hf.SyncCheckpointer, grow: Grow
) -> None:
    grow("run", 10)
    cp.rollback("run", seq=4)
    back = cp.save("run", big(50))
    cp.rollback("run", seq=7)  # on the branch that was left
    last = cp.save("run", big(70))
    assert [c.seq for c in cp.iter_states("run")] == [*range(1, 8), last.seq]
    every = list(cp.iter_states("run", left_behind=True))
    assert [c.seq for c in every] == [*range(1, 11), back.seq, last.seq]
    assert [c.state["n"] for c in every] == [*range(10), 50, 70]


@settings(max_examples=examples(60))
@given(ACTIONS, st.integers(1, 4), st.integers(0, 3), st.integers(0, 9))
def test_each_state_is_the_one_that_load_gives(
    actions: list[tuple[str, int]], links: int, spans: int, after: int
) -> None:
    """Wherever the run went back to, and whatever was deleted."""
    rng = random.Random(links)
    with (
        patch.multiple(chain, MAX_LINKS=links, MAX_SPANS=spans, SMALL_STATE=64),
        patch.object(rewriting, "SMALL_STATE", 64),
        hf.SyncCheckpointer("memory://") as cp,
    ):
        cp.save("run", ["first"] * 40)
        for what, number in actions:
            infos = cp.list_checkpoints("run", oldest_first=True)
            chosen = infos[number % len(infos)].seq
            current = cp.load("run")
            state = [] if current is None else current.state
            if what == "save":
                cp.save("run", [*state, *(f"{rng.getrandbits(64):x}" for _ in range(30))])
            elif what == "go back":
                cp.rollback("run", seq=chosen)
            elif what == "delete" and len(infos) > 1:
                cp.delete("run", seq=chosen)
            elif what == "prune" and current is not None:  # else nothing would be left
                cp.prune("run", keep_latest=1 + number % 9)
        loaded = {
            info.seq: cp.load("run", seq=info.seq)
            for info in cp.list_checkpoints("run", oldest_first=True)
        }
        expected = {seq: found.state for seq, found in loaded.items() if found}
        every = {c.seq: c.state for c in cp.iter_states("run", left_behind=True)}
        assert every == expected
        assert list(every) == sorted(every)
        branch = [entry.seq for entry in cp.core.journals.branch("run")][::-1]
        assert [c.seq for c in cp.iter_states("run")] == branch
        assert [c.seq for c in cp.iter_states("run", after=after)] == [
            s for s in branch if s > after
        ]
        assert all(c.state == expected[c.seq] for c in cp.iter_states("run", after=after))


def test_the_states_of_a_workflow_are_the_results_so_far(url: str) -> None:
    @step
    def read(place: str) -> list[str]:
        return [f"{place} {n}" for n in range(2000)]

    @workflow
    async def tides(places: list[str]) -> int:
        return sum([len(await read(place)) for place in places])

    with hf.SyncCheckpointer(url) as cp:
        engine = hf.Engine(cp)
        engine.run_sync(tides(places=["Brest", "Vigo", "Brest"]), run_id="run")
        found = list(cp.iter_states("run"))
        assert len(found) == 3
        for checkpoint in found:
            loaded = cp.load("run", seq=checkpoint.seq)
            assert loaded is not None
            assert list(checkpoint.state.items()) == list(loaded.state.items())
        assert [c.seq for c in cp.iter_states("run", after=found[0].seq)] == [
            c.seq for c in found[1:]
        ]
        again = list(cp.iter_states("run", after=found[0].seq))
        assert [c.state for c in again] == [c.state for c in found[1:]]


def test_states_come_back_as_the_type_asked_for(cp: hf.SyncCheckpointer) -> None:
    for n in range(3):
        cp.save("run", (n, str(n)))
    cp.save("run", "none")
    *good, bad = cp.iter_states("run", as_type=tuple[int, str])
    assert [c.state for c in good] == [(0, "0"), (1, "1"), (2, "2")]
    with pytest.raises(hf.ReviveError):  # only where one looks at it
        _ = bad.state


@pytest.mark.parametrize("change", ["body = zeroblob(50)", "parent = 2", "status = 'deleted'"])
def test_damage_is_raised_where_it_is_and_the_good_ones_around_it_are_given(
    tmp_path: Path, change: str
) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp, patch.object(chain, "REACH", 4):
        for n in range(12):
            cp.save("run", big(n))
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        db.execute(f"UPDATE holdfast_entries SET {change} WHERE run = 'run' AND seq = 6")
    found: list[int] = []
    damaged: list[int] = []
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        after: int | None = None
        while after != 12:
            try:
                for checkpoint in cp.iter_states("run", after=after, left_behind=True):
                    assert checkpoint.state == big(checkpoint.seq - 1)
                    found.append(checkpoint.seq)
                after = 12
            except hf.CheckpointCorruptedError as error:
                assert error.seq is not None
                damaged.append(after := error.seq)
        with pytest.raises(hf.CheckpointCorruptedError, match="run@6"):
            list(cp.iter_states("run"))
    assert damaged[0] == 6
    assert found[:5] == [1, 2, 3, 4, 5]
    assert sorted(found + damaged) == list(range(1, 13))
    assert found[-1] == 12, "a later state is stored whole again"


def test_what_others_delete_meanwhile_is_left_out() -> None:
    """What built on it was rewritten, and is read again."""
    for moment in range(1, 40):
        store = Interrupted()
        with (
            hf.SyncCheckpointer(store) as cp,
            patch.object(chain, "MAX_LINKS", 3),
            patch.object(iterating, "FEW", 2),
            patch.object(pages, "PAGE", 2),
        ):
            for n in range(12):
                cp.save("run", big(n))
            store.reads_left, store.then = moment, lambda: cp.prune("run", keep_latest=2)
            found = [(c.seq, c.state["n"]) for c in cp.iter_states("run")]
        assert found == [(seq, seq - 1) for seq, _ in found]
        assert found[-2:] == [(11, 10), (12, 11)]
        if store.reads_left > 0:
            return
    raise AssertionError("it never came to its end undisturbed")
