"""The heads index: what entries do to a run's row, whichever store keeps it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from holdfast.heads import (
    HOUR,
    NOW,
    TOUCH,
    RowChange,
    Tally,
    after,
    applied,
    bucket_of,
    change_of,
    changes,
    changes_of,
    differences,
    fold,
)
from holdfast.model import HIDDEN, Entry, stub
from holdfast.scanning import summed, tallied
from holdfast.testing.invariants import entry, tombstone

FACTS = st.fixed_dictionaries(
    {},
    optional={
        "holder": st.sampled_from(["h", 3, "\x00"]),
        "due": st.sampled_from([7, None, "x", 1 << 70]),
        "questions": st.sampled_from([0, 2, -1, True]),
        "labels": st.sampled_from([{"a": "b"}, [], {"": "b"}]),
        "parent": st.sampled_from(["up@step", 7, "@"]),
    },
)
KINDS = ["open", "claim", "release", "checkpoint", "question", "answer", "pause", "tombstone"]


@st.composite
def journals(draw: st.DrawFn) -> list[Entry]:
    """A run's entries, as far as the index looks at them."""
    found: list[Entry] = []
    for seq in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(KINDS))
        erases = kind == "tombstone" and draw(st.booleans())
        status = "deleted" if erases else draw(st.sampled_from(["open", "running", "failed"]))
        term = draw(st.sampled_from([seq, found[-1].term])) if found and not erases else seq
        meta = json.dumps(draw(FACTS))
        found.append(entry("run", seq, kind=kind, status=status, term=term, meta=meta, at=seq))
    return found


@given(journals(), st.integers(0, 8))
def test_a_batch_changes_a_row_as_its_entries_do_one_by_one(
    journal: list[Entry], begun: int
) -> None:
    row = fold(journal[:begun])
    expected = row
    for item in journal[begun:]:
        expected = after(expected, item)
    change = change_of(journal[begun:])
    assert (row if change is None else applied(row, change)) == expected
    assert expected == fold(journal)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_no_metadata_raises_an_error(meta: str) -> None:
    row = after(None, entry("run", 0, kind="open", status="running", meta=meta))
    assert row is not None
    assert row.status == "running"


def test_a_plain_save_changes_no_row() -> None:
    assert not changes(entry("run", 5, term=0))
    assert not changes(entry("run", 5, kind="result", term=0))
    assert changes(entry("run", 5))
    assert changes(entry("run", 5, kind="question", term=0))
    assert changes(tombstone("run", 5, term=0))
    assert changes(entry("run", TOUCH, term=0))
    assert not changes(entry(HIDDEN + "run", 0))


def test_changes_of_a_batch_are_one_for_each_run() -> None:
    batch = [entry("b", 0), entry("a", 0), entry("a", 1, status="failed"), entry("c", 5, term=0)]
    found = changes_of(batch)
    assert [change.run for change in found] == ["a", "b"]
    assert found[0] == change_of(batch[1:3])


def test_a_row_says_which_run_is_the_parent() -> None:
    for run, said, expected in [
        ("a//s", "a@s", "a"),
        ("a@b//s@t", "a@b@s@t", "a@b"),
        ("short//0123", "a@b@s", "a@b"),
        ("x", "nothing", None),
    ]:
        row = after(None, entry(run, 0, kind="open", meta=json.dumps({"parent": said})))
        assert row is not None
        assert row.parent == expected


def test_a_run_that_is_over_asks_nothing() -> None:
    asking = after(None, entry("run", 0, status="paused", meta='{"questions":2}'))
    assert asking is not None
    assert asking.questions == 2
    for status, questions in (("running", 2), ("failed", 2), ("completed", 0), ("cancelled", 0)):
        row = after(asking, entry("run", 1, kind="claim", status=status))
        assert row is not None
        assert row.questions == questions


def test_deleted_checkpoints_still_say_when_the_run_changed() -> None:
    journal = [
        entry("run", 0, at=3, status="open", flow="f"),
        entry("run", 1, at=4, status="failed", flow="f"),
        entry("run", 2, at=5, status="failed", flow="f", term=1),
    ]
    row = fold(journal)
    assert row is not None
    assert (row.opened, row.changed, row.status, row.seq) == (3, 4, "failed", 1)
    assert fold([stub(journal[0]), stub(journal[1]), journal[2]]) == row
    assert fold(map(stub, journal)) is None


def test_statistics_count_what_happened_in_each_hour() -> None:
    journal = [
        entry("run", 0, kind="open", status="running", flow="f", at=HOUR),
        entry("run", 1, term=0, status="running", flow="f", at=HOUR + 1),
        entry("run", 2, kind="complete", status="completed", flow="f", at=3 * HOUR),
    ]
    assert summed(tallied(journal)) == [
        Tally(NOW, "f", "completed", 0, 1, 0),
        Tally(1, "f", "saves", 0, 1, 0),
        Tally(1, "f", "started", 0, 1, 0),
        Tally(3, "f", "completed", bucket_of(2 * HOUR), 1, 2 * HOUR),
        Tally(3, "f", "saves", 0, 2, 0),
    ]
    row = fold(journal)
    assert list(differences(row, RowChange("run", removes=True))) == [
        Tally(NOW, "f", "completed", 0, -1, 0)
    ]


def test_a_bucket_is_a_power_of_two_milliseconds() -> None:
    assert [bucket_of(ms * 1000) for ms in (0, 1, 2, 3, 4, 1000)] == [0, 1, 2, 2, 3, 10]
