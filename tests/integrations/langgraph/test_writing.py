"""Writes that arrive late or again, and savers that are exclusive."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.writing import Appender
from holdfast.stores.memory import MemoryStore
from tests.integrations.langgraph.calls import checkpoint, got, put, thread, values_of


def test_a_checkpoint_that_is_put_again_keeps_its_writes() -> None:
    store = MemoryStore()
    saver = HoldfastSaver(store)
    config = put(saver, thread(), 0, number=0)
    saver.put_writes(config, [("number", 1)], "task-a")
    put(saver, thread(), 0, number=0)
    again = HoldfastSaver(store)
    assert got(again.get_tuple(thread())).pending_writes == [("task-a", "number", 1)]
    again.put_writes(config, [("number", 2)], "task-b")
    put(again, thread(), 0, number=0)
    expected = [("task-a", "number", 1), ("task-b", "number", 2)]
    for reader in (saver, again, HoldfastSaver(store)):
        assert got(reader.get_tuple(thread())).pending_writes == expected
        assert got(reader.get_tuple(config)).pending_writes == expected


def test_a_thread_that_was_deleted_may_have_the_same_checkpoints_again() -> None:
    saver = HoldfastSaver("memory://")
    config = put(saver, thread(), 0, number=0)
    saver.put_writes(config, [("number", 1)], "task")
    saver.delete_thread("t")
    put(saver, thread(), 0, number=0)
    assert got(saver.get_tuple(thread())).pending_writes == []


@pytest.mark.parametrize("by_id", [True, False])
def test_writes_before_their_checkpoint_are_found_though_it_was_read_meanwhile(
    by_id: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    other, saver = HoldfastSaver(store), HoldfastSaver(store)
    first = put(other, thread(), 0, number=0)
    early = thread(at=checkpoint(1)["id"])
    append = Appender._append_slowly  # of a saver that does not know the head yet

    def overtaken(*how: Any) -> Any:
        entry = yield from append(*how)
        monkeypatch.undo()  # the writes are stored, and their writer does not know it yet
        put(other, first, 1, number=1)
        saver.get_tuple(early if by_id else thread())
        return entry

    monkeypatch.setattr(Appender, "_append_slowly", overtaken)
    saver.put_writes(early, [("number", 2)], "task")
    for reader in (saver, HoldfastSaver(store)):
        assert got(reader.get_tuple(thread())).pending_writes == [("task", "number", 2)]


def test_an_exclusive_saver_also_takes_note_of_what_it_read_by_id() -> None:
    store = MemoryStore()
    one, two = HoldfastSaver(store, exclusive=True), HoldfastSaver(store)
    first = put(two, thread(), 0, number=0)
    one.get_tuple(first)
    put(two, first, 1, number=1)
    with pytest.raises(hf.SecondWriterError):
        put(one, first, 2, number=2)
    one.get_tuple(first)
    put(one, first, 2, number=2)
    assert values_of(two.get_tuple(thread())) == {"number": 2}


@pytest.mark.parametrize("by_id", [True, False])
def test_an_exclusive_saver_may_begin_a_deleted_thread_again(by_id: bool) -> None:
    saver = HoldfastSaver("memory://", exclusive=True)
    first = put(saver, thread(), 0, number=0)
    saver.delete_thread("t")
    assert saver.get_tuple(first if by_id else thread()) is None
    put(saver, thread(), 1, number=1)
    assert values_of(saver.get_tuple(thread())) == {"number": 1}
