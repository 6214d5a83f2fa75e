"""New threads from others, and threads that are imported again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

import holdfast as hf
from holdfast.integrations.langgraph import HoldfastSaver, forking, thinning
from holdfast.integrations.langgraph.databases import sqlite
from holdfast.integrations.langgraph.importing import import_threads
from tests.integrations.langgraph.calls import checkpoint, got, put, thread, values_of


@pytest.fixture
def cp() -> hf.SyncCheckpointer:
    return hf.SyncCheckpointer("memory://")


def test_a_fork_ends_at_its_checkpoint_though_the_clock_went_back(cp: hf.SyncCheckpointer) -> None:
    saver = HoldfastSaver(cp)
    first = put(saver, thread(), 0, number=0)
    saver.put_writes(first, [("number", 1)], "task")
    later = put(saver, first, 9, number=9)
    put(saver, later, 5, number=5)  # its id is that of an earlier time
    forking.fork_thread(cp.core, "t", "fork", seq=3)
    assert values_of(saver.get_tuple(thread("fork"))) == {"number": 9}
    copied = got(saver.get_tuple(thread("fork", at=checkpoint(0)["id"])))
    assert copied.pending_writes == [("task", "number", 1)]


def test_a_thread_that_was_deleted_and_begun_again_can_be_forked(cp: hf.SyncCheckpointer) -> None:
    saver = HoldfastSaver(cp)
    for name in ("t", "fork"):
        put(saver, thread(name), 0, number=0)
        saver.delete_thread(name)
    put(saver, thread(), 1, number=1)
    forking.fork_thread(cp.core, "t", "fork")
    assert values_of(saver.get_tuple(thread("fork"))) == {"number": 1}


def test_a_fork_of_a_fork_has_the_history_of_the_fork(cp: hf.SyncCheckpointer) -> None:
    saver = HoldfastSaver(cp)
    put(saver, thread(), 0, number=0)
    cp.fork("t", run_id="fork")
    put(saver, thread("fork"), 1, number=1)
    forking.fork_thread(cp.core, "fork", "again")
    assert values_of(saver.get_tuple(thread("again"))) == {"number": 1}


def test_a_fork_never_appends_to_a_thread_that_somebody_began_meanwhile(
    cp: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = HoldfastSaver(cp)
    put(saver, thread(), 0, number=0)
    copy = thinning.copy_thread

    def overtaken(*what: Any, **how: Any) -> None:
        put(saver, thread("fork"), 1, number=1)
        copy(*what, **how)

    monkeypatch.setattr(forking, "copy_thread", overtaken)
    with pytest.raises(hf.RunExistsError):
        forking.fork_thread(cp.core, "t", "fork")
    assert [values_of(each) for each in saver.list(thread("fork"))] == [{"number": 1}]


def test_a_thread_that_was_deleted_is_imported_again(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    path = tmp_path / "langgraph.db"
    with SqliteSaver.from_conn_string(str(path)) as theirs:
        theirs.put(thread(), checkpoint(0, number=0), {"source": "loop", "step": 0}, {})
    saver = HoldfastSaver(cp)
    for _ in range(2):
        with sqlite.opened(str(path)) as source:
            assert [each.new for each in import_threads(cp.core, source)] == [1]
        assert values_of(saver.get_tuple(thread())) == {"number": 0}
        assert len(list(saver.list(None))) == 1
        saver.delete_thread("t")
