"""Everything of an owner or a thread is exported to one file, which proves that it is complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack, EvidenceType
from holdfast.workflow import step, workflow


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
    for run_id in ("z-first", "a-second"):
        hf.Engine(cp).run_sync(whole(), run_id=run_id, owner="ann", thread_id="t")
    cp.save("task", {"address": "12 Elm Street"}, owner="ann")
    manager = hf.CheckpointManager(cp.store)
    begun = manager.begin_step("task", "tool_executed", {"n": 1})
    claim = Evidence(EvidenceType.ARTIFACT_EXISTS, "itself", {"path": __file__})
    manager.commit_step(begun, EvidencePack([claim]), checkpoint_id="my-name")
    cp.save("his", 1, owner="bob", thread_id="t")


def test_all_of_an_owner_is_exported_and_comes_back_by_an_import(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    fill(cp)
    path = tmp_path / "ann.jsonl"
    done = cp.export_data(path, owner="ann")
    assert set(done.run_ids) == {"z-first", "z-first//part", "a-second", "a-second//part", "task"}
    assert done.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert "12 Elm Street" in path.read_text(), "states are readable"
    assert path.stat().st_mode & 0o077 == 0
    with hf.SyncCheckpointer("memory://") as other:
        assert other.import_runs(path) == list(done.run_ids)
        assert [run.run_id for run in other.thread("t")] == ["a-second", "z-first"]
        assert [run.run_id for run in other.children("z-first")] == ["z-first//part"]
        named = hf.CheckpointManager(other.store).get_checkpoint("my-name")
        assert named is not None
        assert cp.stats("task").checkpoints == other.stats("task").checkpoints
        assert all(other.verify(run).ok for run in done.run_ids)
        assert other.store.last("\x1fverdict\x1ftask") == cp.store.last("\x1fverdict\x1ftask")


def test_a_thread_or_a_run_is_exported_with_its_child_runs(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    fill(cp)
    thread = cp.export_data(tmp_path / "t.json", thread_id="t", form="json")
    assert thread.run_ids[:3] == ("z-first", "a-second", "his"), "as they joined"
    with hf.SyncCheckpointer("memory://") as other:
        assert len(other.import_runs(tmp_path / "t.json")) == 5
    assert cp.export_data(tmp_path / "r", run_id="a-second").run_ids == (
        "a-second",
        "a-second//part",
    )
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.export_data(tmp_path / "none", run_id="none")
    with pytest.raises(ValueError, match="one of these"):
        cp.export_data(tmp_path / "none", run_id="a-second", owner="ann")


def test_a_file_says_that_there_is_nothing_of_an_owner(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    cp.save("his", 1, owner="bob")
    assert cp.export_data(tmp_path / "ann.jsonl", owner="ann").run_ids == ()
    document = json.loads((tmp_path / "ann.jsonl").read_text())
    assert (document["of"], document["id"], document["runs"]) == ("owner", "ann", [])
    assert cp.import_runs(tmp_path / "ann.jsonl") == []


def test_a_run_that_begins_meanwhile_is_exported_too(tmp_path: Path) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        cp.save("a", 1, owner="ann")

        def begin_another(run_id: str) -> None:
            if run_id == "a":
                cp.save("b", 1, owner="ann")

        done = cp.export_data(tmp_path / "ann.jsonl", owner="ann", progress=begin_another)
        assert done.run_ids == ("a", "b")


def without_a_run(lines: list[str]) -> list[str]:
    starts = [place for place, line in enumerate(lines) if "holdfast_export" in line]
    return lines[: starts[0]] + lines[starts[1] :]


def without_its_list(lines: list[str]) -> list[str]:
    return lines[:-1]


def with_a_shorter_list(lines: list[str]) -> list[str]:
    document = json.loads(lines[-1])
    document["runs"].pop()
    return [*lines[:-1], json.dumps(document)]


@pytest.mark.parametrize(
    ("change", "why"),
    [(without_a_run, "is missing"), (with_a_shorter_list, "was changed"), (without_its_list, None)],
)
def test_a_file_that_lacks_a_run_is_refused_before_anything_is_imported(
    change: Callable[[list[str]], list[str]], why: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "ann.jsonl"
    with hf.SyncCheckpointer("memory://") as cp:
        fill(cp)
        cp.export_data(path, owner="ann")
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    with hf.SyncCheckpointer("memory://") as other:
        if why is None:  # as `export_runs` writes it
            assert len(other.import_runs(path)) == 5
            return
        with pytest.raises(ValueError, match=why):
            other.import_runs(path)
        assert other.runs() == []
