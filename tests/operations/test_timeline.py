from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.codec.meta import dump_meta
from holdfast.kernel.appending import append
from holdfast.kernel.draft import Draft
from holdfast.model import Kind
from holdfast.views.moments import what


def test_a_timeline_has_every_entry_in_order(cp: hf.SyncCheckpointer) -> None:
    cp.save("run", 1, step="a", duration=0.25)
    cp.save("run", 2, step="b", step_name="the second")
    cp.rollback("run", seq=1)
    cp.save("run", 3, step="c")
    cp.complete("run")
    found = cp.timeline("run")
    assert [moment.seq for moment in found] == list(range(6))
    assert [moment.kind for moment in found] == [
        "open", "checkpoint", "checkpoint", "rollback", "checkpoint", "complete",
    ]  # fmt: skip
    assert [moment.step for moment in found[1:5]] == ["a", "the second", "a", "c"]
    assert [moment.current for moment in found] == [True, True, False, True, True, True]
    assert found[1].took == 0.25
    assert found[3].note == "to run@1"
    assert found[-1].status == "completed"
    assert all(moment.waited >= 0 for moment in found)


def test_a_timeline_can_be_followed(cp: hf.SyncCheckpointer) -> None:
    for n in range(5):
        cp.save("run", n, step=f"s{n}")
    whole = cp.timeline("run")
    for after in range(5):
        rest = cp.timeline("run", after=after)
        assert [m._replace(waited=0) for m in rest] == [
            m._replace(waited=0) for m in whole[after + 1 :]
        ]
    assert cp.timeline("run", after=5) == []


def test_a_fork_says_where_it_comes_from_and_stubs_what_they_were(cp: hf.SyncCheckpointer) -> None:
    for n in range(3):
        cp.save("run", n)
    cp.fork("run", seq=2, run_id="other")
    assert cp.timeline("other")[0].note == "forked from run@2"
    cp.prune("run", keep_latest=1)
    assert [m.status for m in cp.timeline("run")][1:3] == ["deleted", "deleted"]


def test_a_run_that_is_not_there_has_no_timeline(cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.timeline("run")
    cp.save("run", 1)
    cp.clear("run")
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.timeline("run")


@pytest.mark.parametrize("meta", ["{", '{"step_name": 7}', '{"child": []}'])
def test_an_entry_with_damaged_metadata_is_shown_among_the_others(
    tmp_path: Path, meta: str
) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        for step in ("first", "second"):
            cp.save("run", {}, step=step)
        with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
            db.execute("UPDATE holdfast_entries SET meta = ? WHERE seq = 1", (meta,))
        _, first, second = cp.timeline("run")
        assert (first.step, second.step, second.note) == ("first", "second", "")
        assert first.note.startswith("damaged: its ")


def test_a_child_run_and_a_release_are_told_as_such(cp: hf.SyncCheckpointer) -> None:
    began = Draft(Kind.OPEN.value, "running")
    child = Draft(Kind.CHILD.value, "running", step="fetch", meta=dump_meta({"run": "run//fetch"}))
    release = Draft(Kind.RELEASE.value, "running", meta=dump_meta({"reason": "cancelled"}))
    for draft in (began, child, release):
        cp.core.drive(append(cp.core, "run", draft))
    _, child_began, released = cp.timeline("run")
    assert (child_began.kind, child_began.step, child_began.child) == (
        "child",
        "fetch",
        "run//fetch",
    )
    assert (released.kind, released.note) == ("release", "cancelled")
    assert [what(moment) for moment in (child_began, released)] == [
        "child run run//fetch",
        "released",
    ]


def test_moments_of_some_kinds_know_what_is_current_and_how_long_was_waited(
    cp: hf.SyncCheckpointer,
) -> None:
    for number in range(4):
        cp.save("run", {"n": number}, step=f"s{number}")
    cp.rollback("run", seq=2)
    cp.save("run", {"n": 9}, step="again")
    every = {moment.seq: moment for moment in cp.timeline("run")}
    saved = cp.timeline("run", kinds=("checkpoint",))
    assert [(moment.step, moment.current) for moment in saved] == [
        ("s0", True), ("s1", True), ("s2", False), ("s3", False), ("again", True)
    ]  # fmt: skip
    assert all(moment == every[moment.seq] for moment in saved)
    newest = cp.timeline("run", kinds=("rollback", "open"), newest_first=True)
    assert newest == [every[5], every[0]]
    assert cp.timeline("run", kinds=("checkpoint",), newest_first=True, limit=1) == [every[6]]
