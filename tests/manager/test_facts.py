"""Which claims of a task still count: facts, and what was observed of them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec import envelope, wrapping
from holdfast.evidence import Evidence, EvidencePack, EvidenceVerifier, Policy, file_evidence
from holdfast.manager import CheckpointManager, TaskCheckpoint
from holdfast.model import Entry

from .support import exists, step, unchanged


def holds(manager: CheckpointManager, checkpoint: TaskCheckpoint) -> bool:
    return manager.verify_checkpoint(checkpoint.checkpoint_id)


def observed(manager: CheckpointManager, checkpoint: TaskCheckpoint) -> Any:
    entry = manager.checkpointer.core.journals.entry("task", checkpoint.seq)
    assert entry is not None
    return json.loads(entry.meta)["evidence"]["observed"]


def test_that_a_file_exists_does_not_switch_off_its_digest(manager: CheckpointManager) -> None:
    Path("a").write_text("one")
    step(manager, {"n": 1}, unchanged("a"))
    later = step(manager, {"n": 2}, exists("a"))
    assert holds(manager, later)
    Path("a").write_text("two")
    assert not holds(manager, later)
    rewritten = step(manager, {"n": 3}, unchanged("a"))
    assert holds(manager, rewritten), "its new digest replaces the old one"


def test_one_name_in_two_directories_is_two_files(url: str, tmp_path: Path) -> None:
    with CheckpointManager(url) as manager, pytest.MonkeyPatch.context() as patch:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            patch.chdir(tmp_path / name)
            Path("out").write_text(name)
            newest = step(manager, {"n": name}, unchanged("out"))
        assert holds(manager, newest)
        (tmp_path / "one" / "out").write_text("changed")
        assert not holds(manager, newest), "what was claimed in the other directory still counts"


def test_a_manager_that_is_started_elsewhere_checks_where_it_was_claimed(
    kept_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a").write_text("one")
    with CheckpointManager(kept_url) as manager:
        made = step(manager, {"n": 1}, unchanged("a"))
    place = Path("a").absolute()
    monkeypatch.chdir(tmp_path)
    with CheckpointManager(kept_url) as manager:
        assert holds(manager, made)
        place.write_text("two")
        assert not holds(manager, made)


def test_a_claim_that_never_held_does_not_take_later_checkpoints_down(
    manager: CheckpointManager,
) -> None:
    Path("a").touch()
    optional = step(manager, {"n": 1}, exists("optional"))
    later = step(manager, {"n": 2}, exists("a"))
    assert observed(manager, optional)["status"] == "not satisfied"
    assert observed(manager, later)["status"] == "satisfied"
    assert not holds(manager, optional), "its own claims always count"
    assert holds(manager, later)
    Path("optional").touch()
    assert holds(manager, optional)


def test_a_claim_that_never_held_switches_nothing_off(manager: CheckpointManager) -> None:
    Path("a").write_text("one")
    step(manager, {"n": 1}, unchanged("a"))
    false = Evidence("file_sha256", "a", {"path": "a", "sha256": "0" * 64})
    step(manager, {"n": 2}, EvidencePack([false]))
    later = step(manager, {"n": 3}, exists("a"))
    assert holds(manager, later)
    Path("a").write_text("two")
    assert not holds(manager, later)


def test_a_false_claim_among_enough_true_ones_switches_nothing_off(
    manager: CheckpointManager,
) -> None:
    Path("a").write_text("one")
    step(manager, {"n": 1}, unchanged("a"))
    false = Evidence("file_sha256", "a", {"path": "a", "sha256": "0" * 64})
    there = Evidence("artifact_exists", "a", {"path": "a"})
    enough = EvidencePack([false, there], False, True, 1)
    later = step(manager, {"n": 2}, enough)
    assert observed(manager, later)["claims"] == {false.digest: {"unproven": True}}
    assert holds(manager, later)
    Path("a").write_text("two")
    assert not holds(manager, later)


def test_what_was_not_checked_when_it_was_saved_still_counts(url: str) -> None:
    with CheckpointManager(url, auto_verify=False) as manager:
        first = step(manager, {"n": 1}, exists("gone"))
        later = step(manager, {"n": 2}, exists("a"))
        Path("a").touch()
        assert observed(manager, first)["status"] == "unchecked"
        assert not holds(manager, later)


def test_a_policy_that_is_narrowed_later_is_heard(manager: CheckpointManager) -> None:
    Path("a").touch()
    made = step(manager, {"n": 1}, unchanged("a"))
    assert holds(manager, made)
    roots = (Path("elsewhere").absolute(),)
    manager.verifier.policy = Policy(roots=roots)
    assert not holds(manager, made)
    wide = EvidenceVerifier()
    evidence = file_evidence(Path("a").absolute())
    assert wide.verify_evidence(evidence)
    wide.policy = Policy(roots=roots)
    assert not wide.verify_evidence(evidence)
    assert "none of the roots" in str(evidence.verification_error)


def test_the_columns_of_a_row_are_facts_of_their_own(url: str, tmp_path: Path) -> None:
    path = tmp_path / "own.sqlite"

    def write(sql: str) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(sql)

    def row(**values: Any) -> EvidencePack:
        expected = {"table": "jobs", "where": {"id": 7}, "values": values}
        return EvidencePack([Evidence("db_row", "job 7", expected)])

    write("CREATE TABLE jobs (id INTEGER, state TEXT, owner TEXT)")
    write("INSERT INTO jobs VALUES (7, 'new', 'ann')")
    with CheckpointManager(url, policy=Policy(connections={"default": path})) as manager:
        step(manager, {"n": 1}, row(state="new", owner="ann"))
        write("UPDATE jobs SET state = 'done'")
        later = step(manager, {"n": 2}, row(state="done"))
        assert holds(manager, later), "the newer claim replaces the state"
        write("UPDATE jobs SET owner = 'bob'")
        assert not holds(manager, later), "and not the owner"


@pytest.mark.parametrize("removed", [False, True], ids=["edited", "removed"])
def test_an_edited_claim_is_not_believed_even_if_its_checksum_fits(
    tmp_path: Path, removed: bool
) -> None:
    """The states are large, so that they are stored as changes to each other."""
    path = tmp_path / "tasks.db"
    with CheckpointManager(db_path=path) as manager:
        made = []
        for n, name in enumerate("zab"):
            Path(name).write_text(f"the content of {name}")
            made.append(step(manager, {"n": n, "data": list(range(5000))}, unchanged(name)))
        seq = made[1].seq
        old = file_evidence("a").expected["sha256"]
    Path("a").write_text("tampered content")
    new = file_evidence("a").expected["sha256"]
    with closing(sqlite3.connect(path)) as db, db:
        where = "WHERE run = 'task' AND seq = ?"
        (row,) = db.execute(f"SELECT * FROM holdfast_entries {where}", [seq])
        entry = Entry._make(row)
        assert envelope.check(entry).is_delta
        forged = entry._replace(meta=entry.meta.replace(old, new).replace('"size":', '"was":'))
        forged = forged._replace(meta=forged.meta.replace('"was":16', '"size":16'))
        if removed:
            forged = forged._replace(meta="")
        stored = envelope.check(entry)
        checksum = envelope._checksum(
            forged.digest, envelope._clear(forged), stored.flags, b"", stored.content
        )
        body = wrapping.wrap(stored.flags, checksum, b"", stored.content)
        db.execute(
            f"UPDATE holdfast_entries SET meta = ?, body = ? {where}", [forged.meta, body, seq]
        )
    with CheckpointManager(db_path=path) as manager:
        found = manager.get_last_verified_checkpoint("task")
        assert found is not None
        assert found.seq == made[0].seq, "nobody knows what is claimed after it"
        with pytest.raises(hf.CheckpointCorruptedError, match=f"task@{seq} is damaged"):
            manager.verify_checkpoint(made[2].checkpoint_id)
