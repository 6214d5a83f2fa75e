"""Whatever is done to a store by its own means is no alarm; whatever is done behind its back is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.kernel.reader import all_heads
from holdfast.model import STORE_JOURNAL, Entry, erases, is_passing
from holdfast.stores import MemoryStore
from tests.effort import examples

RUNS = ("a", "b", "c", "fork")

Act = Callable[[hf.SyncCheckpointer, str], Any]


def roll_back(cp: hf.SyncCheckpointer, run: str) -> None:
    cp.rollback(run, seq=cp.list_checkpoints(run)[-1].seq)


def delete_newest(cp: hf.SyncCheckpointer, run: str) -> None:
    cp.delete(run, seq=cp.list_checkpoints(run)[0].seq)


ACTS: dict[str, Act] = {
    "save": lambda cp, run: cp.save(run, {"n": len(run)}, thread_id="t"),
    "grow": lambda cp, run: cp.save(run, {"log": ["line"] * 900}, thread_id="t"),
    "fork": lambda cp, run: cp.fork(run, run_id="fork"),
    "complete": lambda cp, run: cp.complete(run),
    "roll back": roll_back,
    "delete": delete_newest,
    "prune": lambda cp, run: cp.prune(run, keep_latest=1),
    "clear": lambda cp, run: cp.clear(run),
    "forget": lambda cp, run: cp.forget(run_id=run),
    "delete thread": lambda cp, run: cp.delete_thread("t"),
}

acts = st.lists(st.tuples(st.sampled_from(sorted(ACTS)), st.sampled_from(RUNS)), max_size=12)


def do(cp: hf.SyncCheckpointer, what: list[tuple[str, str]]) -> None:
    for act, run in what:
        with suppress(hf.HoldfastError, IndexError):  # there is nothing to do that to
            ACTS[act](cp, run)


def journals(store: MemoryStore) -> dict[str, list[Entry]]:
    names = [head.run for head in all_heads(store) if not is_passing(head.run)]
    return {name: store.read(name) for name in names}


def stored(content: dict[str, list[Entry]]) -> MemoryStore:
    store = MemoryStore()
    for entries in content.values():
        for entry in entries:
            assert store.append([entry]) == [True] or store.erase(entry)
    return store


@given(before=acts, between=acts, after=acts)
@settings(max_examples=examples(50), deadline=None)
def test_what_a_store_does_itself_agrees_with_every_anchor(
    before: list[tuple[str, str]], between: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    lines: list[bytes] = []
    with hf.SyncCheckpointer("memory://") as cp:
        for acts in (before, between, after):
            do(cp, acts)
            cp.anchor(lambda anchor, own: lines.extend(own))
        found = cp.verify_anchor(lines, every=True)
        assert found.problems == ()
        assert len(found.anchors) == 3
        assert cp.verify_chain().problems == ()


@given(before=acts, after=acts, data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_what_is_done_behind_its_back_is_found(
    before: list[tuple[str, str]], after: list[tuple[str, str]], data: st.DataObject
) -> None:
    lines: list[bytes] = []
    store = MemoryStore()
    with hf.SyncCheckpointer(store) as cp:
        cp.save("a", {"n": 0})
        do(cp, before)
        cp.anchor(lambda anchor, own: lines.extend(own))
        anchored = {head.run: head for head in all_heads(store)}
        do(cp, after)
    content = journals(store)
    # Of a run that was deleted since, only the tombstone is left to attack.
    run = data.draw(st.sampled_from(sorted(anchored)))
    entries = content[run]
    head = anchored[run]
    attack = data.draw(st.sampled_from(["cut", "alter", "remove"]))
    if attack == "cut" and entries[0].seq < head.seq:
        content[run] = [entry for entry in entries if entry.seq < head.seq]
        expected = "cut off"
    elif attack == "alter" and entries[0].seq <= head.seq:
        forged = bytes(32)
        content[run] = [
            entry._replace(digest=forged) if entry.seq == head.seq else entry for entry in entries
        ]
        expected = "altered"
    elif attack == "alter" and erases(entries[0]):
        content[run] = [entries[0]._replace(digest=bytes(32)), *entries[1:]]
        expected = "damaged"
    else:
        del content[run]
        expected = "removed"
    with hf.SyncCheckpointer(stored(content)) as cp:
        found = cp.verify_anchor(lines)
    if run == STORE_JOURNAL:  # it has no id any more
        assert [problem.what for problem in found.problems] == ["other store"]
    else:
        assert [(problem.run_id, problem.what) for problem in found.problems] == [(run, expected)]
