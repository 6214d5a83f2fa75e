"""Everything of an owner or a thread goes, provably; so do the runs within runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.model import Entry
from holdfast.operations import forgetting, takeout
from holdfast.store import RunFilter
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import step, workflow


@workflow("inner")
def inner(n: int) -> Generator[Any, Any, Any]:
    return (yield step("x" * 60).python(abs, args=(n,)))


@workflow("outer")
def outer(n: int) -> Generator[Any, Any, Any]:
    return (yield step("y" * 80).subworkflow(inner, n=n))


def run(
    cp: hf.SyncCheckpointer, run_id: str, owner: str | None = None, thread_id: str | None = None
) -> None:
    hf.Engine(cp).run_sync(outer(n=1), run_id=run_id, owner=owner, thread_id=thread_id)


def test_the_runs_within_a_run_are_found_also_under_shortened_ids(cp: hf.SyncCheckpointer) -> None:
    long = "r" * 480
    for name in ("run", "run-2", long):
        run(cp, name)
    assert [found.run_id for found in cp.children("run")] == ["run//" + "y" * 80]
    (child,) = cp.children(long)
    assert child.flow == "inner"
    assert not child.run_id.startswith(f"{long}//"), "it would be too long"
    assert cp.children("r" * 100) == []
    assert cp.children("nothing") == []
    assert cp.parent_of("run") is None
    assert cp.parent_of("run//" + "y" * 80) == "run@" + "y" * 80
    assert cp.parent_of(child.run_id) == f"{long}@" + "y" * 80


def test_all_of_an_owner_goes_and_nothing_else(cp: hf.SyncCheckpointer) -> None:
    run(cp, "hers", owner="ann", thread_id="t")
    cp.save("also", "hers", owner="ann")
    cp.save("his", "stays", owner="bob", thread_id="t")
    dry = cp.forget(owner="ann", dry_run=True)
    assert len(cp.runs()) == 4
    receipt = cp.forget(owner="ann")
    assert [one.run_id for one in receipt.runs] == ["also", "hers", "hers//" + "y" * 80]
    assert [one.digest for one in receipt.runs] == [one.digest for one in dry.runs]
    assert [found.run_id for found in cp.runs()] == ["his"]
    assert [found.run_id for found in cp.thread("t")] == ["his"]
    for one in receipt.runs:
        (left,) = cp.store.read(one.run_id)
        assert (left.status, left.digest.hex()) == ("deleted", one.tombstone)
    assert cp.forget(owner="ann").runs == ()


def test_a_thread_goes_with_its_own_journal(cp: hf.SyncCheckpointer) -> None:
    run(cp, "one", thread_id="t")
    run(cp, "two", thread_id="t")
    assert len(cp.forget(thread_id="t").runs) == 4
    assert cp.runs() == []
    assert cp.thread("t") == []
    assert cp.store.runs(RunFilter(prefix="\x1fthread")) == []


def test_verdicts_and_names_of_checkpoints_go_too(cp: hf.SyncCheckpointer) -> None:
    from holdfast.evidence import Evidence, EvidencePack, EvidenceType
    from holdfast.manager import CheckpointManager

    cp.save("task", {"secret": 0}, owner="ann")
    manager = CheckpointManager(cp.store)
    begun = manager.begin_step("task", "tool_executed", {"secret": 1})
    claim = Evidence(EvidenceType.ARTIFACT_EXISTS, "itself", {"path": __file__})
    manager.commit_step(begun, EvidencePack([claim]), checkpoint_id="my-name")
    hidden = {found.run.split("\x1f")[1] for found in cp.store.runs(RunFilter(prefix="\x1f"))}
    assert hidden == {"alias", "verdict"}
    receipt = cp.forget(owner="ann")
    hidden = {found.run.split("\x1f")[1] for found in cp.store.runs(RunFilter(prefix="\x1f"))}
    assert hidden == {"forget", "store"}, "its own record, which names nobody"
    assert cp.verify_receipt(receipt).ok


def test_live_runs_are_forgotten_only_by_force_and_before_anything_is_deleted(
    cp: hf.SyncCheckpointer,
) -> None:
    from holdfast.workflow import ask

    @workflow("asks")
    def asks() -> Generator[Any, Any, Any]:
        return (yield ask("well?"))

    cp.save("a", 1, owner="ann")
    with pytest.raises(hf.RunPausedError):
        hf.Engine(cp).run_sync(asks(), run_id="b", owner="ann")
    with pytest.raises(hf.RunActiveError):
        cp.forget(owner="ann")
    assert len(cp.runs()) == 2
    assert len(cp.forget(owner="ann", force=True).runs) == 2


def test_one_run_goes_with_the_runs_within_it(cp: hf.SyncCheckpointer) -> None:
    for name in ("run", "run-2"):
        run(cp, name, owner="ann")
    receipt = cp.forget(run_id="run")
    assert [one.run_id for one in receipt.runs] == ["run", "run//" + "y" * 80]
    assert receipt.concerns(run_id="run")
    assert not receipt.concerns(owner="ann")
    assert [found.run_id for found in cp.runs()] == ["run-2//" + "y" * 80, "run-2"]
    for gone in ("run", "never"):
        assert cp.forget(run_id=gone).runs == ()


def test_a_receipt_proves_itself(cp: hf.SyncCheckpointer) -> None:
    cp.save("a", 1, owner="ann")
    told = cp.forget(owner="ann").to_dict()
    digest = told.pop("sha256")
    assert hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest() == digest


def test_whom_to_forget_must_be_said(cp: hf.SyncCheckpointer) -> None:
    for owner, thread, name in ((None, None, None), ("a", "b", None), ("a", None, "c")):
        with pytest.raises(ValueError, match="an owner, a thread_id or a run_id"):
            cp.forget(owner=owner, thread_id=thread, run_id=name)
    with pytest.raises(hf.InvalidIdError):
        cp.forget(owner="")


def test_what_is_exported_is_what_is_deleted(cp: hf.SyncCheckpointer, tmp_path: Path) -> None:
    run(cp, "hers", owner="ann")
    receipt = cp.forget(owner="ann", archive=tmp_path / "ann.jsonl")
    with hf.SyncCheckpointer("memory://") as other:
        assert other.import_runs(tmp_path / "ann.jsonl") == [one.run_id for one in receipt.runs]
        for one in receipt.runs:
            last = other.store.last(one.run_id)
            assert last is not None
            assert last.digest.hex() == one.digest


def test_a_run_that_grows_while_it_is_forgotten_is_not_deleted(
    cp: hf.SyncCheckpointer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cp.save("hers", 1, owner="ann")
    export = takeout.export_data

    def and_someone_saves(*args: Any, **whose: Any) -> takeout.Exported:
        exported = export(*args, **whose)
        cp.save("hers", 2)
        return exported

    monkeypatch.setattr(forgetting, "export_data", and_someone_saves)
    with pytest.raises(hf.CheckpointSaveError, match="not deleted"):
        cp.forget(owner="ann", archive=tmp_path / "ann.jsonl")
    loaded = cp.load("hers")
    assert loaded is not None
    assert loaded.state == 2


def test_what_stops_it_halfway_carries_a_receipt_of_what_is_gone() -> None:
    class Failing(MemoryStore):
        def erase(self, tombstone: Entry) -> bool:
            if tombstone.run == "c":
                raise hf.StoreError("cut")
            return super().erase(tombstone)

    with hf.SyncCheckpointer(Failing()) as cp:
        for run_id in "abc":
            cp.save(run_id, 1, owner="ann")
        with pytest.raises(hf.StoreError) as caught:
            cp.forget(owner="ann")
        receipt = caught.value.receipt  # type: ignore[attr-defined]
        assert [one.run_id for one in receipt.runs] == ["a", "b"]
        assert all(one.tombstone for one in receipt.runs)
        assert [found.run_id for found in cp.runs()] == ["c"]
