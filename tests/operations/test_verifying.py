from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.codec import envelope
from holdfast.evidence import Evidence, EvidencePack
from holdfast.manager import CheckpointManager
from holdfast.model import Entry
from holdfast.stores import MemoryStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        for n in range(8):
            cp.save("run", {"n": n, "log": [f"line {i}" for i in range(900 + n)]}, step=f"s{n}")
        cp.save("other", {"n": 0, "log": [f"line {i}" for i in range(900)]})
    return path


def tamper(path: Path, statement: str, *parameters: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(statement, parameters).rowcount == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE holdfast_entries SET step = 'forged' WHERE run = 'run' AND seq = 8",
        "UPDATE holdfast_entries SET status = 'paused' WHERE run = 'run' AND seq = 8",
        "UPDATE holdfast_entries SET at = at + 1 WHERE run = 'run' AND seq = 8",
        "UPDATE holdfast_entries SET meta = '{}' WHERE run = 'run' AND seq = 8",
        "UPDATE holdfast_entries SET owner = 'eve' WHERE run = 'run' AND seq = 8",
        "UPDATE holdfast_entries SET parent = 3 WHERE run = 'run' AND seq = 8",
        "UPDATE holdfast_entries SET digest = zeroblob(32) WHERE run = 'run' AND seq = 8",
        "UPDATE holdfast_entries SET body = (SELECT body FROM holdfast_entries WHERE run = 'run' AND seq = 7)"
        " WHERE run = 'run' AND seq = 8",
        "UPDATE holdfast_entries SET body = (SELECT body FROM holdfast_entries WHERE run = 'other' AND seq = 1)"
        " WHERE run = 'run' AND seq = 8",
        "UPDATE holdfast_entries SET body = substr(body, 1, length(body) - 1) WHERE run = 'run' AND seq = 8",
        "UPDATE holdfast_entries SET body = x'' WHERE run = 'run' AND seq = 8",
    ],
)
def test_an_altered_checkpoint_is_refused_and_does_not_hide_the_good_ones(
    path: Path, statement: str
) -> None:
    tamper(path, statement)
    with hf.SyncCheckpointer(path) as cp:
        with pytest.raises(hf.CheckpointCorruptedError, match="holdfast show run") as caught:
            cp.load("run")
        assert isinstance(caught.value, ValueError)
        good = cp.load("run", seq=7)
        assert good is not None
        assert good.state["n"] == 6
        assert cp.verify("run").problems[0].seq == 8
        assert cp.verify("other").ok
        assert len(cp.list_checkpoints("run")) == 8
        saved = cp.save("run", {"n": "whole again", "log": ["x"] * 3000})
        loaded = cp.load("run")
        assert loaded == saved


def test_a_damaged_link_is_named_by_every_state_that_needs_it(path: Path) -> None:
    tamper(path, "UPDATE holdfast_entries SET body = zeroblob(50) WHERE run = 'run' AND seq = 4")
    with hf.SyncCheckpointer(path) as cp:
        for seq in (1, 2, 3):
            assert cp.load("run", seq=seq) is not None
        for seq in (4, 5, 8):
            with pytest.raises(hf.CheckpointCorruptedError):
                cp.load("run", seq=seq)


def test_a_missing_entry_is_found(path: Path) -> None:
    tamper(path, "DELETE FROM holdfast_entries WHERE run = 'run' AND seq = 4")
    with hf.SyncCheckpointer(path) as cp:
        reasons = [str(problem) for problem in cp.verify("run").problems]
        assert "run@4: the entry is missing" in reasons


def test_a_rewritten_history_breaks_the_chain(path: Path) -> None:
    """A forger who recomputes every checksum still can't reproduce the digests that follow."""
    with hf.SyncCheckpointer("memory://") as forger:
        for n in range(8):
            forger.save("run", {"n": n * 1000}, step=f"s{n}")
        forged = forger.store.read("run", after=3, limit=1)[0]
    placeholders = ", ".join("?" * len(Entry._fields))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"INSERT OR REPLACE INTO holdfast_entries VALUES ({placeholders})", forged)
    with hf.SyncCheckpointer(path) as cp:
        assert {4, 5} <= {problem.seq for problem in cp.verify("run").problems}


def test_random_mutations_of_the_database_never_give_a_wrong_state(
    path: Path, tmp_path: Path
) -> None:
    original = path.read_bytes()
    good = [{"n": n, "log": [f"line {i}" for i in range(900 + n)]} for n in range(8)]
    rng = random.Random(20261115)
    copy = tmp_path / "mutated.db"
    refused = 0
    for _ in range(300):
        mutated = bytearray(original)
        for _ in range(rng.randint(1, 3)):
            mutated[rng.randrange(len(mutated))] ^= 1 << rng.randrange(8)
        copy.write_bytes(mutated)
        for suffix in ("-wal", "-shm"):
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)
        try:
            with hf.SyncCheckpointer(copy) as cp:
                for seq in range(1, 9):
                    loaded = cp.load("run", seq=seq)
                    assert loaded is None or loaded.state == good[seq - 1]
        except hf.HoldfastError:
            refused += 1
    assert refused > 10, "the mutations were not harmless"


def test_verifying_what_is_not_there_says_so(cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.verify("nowhere")


@pytest.mark.parametrize("meta", ["{", "7", '{"iteration": NaN}', "[" * 100_000])
def test_no_fork_is_made_of_damaged_metadata_that_fits_its_checksum(meta: str) -> None:
    store = MemoryStore()
    with hf.SyncCheckpointer(store) as cp:
        cp.save("run", {"n": 1})
        opening, saved = store.read("run")
    flags, content, *_ = envelope.check(saved)
    packed = envelope.Packed(flags, content, envelope.prove(flags, content))
    saved = saved._replace(meta=meta)
    altered = MemoryStore()
    altered.append([opening, envelope.seal(saved[:6], saved[7:18], opening.digest, packed)])
    with hf.SyncCheckpointer(altered) as cp:
        assert cp.load("run").state == {"n": 1}  # type: ignore[union-attr]
        with pytest.raises(hf.CheckpointCorruptedError, match="metadata"):
            cp.fork("run")


def test_a_tombstone_that_was_altered_is_a_problem_that_verify_reports() -> None:
    store = MemoryStore()
    with hf.SyncCheckpointer(store) as cp:
        cp.save("run", {"n": 1})
        cp.clear("run")
        cp.save("run", {"n": 2})
        tombstone, *others = store.read("run")
    altered = MemoryStore()
    altered.append([tombstone._replace(meta='{"after": "no"}'), *others])
    with hf.SyncCheckpointer(altered) as cp:
        assert cp.verify("run").problems[0].seq == tombstone.seq


def test_verdicts_that_were_altered_are_a_problem_too(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with CheckpointManager(path) as manager:
        begun = manager.begin_step("task", "manual_checkpoint", {"n": 1})
        claim = Evidence("artifact_exists", "it is there", {"path": str(path), "type": "file"})
        manager.commit_step(begun, EvidencePack([claim]))
    with hf.SyncCheckpointer(path) as cp:
        assert cp.verify("task").ok
    tamper(
        path,
        "UPDATE holdfast_entries SET body = substr(body, 1, length(body) - 1) WHERE kind = 'verdict'",
    )
    with hf.SyncCheckpointer(path) as cp:
        (problem,) = cp.verify("task").problems
        assert "its verdicts" in str(problem)
