"""What the store keeps for itself, its id and who is alive, is no run and nobody's data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.checkpoint import to_micros
from holdfast.codec.meta import Meta, dump_meta
from holdfast.kernel.draft import Draft
from holdfast.kernel.tip import Tip
from holdfast.model import STORE_JOURNAL, Entry, process_journal
from holdfast.store import Store
from holdfast.workflow import step, workflow
from tests.faults import FakeClock

OWN = (STORE_JOURNAL, process_journal(0), process_journal(17))


@step
def count() -> int:
    return 1


@workflow
async def part() -> int:
    return await count()


@workflow
async def whole() -> int:
    return await part()


def add_own(cp: hf.SyncCheckpointer) -> None:
    """Beats of two processes, each in place of the one before, and the id of the store."""
    journals = cp.core.journals
    for number in (0, 17):
        tip = Tip(process_journal(number), cp.store.last(process_journal(number)))
        for state in ("alive", "alive", "released"):
            facts = dump_meta({"nonce": "n", "state": state, "host": "ann"})
            beat = journals.place(tip, Draft("tombstone", "deleted", parent=None, meta=facts))
            assert cp.store.erase(beat)
            tip = Tip(beat.run, beat)
    if cp.store.last(STORE_JOURNAL) is None:
        named = Draft("open", "open", parent=None, meta=dump_meta({"birth": "the id"}))
        assert cp.store.append([journals.place(Tip(STORE_JOURNAL, None), named)]) == [True]


def own_of(store: Store) -> list[list[Entry]]:
    return [store.read(name) for name in OWN]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(to_micros(datetime(2026, 1, 1, tzinfo=UTC)))


@pytest.fixture
def kept(url: str, clock: FakeClock) -> Iterator[hf.SyncCheckpointer]:
    """A store with runs, and with journals of its own that must outlive the test unchanged."""
    policy = hf.Retention(run_ttl=timedelta(days=1))
    store = hf.open_store(url)
    with hf.SyncCheckpointer(store, clock=clock) as first:  # its end releases the slot it took
        hf.Engine(first).run_sync(whole(), run_id="x", owner="ann", thread_id="t")
    with hf.SyncCheckpointer(store, clock=clock, retention=policy) as cp:
        cp.save("y", 1)
        before = cp.stats(), cp.runs()
        add_own(cp)
        assert (cp.stats(), cp.runs()) == before
        own = own_of(cp.store)
        assert [len(entries) for entries in own] == [1, 1, 1]
        yield cp
        assert own_of(cp.store) == own
    store.close()


def test_no_list_shows_them(kept: hf.SyncCheckpointer) -> None:
    names = ["x", "x//part", "y"]
    assert sorted(run.run_id for run in kept.iter_runs()) == names
    for where in ({"status": "paused"}, {"status": "open"}, {"prefix": ""}, {"owner": "ann"}):
        assert {run.run_id for run in kept.runs(**where)} <= {*names}  # type: ignore[arg-type]
    assert [child.run_id for child in kept.children("x")] == ["x//part"]
    assert list(hf.Engine(kept).questions_sync()) == []
    assert hf.CheckpointManager(kept).steps_in_flight() == []


@pytest.mark.parametrize(
    "delete",
    [
        lambda cp: cp.forget(owner="ann"),
        lambda cp: cp.forget(thread_id="t"),
        lambda cp: cp.delete_thread("t"),
        lambda cp: cp.clear("x"),
        lambda cp: cp.apply_retention(),
    ],
)
def test_nothing_deletes_them(
    kept: hf.SyncCheckpointer, clock: FakeClock, delete: Callable[[hf.SyncCheckpointer], object]
) -> None:
    clock.advance(30 * 86_400)
    delete(kept)
    assert "x" not in [run.run_id for run in kept.runs()]


@pytest.mark.parametrize("target", ["memory", "sqlite"])
def test_a_copy_has_its_own(kept: hf.SyncCheckpointer, target: str, tmp_path: Path) -> None:
    where = "memory://" if target == "memory" else f"sqlite:///{tmp_path}/copy.db"
    with hf.SyncCheckpointer(where) as other:
        assert kept.copy_to(other.store) == 3
        assert own_of(other.store) == [[], [], []]
        add_own(other)
        own = own_of(other.store)
        assert kept.copy_to(other.store) == 3
        assert own_of(other.store) == own


def test_an_export_has_none_and_an_import_takes_none(
    kept: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    names = [run.run_id for run in kept.runs()]
    path = tmp_path / "all.jsonl"
    kept.export_runs(names, path)
    assert "process" not in path.read_text()
    named = kept.store.last(STORE_JOURNAL)
    assert named is not None
    assert str(Meta(named).birth) not in path.read_text()
    with hf.SyncCheckpointer("memory://") as other:
        assert other.import_runs(path) == names
        assert own_of(other.store) == [[], [], []]


@pytest.mark.parametrize("name", OWN)
def test_nobody_can_name_them(kept: hf.SyncCheckpointer, name: str, tmp_path: Path) -> None:
    for act in (kept.run, kept.verify, kept.clear, kept.timeline, kept.children, kept.retain):
        with pytest.raises(hf.InvalidIdError):
            act(name)
    with pytest.raises(hf.InvalidIdError):
        kept.forget(run_id=name)
    with pytest.raises(hf.InvalidIdError):
        kept.copy_to("memory://", [name])
    forged = tmp_path / "forged.jsonl"
    kept.export_run("y", forged)
    *lines, end = [json.loads(line) for line in forged.read_text().splitlines()]
    for line in lines[1:]:
        line["run"] = name
    text = "".join(json.dumps(line) + "\n" for line in lines)
    end["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    forged.write_text(text + json.dumps(end) + "\n")
    with pytest.raises(ValueError, match=r"forged.jsonl:2: .*control character"):
        kept.import_run(forged)


def test_every_run_verifies_beside_them(kept: hf.SyncCheckpointer) -> None:
    for run in kept.runs():
        assert kept.verify(run.run_id).ok
