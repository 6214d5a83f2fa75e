from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.model import Entry
from holdfast.operations.transfer import Form
from holdfast.stores import MemoryStore
from tests.conftest import Grow


def contents(cp: hf.SyncCheckpointer, run: str) -> list[tuple[int, object, str]]:
    infos = cp.list_checkpoints(run, oldest_first=True)
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
        assert report.proved == cp.verify("run").proved, "every byte is what it was"
        other.save("run", {"n": "onward"})
        assert other.load("run").state == {"n": "onward"}  # type: ignore[union-attr]
        if cp.store.form == "packed":
            stats = other.stats("run")
            assert stats.stored_bytes < stats.state_bytes / 2, "states are changes, as they were"


def test_every_line_of_an_export_is_json_with_the_state_in_it(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    cp.save("run", {"a": (1, b"x")}, step="s", metadata={"k": 1})
    cp.export_run("run", tmp_path / "run.jsonl")
    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    header, _, checkpoint, trailer = map(json.loads, lines)
    assert trailer["entries"] == 2
    assert header == {"holdfast_export": 2, "run_id": "run"}
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
        with pytest.raises(ValueError, match=r"wrong\.jsonl"):
            cp.import_run(wrong)
    assert cp.runs() == []


def sealed(lines: list[str]) -> str:
    """What a forger would write: the file with a checksum that fits."""
    text = "".join(f"{line}\n" for line in lines)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text + json.dumps({"entries": len(lines) - 1, "sha256": digest}) + "\n"


def test_an_export_that_was_cut_or_changed_is_refused_before_anything_is_written(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    for n in range(3):
        cp.save("run", {"balance": 100 + n})
    file = tmp_path / "run.jsonl"
    cp.export_run("run", file)
    whole = file.read_text()
    lines = whole.splitlines(keepends=True)
    with hf.SyncCheckpointer("memory://") as other:
        for broken in (
            whole.replace("102", "902"),
            "".join(lines[:-1]),
            "".join(lines[:3] + lines[4:]),
            "".join(lines[:2]),
        ):
            file.write_text(broken)
            with pytest.raises(ValueError, match=r"run\.jsonl"):
                other.import_run(file)
        assert other.runs() == []


@pytest.mark.parametrize(
    "forged",
    [
        {"at": "x"},
        {"at": 2**61},
        {"seq": 7},
        {"seq": True},
        {"thread": "\x1fhidden"},
        {"owner": 5},
        {"kind": "conquest"},
        {"status": "fine"},
        {"meta": [1]},
        {"digest": ""},
        {"parent": "1"},
        {"term": "1"},
        {"term": -1},
        {"term": 2},
        {"step_index": 2**70},
        {"run": "other"},
        {"state": {"$tuple": 5}},
    ],
)
def test_a_forged_line_can_do_no_harm(
    cp: hf.SyncCheckpointer, tmp_path: Path, forged: dict[str, object]
) -> None:
    cp.save("run", {"n": 1})
    file = tmp_path / "run.jsonl"
    cp.export_run("run", file)
    lines = file.read_text().splitlines()[:-1]
    lines[2] = json.dumps(json.loads(lines[2]) | forged)
    file.write_text(sealed(lines))
    with hf.SyncCheckpointer("memory://") as other:
        with pytest.raises(ValueError, match=r"run\.jsonl:3"):
            other.import_run(file)
        assert other.runs() == []


def test_damage_is_not_exported_or_copied_but_all_the_rest_is(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", {"n": 1})
        cp.save("run", {"n": 2})
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE holdfast_entries SET step = 'forged' WHERE seq = 1")
    copied, imported = MemoryStore(), MemoryStore()
    with hf.SyncCheckpointer(path) as cp:
        with pytest.raises(hf.CheckpointCorruptedError, match="run@1"):
            cp.copy_to(copied)
        with pytest.raises(hf.CheckpointCorruptedError, match="run@1"):
            cp.export_run("run", tmp_path / "run.jsonl")
    with hf.SyncCheckpointer(imported) as cp:
        cp.import_run(tmp_path / "run.jsonl")
    for store in (copied, imported):
        with hf.SyncCheckpointer(store) as cp:
            assert cp.load("run").state == {"n": 2}  # type: ignore[union-attr]
            assert [problem.seq for problem in cp.verify("run").problems] == [1]
            with pytest.raises(hf.CheckpointCorruptedError, match="run@1"):
                cp.load("run", seq=1)


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
            cp.copy_to(store, ["run"])
    store.close()
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.copy_to("memory://", ["nowhere"])


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_several_runs_fit_into_one_file(
    cp: hf.SyncCheckpointer, tmp_path: Path, form: Form
) -> None:
    for name in ("a", "b", "c"):
        for n in range(3):
            cp.save(name, {"n": n, "text": "ü\u2028"}, step=f"s{n}")
    file = tmp_path / "bundle"
    seen: list[str] = []
    assert cp.export_runs(["a", "c"], file, form=form, progress=seen.append) == 8
    with hf.SyncCheckpointer("memory://") as other:
        assert other.import_runs(file, progress=seen.append) == ["a", "c"]
        assert seen == ["a", "c", "a", "c"]
        for name in ("a", "c"):
            assert contents(other, name) == contents(cp, name)
            assert other.verify(name).ok
        with pytest.raises(ValueError, match="holds 2 runs"):
            other.import_run(file)


def test_a_json_export_may_be_reformatted(cp: hf.SyncCheckpointer, tmp_path: Path) -> None:
    cp.save("a", {"n": 1.5, "big": 2**70, "nan": float("nan")})
    file = tmp_path / "a.json"
    cp.export_runs(["a"], file, form="json")
    file.write_text(json.dumps(json.loads(file.read_text()), indent=4))
    with hf.SyncCheckpointer("memory://") as other:
        assert other.import_run(file) == "a"
    file.write_text(file.read_text().replace("1.5", "2.5"))
    with hf.SyncCheckpointer("memory://") as other, pytest.raises(ValueError, match="was changed"):
        other.import_run(file)


def test_an_export_of_no_runs_is_refused(cp: hf.SyncCheckpointer, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one run"):
        cp.export_runs([], tmp_path / "x")
    assert list(tmp_path.glob("x*")) == []


def test_an_export_without_its_beginning_is_refused(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    for n in range(3):
        cp.save("run", n)
    file = tmp_path / "run.jsonl"
    cp.export_run("run", file)
    header, _, *rest, _ = file.read_text().splitlines()
    file.write_text(sealed([header, *rest]))
    with hf.SyncCheckpointer("memory://") as other:
        with pytest.raises(ValueError, match="1 can't follow"):
            other.import_run(file)
        assert other.runs() == []


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_copy_of_a_run_with_a_damaged_end_is_shorter_and_can_be_used(
    tmp_path: Path, kind: str
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db" if kind == "sqlite" else f"file://{tmp_path}/runs"
    with hf.SyncCheckpointer(url) as cp:
        for n in range(1, 5):
            cp.save("run", {"n": n}, thread_id="talk")
        cp.save("whole", 1)
    damage_newest(tmp_path, kind, "run", 3, 4)
    copied, imported = MemoryStore(), MemoryStore()
    with hf.SyncCheckpointer(url) as cp:
        with pytest.raises(hf.CheckpointCorruptedError, match="run@3"):
            cp.copy_to(copied)
        with pytest.raises(hf.CheckpointCorruptedError, match="run@3"):
            cp.export_runs(["run", "whole"], tmp_path / "runs.jsonl")
    with (
        hf.SyncCheckpointer(imported) as cp,
        pytest.raises(hf.CheckpointCorruptedError, match=r"run@3.*lost before the export"),
    ):
        cp.import_runs(tmp_path / "runs.jsonl")
    for store in (copied, imported):
        with hf.SyncCheckpointer(store) as cp:
            assert [run.status for run in cp.runs()] == ["open", "open"]
            assert cp.load("run").state == {"n": 2}  # type: ignore[union-attr]
            assert cp.load("whole").state == 1  # type: ignore[union-attr]
            assert cp.verify("run").ok
            assert [run.run_id for run in cp.thread("talk")] == ["run"]
            cp.save("run", {"n": 3})


def test_a_run_of_which_nothing_is_intact_is_not_copied(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(f"file://{tmp_path}/runs") as cp:
        cp.save("run", 1)
        damage_newest(tmp_path, "file", "run", 0, 1)
    with hf.SyncCheckpointer(f"file://{tmp_path}/runs") as cp:
        store = MemoryStore()
        with pytest.raises(hf.CheckpointCorruptedError, match="run@0"):
            cp.copy_to(store, ["run"])
        assert store.last("run") is None


def damage_newest(tmp_path: Path, kind: str, run: str, *seqs: int) -> None:
    if kind == "sqlite":
        with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
            for seq in seqs:
                where = "WHERE run = ? AND seq = ?"
                db.execute(f"UPDATE holdfast_entries SET step = 'forged' {where}", (run, seq))
        return
    for seq in seqs:
        (file,) = [path for path in (tmp_path / "runs").rglob(f"*{seq}.json") if run in str(path)]
        file.write_text("{")


def test_an_export_lacks_only_the_edited_entry_of_a_file_store(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(f"file://{tmp_path}/runs") as cp:
        for n in range(1, 5):
            cp.save("run", {"n": n}, step=f"s{n}")
        file = tmp_path / "runs/run/0000000002.json"
        file.write_text(file.read_text().replace('"s2"', '"sX"'))
        with pytest.raises(hf.CheckpointCorruptedError, match="run@2"):
            cp.export_run("run", tmp_path / "run.jsonl")
    lines = map(json.loads, (tmp_path / "run.jsonl").read_text().splitlines())
    assert [line["seq"] for line in lines if "lost" in line] == [2]


def test_an_export_while_others_prune_the_run_finds_no_damage(tmp_path: Path) -> None:
    class Pruned(MemoryStore):
        """A store in which others prune once the export has read the last entries."""

        pruning = False

        def read(self, run: str, **options: Any) -> list[Entry]:
            found = super().read(run, **options)
            if self.pruning and len(found) > 1 and found[-1].seq > 14:
                self.pruning = False
                with hf.SyncCheckpointer(self) as other:
                    other.prune("run", keep_latest=1)
            return found

    store = Pruned()
    with hf.SyncCheckpointer(store) as cp:
        lines = [f"line {i}" for i in range(600)]
        for n in range(12):
            cp.save("run", {"n": n, "log": [*lines, n]})
        for n, seq in enumerate((4, 6, 8, 2)):
            cp.rollback("run", seq=seq)
            cp.save("run", {"n": f"again {n}", "log": [*lines, "again", n]})
    with hf.SyncCheckpointer(store) as cp:
        entries = store.read("run")
        store.pruning = True
        assert cp.export_run("run", tmp_path / "run.jsonl") == len(entries) + 1
    with hf.SyncCheckpointer("memory://") as other:
        other.import_run(tmp_path / "run.jsonl")
        assert other.verify("run").ok


def test_a_run_that_was_deleted_here_is_not_brought_back_by_an_import(tmp_path: Path) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        cp.save("run", 1)
        cp.export_run("run", tmp_path / "run.jsonl")
        cp.clear("run")
        with pytest.raises(hf.RunDeletedError, match="stays deleted; import it into another one"):
            cp.import_run(tmp_path / "run.jsonl")
