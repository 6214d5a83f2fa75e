"""The term of an entry: which entry says who holds the run."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.appending import append
from holdfast.kernel.draft import Draft
from holdfast.model import Entry, Kind, Status
from holdfast.stores import MemoryStore

RUNNING, PAUSED = Status.RUNNING.value, Status.PAUSED.value


def terms_of(*drafts: Draft) -> list[int]:
    """The terms of a journal with these entries, written by processes that know nothing of it."""
    store = MemoryStore()
    for draft in drafts:
        core = hf.SyncCheckpointer(store).core
        core.drive(append(core, "run", draft))
    return [entry.term for entry in store.read("run")]


def test_all_that_a_holder_records_has_the_term_of_its_claim() -> None:
    assert terms_of(
        Draft(Kind.OPEN.value, RUNNING),
        Draft(Kind.RESULT.value, RUNNING, b"\x01"),
        Draft(Kind.CHILD.value, RUNNING),
        Draft(Kind.CLAIM.value, RUNNING),
        Draft(Kind.RESULT.value, RUNNING, b"\x01"),
        Draft(Kind.DECISION.value, RUNNING),
    ) == [0, 0, 0, 3, 3, 3]


def test_what_others_append_leaves_the_term_as_it_is() -> None:
    outside = [Kind.REQUEST.value, Kind.ANSWER.value, Kind.TRIM.value]
    running = [Draft(kind, RUNNING) for kind in outside]
    paused = [Draft(kind, PAUSED) for kind in outside]
    begun = Draft(Kind.OPEN.value, RUNNING)
    assert terms_of(begun, *running) == [0, 0, 0, 0]
    assert terms_of(begun, Draft(Kind.PAUSE.value, PAUSED), *paused) == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "last",
    [
        Draft(Kind.RELEASE.value, RUNNING),
        Draft(Kind.PAUSE.value, PAUSED),
        Draft(Kind.FAIL.value, Status.FAILED.value),
        Draft(Kind.COMPLETE.value, Status.COMPLETED.value),
        Draft(Kind.CANCEL.value, Status.CANCELLED.value),
    ],
)
def test_a_run_that_nobody_executes_any_more_begins_a_term(last: Draft) -> None:
    begun = Draft(Kind.OPEN.value, RUNNING)
    assert terms_of(begun, Draft(Kind.DECISION.value, RUNNING), last) == [0, 0, 2]


def test_terms_are_right_behind_entries_that_are_still_queued() -> None:
    store = MemoryStore()
    core = hf.SyncCheckpointer(store).core
    tip = core.journals.fetch_tip("run", with_state=False)
    kinds = [Kind.OPEN, Kind.DECISION, Kind.CLAIM, Kind.DECISION]
    assert core.journals.extend(tip, [Draft(kind.value, RUNNING) for kind in kinds], 0.0)
    assert [entry.term for entry in store.read("run")] == [0, 0, 2, 2]


def test_a_save_by_hand_begins_a_term_only_with_another_status() -> None:
    store = MemoryStore()
    with hf.SyncCheckpointer(store) as cp:
        for n in range(3):
            cp.save("run", n)
        cp.prune("run", keep_latest=1)
        assert [entry.term for entry in store.read("run")] == [0, 0, 0, 0, 0]
        cp.clear("run")
        assert [(e.seq, e.term) for e in store.read("run")] == [(5, 5)]


def test_a_checkpoint_of_another_status_begins_a_term() -> None:
    failed, opened = Status.FAILED.value, Status.OPEN.value
    assert terms_of(
        Draft(Kind.OPEN.value, opened),
        Draft(Kind.CHECKPOINT.value, opened, b"\x01"),
        Draft(Kind.BEGIN.value, opened, b"\x01"),
        Draft(Kind.CHECKPOINT.value, failed, b"\x01"),
        Draft(Kind.CHECKPOINT.value, failed, b"\x01"),
        Draft(Kind.CHECKPOINT.value, opened, b"\x01"),
    ) == [0, 0, 0, 3, 3, 5]


def test_behind_a_head_that_cant_be_read_the_term_is_that_head() -> None:
    class Damaged(MemoryStore):
        def last(self, run: str) -> Entry | None:
            head = super().last(run)
            if head is not None and head.kind == Kind.CLAIM:
                raise CheckpointCorruptedError(run, head.seq, "it is damaged")
            return head

    store = Damaged()
    for kind in (Kind.OPEN, Kind.CLAIM, Kind.REQUEST):
        core = hf.SyncCheckpointer(store).core
        core.drive(append(core, "run", Draft(kind.value, RUNNING)))
    assert [entry.term for entry in store.read("run")] == [0, 1, 1]
