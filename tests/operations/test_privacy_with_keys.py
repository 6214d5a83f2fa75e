"""Export and forget work alike with keys, and for a checkpointer that is bound to an owner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack, EvidenceType
from holdfast.kernel.store_view import real_store
from holdfast.store import RunFilter
from holdfast.workflow import step, workflow

RING = hf.Keyring({"2026": os.urandom(32)})


@step
def count() -> int:
    return 1


@workflow
async def part() -> int:
    return await count()


@workflow
async def whole() -> int:
    return await part()


@pytest.fixture(params=[None, "ann"], ids=["unbound", "bound"])
def bound(request: pytest.FixtureRequest) -> str | None:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[None, RING], ids=["plain", "sealed"])
def key(request: pytest.FixtureRequest) -> hf.Keyring | None:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def cp(bound: str | None, key: hf.Keyring | None) -> Iterator[hf.SyncCheckpointer]:
    store = hf.open_store("memory://")
    with (
        hf.SyncCheckpointer(store, key=key) as everything,
        hf.SyncCheckpointer(store, key=key, owner=bound) as cp,
    ):
        everything.save("his", {"n": 1}, owner="bob", thread_id="shared")
        hf.Engine(cp).run_sync(whole(), run_id="job", owner="ann", thread_id="hers")
        cp.save("hers-too", {"n": 1}, owner="ann", thread_id="shared")
        cp.save("task", {"address": "12 Elm Street"}, owner="ann")
        manager = hf.CheckpointManager(cp)
        begun = manager.begin_step("task", "tool_executed", {"address": "14 Oak Street"})
        claim = Evidence(EvidenceType.ARTIFACT_EXISTS, "itself", {"path": __file__})
        manager.commit_step(begun, EvidencePack([claim]), checkpoint_id="my-name")
        yield cp


def test_everything_goes_but_what_is_anothers(cp: hf.SyncCheckpointer, key: object) -> None:
    receipt = cp.forget(owner="ann")
    assert {run.run_id for run in receipt.runs} == {"job", "job//part", "hers-too", "task"}
    assert len(receipt.keys) == (1 if key else 0)
    found = cp.verify_receipt(receipt)
    assert (found.problems, found.gone) == ((), 4)
    everything = real_store(cp.store)
    assert [head.run for head in everything.runs()] == ["his"]
    hidden = [head.run.split("\x1f")[1:] for head in everything.runs(RunFilter(prefix="\x1f"))]
    beside = [name for name in hidden if name[0] not in ("forget", "store", "cutover")]
    assert beside == [["thread", "shared"]], "which bob's run is in"


def test_what_is_encrypted_is_exported_as_it_is_or_opened(
    cp: hf.SyncCheckpointer, key: hf.Keyring | None, tmp_path: Path
) -> None:
    closed, clear = tmp_path / "closed.jsonl", tmp_path / "opened.jsonl"
    done = cp.export_data(closed, owner="ann")
    assert ("12 Elm Street" in closed.read_text()) == (key is None)
    assert cp.export_data(clear, owner="ann", opened=True).run_ids == done.run_ids
    for word in ("12 Elm Street", "14 Oak Street", Path(__file__).name):
        assert word in clear.read_text()
    for path in (closed, clear):
        with hf.SyncCheckpointer("memory://", key=key) as other:
            assert other.import_runs(path) == list(done.run_ids)
            loaded = other.load("task")
            assert loaded is not None
            assert loaded.state == {"address": "14 Oak Street"}
