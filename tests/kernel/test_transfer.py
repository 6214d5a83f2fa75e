from __future__ import annotations

import json
from pathlib import Path

import pytest

import holdfast as hf
from tests.conftest import Grow


def contents(cp: hf.SyncCheckpointer, run: str) -> list[tuple[int, object, str]]:
    infos = cp.list_checkpoints(run, limit=500, oldest_first=True)
    return [(c.seq, c.state, c.digest) for info in infos if (c := cp.load(run, seq=info.seq))]


def lived(cp: hf.SyncCheckpointer, grow: Grow) -> None:
    """A run with everything in it: deltas, a rollback, stubs, metadata, a thread."""
    saved = grow("run", 12)
    cp.rollback("run", seq=saved[4].seq)
    cp.save("run", saved[4].state | {"n": 100}, metadata={"t": (1, 2)})
    cp.delete("run", saved[6].checkpoint_id)
    cp.save("talk-1", {"hello": "world"}, thread_id="talk", owner="ann")
    cp.save("gone", 1)
    cp.clear("gone")


def test_a_run_goes_through_a_file_and_comes_back_the_same(
    cp: hf.SyncCheckpointer, grow: Grow, url: str, tmp_path: Path
) -> None:
    lived(cp, grow)
    file = tmp_path / "run.jsonl"
    assert cp.export_run("run", file) == 16
    with hf.SyncCheckpointer("memory://") as other:
        assert other.import_run(file) == "run"
        assert other.import_run(file) == "run", "importing again changes nothing"
        assert contents(other, "run") == contents(cp, "run")
        assert other.load("run") == cp.load("run") or cp.store.form == "readable"
        report = other.verify("run")
        assert report.ok
        assert report.rewritten > 0
        other.save("run", {"n": "onward"})
        if cp.store.form == "packed":
            stats = other.stats("run")
            assert stats.stored_bytes < stats.state_bytes / 2, "states become changes again"


def test_every_line_of_an_export_is_json_with_the_state_in_it(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    cp.save("run", {"a": (1, b"x")}, step="s", metadata={"k": 1})
    cp.export_run("run", tmp_path / "run.jsonl")
    header, _, checkpoint = map(json.loads, (tmp_path / "run.jsonl").read_text().splitlines())
    assert header == {"holdfast_export": 1, "run_id": "run"}
    assert checkpoint["state"] == {"a": {"$tuple": [1, {"$bytes": "eA=="}]}}
    assert (checkpoint["step"], checkpoint["meta"]) == ("s", {"metadata": {"k": 1}})


def test_an_export_of_nothing_and_an_import_of_something_else_are_refused(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.export_run("run", tmp_path / "run.jsonl")
    assert list(tmp_path.glob("*.jsonl*")) == []
    wrong = tmp_path / "wrong.jsonl"
    for text in ("", "no json", "[]", '{"holdfast_export": 9, "run_id": "run"}'):
        wrong.write_text(text)
        with pytest.raises(ValueError, match=r"wrong\.jsonl"):
            cp.import_run(wrong)
    for line in ("{}", '{"run": "other"}', "nonsense"):
        wrong.write_text('{"holdfast_export": 1, "run_id": "run"}\n' + line)
        with pytest.raises(ValueError, match=r"wrong\.jsonl:2"):
            cp.import_run(wrong)
    assert cp.runs() == []


def test_an_import_never_mixes_with_another_run_of_the_same_name(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    cp.save("run", "mine")
    cp.export_run("run", tmp_path / "run.jsonl")
    with hf.SyncCheckpointer("memory://") as other:
        other.save("run", "theirs")
        before = contents(other, "run")
        with pytest.raises(hf.RunExistsError):
            other.import_run(tmp_path / "run.jsonl")
        assert contents(other, "run") == before


@pytest.mark.parametrize("target", ["memory", "sqlite", "file"])
def test_runs_are_copied_between_any_two_stores(
    cp: hf.SyncCheckpointer, grow: Grow, tmp_path: Path, target: str
) -> None:
    lived(cp, grow)
    url = {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path}/copy.db",
        "file": f"{tmp_path}/copy/",
    }
    store = hf.open_store(url[target])
    assert cp.copy_to(store, ["talk-1"]) == 1
    assert cp.copy_to(store) == 2
    assert cp.copy_to(store) == 2, "copying again changes nothing"
    with hf.SyncCheckpointer(store) as other:
        for run in ("run", "talk-1"):
            assert contents(other, run) == contents(cp, run)
            assert other.verify(run).ok
        assert [run.run_id for run in other.thread("talk")] == ["talk-1"]
        other.save("run", "onward")
        cp.save("run", "elsewhere")
        with pytest.raises(hf.RunExistsError):
            cp.copy_to(store)
    store.close()
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.copy_to("memory://", ["nowhere"])
