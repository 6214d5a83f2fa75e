"""A receipt of forgetting proves later that what was deleted still is, and names nobody."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack, EvidenceType
from holdfast.model import FORGETTINGS, Entry, forget_journal
from holdfast.operations.forget_record import records
from holdfast.store import RunFilter
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import step, workflow
from tests.crash.harness import url_of


@step
def count() -> int:
    return 1


@workflow
async def part() -> int:
    return await count()


@workflow
async def whole() -> int:
    return await part()


def fill(cp: hf.SyncCheckpointer) -> None:
    hf.Engine(cp).run_sync(whole(), run_id="job-of-ann", owner="ann@example.org", thread_id="t")
    cp.save("notes-of-ann", {"n": 1}, owner="ann@example.org")
    cp.save("of-bob", {"n": 1}, owner="bob", thread_id="t")


def test_a_receipt_holds_no_id_and_tells_whom_it_concerns(cp: hf.SyncCheckpointer) -> None:
    fill(cp)
    receipt = cp.forget(owner="ann@example.org", by="dpo")
    text = json.dumps(receipt.to_dict())
    assert "ann" not in text
    assert receipt.concerns(owner="ann@example.org")
    assert receipt.concerns(run_id="job-of-ann//part")
    assert not receipt.concerns(owner="bob")
    assert not receipt.concerns(run_id="of-bob")
    assert not receipt.concerns(thread_id="t")
    assert (receipt.by, receipt.complete, receipt.checkpoints) == ("dpo", True, 3)
    record = str([entry.meta for entry in cp.store.read(forget_journal(receipt.id))])
    assert "ann" not in record


def test_a_receipt_is_proved_later(cp: hf.SyncCheckpointer, tmp_path: Path) -> None:
    fill(cp)
    receipt = cp.forget(owner="ann@example.org")
    receipt.save(tmp_path / "receipt.json")
    for given in (receipt, receipt.to_dict(), tmp_path / "receipt.json"):
        found = cp.verify_receipt(given)
        assert found.ok
        assert (found.gone, found.recorded, found.since) == (3, True, ())
    (record,) = records(cp.core)
    recorded = record.recorded()
    assert recorded is not None
    assert recorded.to_dict() == receipt.to_dict()


def test_what_begins_later_is_no_concern_of_a_receipt(cp: hf.SyncCheckpointer) -> None:
    fill(cp)
    receipt = cp.forget(owner="ann@example.org")
    cp.save("another", 1, owner="ann@example.org")
    cp.save("notes-of-ann", 1, owner="ann@example.org")
    found = cp.verify_receipt(receipt)
    assert found.ok
    assert found.since == ("another", "notes-of-ann")
    cp.clear("notes-of-ann")
    assert cp.verify_receipt(receipt).gone == 3


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_restored_backup_is_found(kind: str, tmp_path: Path) -> None:
    place, backup = tmp_path / "now", tmp_path / "backup"
    place.mkdir()
    with hf.SyncCheckpointer(url_of(kind, place)) as cp:
        fill(cp)
    shutil.copytree(place, backup)
    with hf.SyncCheckpointer(url_of(kind, place)) as cp:
        receipt = cp.forget(owner="ann@example.org")
        assert cp.verify_receipt(receipt).ok
    with hf.SyncCheckpointer(url_of(kind, backup)) as cp:
        found = cp.verify_receipt(receipt)
        assert found.came_back == ("job-of-ann", "job-of-ann//part", "notes-of-ann")
        assert (found.gone, found.missing, found.recorded, found.same_store) == (0, 0, False, True)
        assert len(found.problems) == 4
        again = cp.forget(owner="ann@example.org")
        assert cp.verify_receipt(again).ok
        found = cp.verify_receipt(receipt)
        assert (found.came_back, found.missing, found.recorded) == ((), 3, False)


def test_what_an_import_brings_back_is_named(cp: hf.SyncCheckpointer, tmp_path: Path) -> None:
    fill(cp)
    receipt = cp.forget(thread_id="t", archive=tmp_path / "t.jsonl")
    cp.save("of-bob", 2, owner="bob", thread_id="t")
    assert cp.verify_receipt(receipt).ok
    with hf.SyncCheckpointer("memory://") as other:
        other.import_runs(tmp_path / "t.jsonl")
        found = other.verify_receipt(receipt)
        assert not found.same_store
        assert found.came_back == ("job-of-ann", "job-of-ann//part", "of-bob")
        other.clear("job-of-ann")
        other.clear("of-bob")
        assert other.verify_receipt(receipt).came_back == ()
    with hf.SyncCheckpointer("memory://") as empty:
        assert empty.verify_receipt(receipt).missing == 3


def test_another_run_of_the_same_owner_from_before_is_named(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    with hf.SyncCheckpointer("memory://") as other:
        other.save("elsewhere", 1, owner="ann@example.org")
        other.export_run("elsewhere", tmp_path / "elsewhere.jsonl")
    fill(cp)
    receipt = cp.forget(owner="ann@example.org")
    cp.import_run(tmp_path / "elsewhere.jsonl")
    assert cp.verify_receipt(receipt).came_back == ("elsewhere",)


def test_what_is_left_beside_a_deleted_run_is_named(cp: hf.SyncCheckpointer) -> None:
    cp.save("task", {"n": 0}, owner="ann")
    manager = hf.CheckpointManager(cp.store)
    begun = manager.begin_step("task", "tool_executed", {"n": 1})
    claim = Evidence(EvidenceType.ARTIFACT_EXISTS, "itself", {"path": __file__})
    manager.commit_step(begun, EvidencePack([claim]), checkpoint_id="my-name")
    kept = [
        entry
        for head in cp.store.runs(RunFilter(prefix="\x1f"))
        for entry in cp.store.read(head.run)
        if "verdict" in head.run or "alias" in head.run
    ]
    receipt = cp.forget(owner="ann")
    assert cp.verify_receipt(receipt).ok
    for entry in kept:
        last = cp.store.last(entry.run)
        assert last is not None
        assert cp.store.append([entry._replace(seq=last.seq + 1)]) == [True]
    found = cp.verify_receipt(receipt).leftovers
    assert found == ("the verdicts of run 'task'", "the name 'my-name'")


def test_names_of_checkpoints_go_with_a_cleared_run_but_not_anothers(
    cp: hf.SyncCheckpointer,
) -> None:
    manager = hf.CheckpointManager(cp.store)
    claim = Evidence(EvidenceType.ARTIFACT_EXISTS, "itself", {"path": __file__})
    for task in ("one", "two"):
        begun = manager.begin_step(task, "tool_executed", {"n": 1})
        manager.commit_step(begun, EvidencePack([claim]), checkpoint_id=f"name-{task}")
    cp.clear("one", force=True)
    (left,) = cp.store.runs(RunFilter(prefix="\x1falias"))
    assert left.run.endswith("name-two")


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.update(by="somebody else"),
        lambda told: told["runs"].pop(),
        lambda told: told.pop("sha256"),
        lambda told: told.update(holdfast_receipt=2),
    ],
)
def test_a_changed_receipt_is_refused(change: Any, tmp_path: Path) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        fill(cp)
        told = cp.forget(owner="ann@example.org").to_dict()
        change(told)
        with pytest.raises(ValueError, match=r"was changed|not a receipt"):
            cp.verify_receipt(told)
        (tmp_path / "r.json").write_text("[]")
        with pytest.raises(ValueError, match="not a receipt"):
            cp.verify_receipt(tmp_path / "r.json")


def test_forgetting_that_was_stopped_is_finished_with_one_receipt_for_all() -> None:
    class Failing(MemoryStore):
        fails = True

        def erase(self, tombstone: Entry) -> bool:
            if tombstone.run == "c" and self.fails:
                raise hf.StoreError("cut")
            return super().erase(tombstone)

    store = Failing()
    with hf.SyncCheckpointer(store) as cp:
        for run_id in "abcd":
            cp.save(run_id, 1, owner="ann")
        with pytest.raises(hf.StoreError) as caught:
            cp.forget(owner="ann")
        partial = caught.value.receipt  # type: ignore[attr-defined]
        assert (len(partial.runs), partial.complete) == (2, False)
        assert "not finished" in cp.verify_receipt(partial).problems[0]
        store.fails = False
        receipt = cp.forget(owner="ann")
        assert [run.run_id for run in receipt.runs] == ["a", "b", "c", "d"]
        assert receipt.id == partial.id
        assert cp.verify_receipt(receipt).ok
        assert len(cp.store.runs(RunFilter(prefix=FORGETTINGS))) == 1


def test_a_run_that_begins_while_its_owner_is_forgotten_is_not_passed_over() -> None:
    class Busy(MemoryStore):
        begun = False

        def erase(self, tombstone: Entry) -> bool:
            if tombstone.run == "a" and not self.begun:
                self.begun = True
                cp.save("late", 1, owner="ann")
            return super().erase(tombstone)

    with hf.SyncCheckpointer(Busy()) as cp:
        cp.save("a", 1, owner="ann")
        with pytest.raises(hf.CheckpointSaveError, match="began runs meanwhile"):
            cp.forget(owner="ann")
        receipt = cp.forget(owner="ann")
        assert [run.run_id for run in receipt.runs] == ["a", "late"]
        assert cp.verify_receipt(receipt).ok


def test_where_there_is_nothing_to_forget_nothing_is_written(cp: hf.SyncCheckpointer) -> None:
    cp.save("of-bob", 1, owner="bob")
    receipt = cp.forget(owner="ann")
    assert (receipt.id, receipt.runs) == ("", ())
    assert cp.store.runs(RunFilter(prefix=FORGETTINGS)) == []
    assert cp.verify_receipt(receipt).ok
