"""How drafts get into a journal, and what is asked of the store on the way."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.codec import envelope
from holdfast.codec.meta import dump_meta
from holdfast.kernel.appending import append, append_at, append_if, is_durable, submit
from holdfast.kernel.draft import Draft
from holdfast.model import Entry, Kind, Status
from holdfast.stores import MemoryStore

BIG = {"text": "kelp " * 4000}


class Counting(MemoryStore):
    """Counts how often a run's head was read."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = 0

    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = 500,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        self.heads += newest_first and limit <= 2  # with the one before, which proves it
        return super().read(run, after=after, limit=limit, newest_first=newest_first, bodies=bodies)


def opening(**meta: str) -> Draft:
    return Draft(Kind.OPEN.value, Status.RUNNING.value, parent=None, meta=dump_meta(meta))


def test_loading_reads_the_head_once() -> None:
    store = Counting()
    cp = hf.SyncCheckpointer(store)
    cp.save("run", {"n": 1})
    store.heads = 0
    assert cp.load("run") is not None
    assert store.heads == 1


def test_deciding_about_the_head_reads_it_once() -> None:
    store = Counting()
    core = hf.SyncCheckpointer(store).core
    core.drive(append(core, "run", opening()))
    store.heads = 0
    asked: list[Entry | None] = []

    def decide(head: Entry | None) -> Draft:
        asked.append(head)
        return Draft(Kind.REQUEST.value, Status.RUNNING.value)

    entry = core.drive(append_if(core, "run", decide))
    assert (entry.seq, store.heads, len(asked)) == (1, 1, 1)


def test_an_append_at_a_seq_that_is_not_the_head_writes_nothing(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        cp.core.drive(append(cp.core, "run", opening()))
        draft = Draft(Kind.CLAIM.value, Status.RUNNING.value)
        assert cp.core.drive(append_at(cp.core, "run", 5, [draft])) is None
        assert cp.core.drive(append_at(cp.core, "gone", 0, [draft])) is None
        claimed = cp.core.drive(append_at(cp.core, "run", 0, [draft]))
        assert claimed is not None
        assert [e.seq for e in cp.store.read("run")] == [0, 1]


@pytest.mark.parametrize("results", [0, 1, 3])
def test_after_a_restart_a_large_state_is_still_saved_as_a_change(
    tmp_path: Path, results: int
) -> None:
    """Results that follow the last checkpoint do not hide it."""
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", BIG | {"n": 1})
        for n in range(results):
            value = cp.core.journals.encode(n)
            draft = Draft(Kind.RESULT.value, Status.OPEN.value, value, step=f"step-{n}")
            cp.core.drive(append(cp.core, "run", draft))
    with hf.SyncCheckpointer(path) as cp:
        saved = cp.save("run", BIG | {"n": 2})
        (entry,) = cp.store.read("run", after=saved.seq - 1)
        assert envelope.glance(entry).is_delta
    with hf.SyncCheckpointer(path) as cp:
        loaded = cp.load("run")
        assert loaded is not None
        assert loaded.state == BIG | {"n": 2}


def test_a_fork_does_not_join_a_run_that_someone_else_just_opened(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        cp.save("source", {"n": 1})
        cp.core.drive(append(cp.core, "taken", opening()))
        with pytest.raises(hf.RunExistsError):
            cp.fork("source", run_id="taken")
        assert [e.kind for e in cp.store.read("taken")] == [Kind.OPEN]


def test_a_fork_of_which_only_the_opening_survived_is_completed(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        saved = cp.save("source", {"n": 1})
        cp.core.drive(append(cp.core, "copy", opening(origin=saved.checkpoint_id)))
        assert cp.fork("source", run_id="copy").state == {"n": 1}
        assert [e.kind for e in cp.store.read("copy")] == [Kind.OPEN, Kind.CHECKPOINT]


class Kept(list[Draft]):
    """Drafts that can be watched."""


def test_an_append_that_lost_its_place_keeps_nothing_until_the_collector_comes() -> None:
    """A stream that is dropped later would not be let go of: its frames are in the traceback."""
    core = hf.SyncCheckpointer(MemoryStore()).core
    drafts = Kept([opening()])
    watched = weakref.ref(drafts)
    gc.disable()
    try:
        assert core.drive(append_at(core, "run", 7, drafts)) is None
        del drafts
        assert watched() is None
    finally:
        gc.enable()


def test_a_large_state_follows_a_result_that_is_still_on_its_way(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as first:
        first.save("run", BIG)
    result = Draft(Kind.RESULT.value, Status.OPEN.value, step="s", meta=dump_meta({}))
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cold:
        core = cold.core
        encoding = core.journals.encode({"text": BIG["text"] + "more"})
        core.drive(submit(core, "run", result._replace(encoding=core.journals.encode(1))))
        state = Draft(Kind.CHECKPOINT.value, Status.OPEN.value, encoding)
        ticket = core.drive(submit(core, "run", state))
        core.drive(is_durable(ticket))
        loaded = cold.load("run")
        assert loaded is not None
        assert loaded.state["text"].endswith("more")
        assert len(ticket.entries[-1].body) < len(encoding) / 4, "a delta"
