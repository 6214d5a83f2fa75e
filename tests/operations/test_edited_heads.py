"""What answers about a run believes nothing of a newest entry that somebody edited."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.keys.keyring import Keyring
from holdfast.model import Entry
from holdfast.operations import listing
from holdfast.workflow import step, workflow
from tests.keys.forging import RING

OTHER_RING = Keyring({"2031": bytes(range(32))})


@step(inline=True)
def charge() -> None:
    raise ValueError("declined")


@workflow
async def order() -> None:
    await charge()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Two runs that failed, o1 and o2."""
    path = tmp_path / "runs.db"
    with hf.Engine(f"sqlite:///{path}") as engine:
        for run_id in ("o1", "o2"):
            with pytest.raises(hf.StepFailedError, match="declined"):
                engine.run_sync(order(), run_id=run_id)
    return path


def edit(path: Path, change: str = "status = 'completed'", run: str = "o1") -> int:
    """Change the newest entry of a run as somebody with SQL does; returns its seq."""
    with closing(sqlite3.connect(path)) as db, db:
        newest = "SELECT max(seq) FROM holdfast_entries WHERE run = ?"
        seq: int = db.execute(newest, (run,)).fetchone()[0]
        db.execute(
            f"UPDATE holdfast_entries SET {change} WHERE run = ? AND seq = ?",
            (run, seq),
        )
    return seq


def test_an_edited_status_is_an_error_that_names_the_entry(db: Path) -> None:
    with hf.Engine(f"sqlite:///{db}", flows=[order]) as engine:
        assert engine.status_sync("o1") == "failed"
        seq = edit(db)
        with pytest.raises(hf.CheckpointCorruptedError, match=f"o1@{seq} is damaged"):
            engine.status_sync("o1")
        with pytest.raises(hf.CheckpointCorruptedError, match=f"o1@{seq} is damaged"):
            engine.outcome_sync("o1", timeout=5)
        with pytest.raises(hf.CheckpointNotFoundError):
            engine.status_sync("none")


def test_a_run_with_an_edited_end_is_marked_and_as_it_was_before(db: Path) -> None:
    seq = edit(db)
    with hf.SyncCheckpointer(db) as cp:
        found, other = cp.run("o1"), cp.run("o2")
        assert found is not None
        assert other is not None
        assert found.damage is not None
        assert found.damage.startswith(f"o1@{seq}: its checksum")
        assert found.seq < seq
        assert found.status == "running"
        assert (other.status, other.damage) == ("failed", None)


def test_a_page_of_runs_is_proved_with_two_reads(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hf.SyncCheckpointer(db) as cp:
        reads: list[int] = []
        store = cp.core.journals.store
        entries_at = store.entries_at

        def counted(places: Sequence[tuple[str, int]], *, bodies: bool = False) -> list[Entry]:
            reads.append(len(places))
            return entries_at(places, bodies=bodies)

        monkeypatch.setattr(store, "entries_at", counted)
        listed = cp.runs()
        reads.clear()
        assert listing.proved(cp.core, listed) == listed
        assert reads == [4, 2]
        edit(db)
        marks = {run.run_id: bool(run.damage) for run in listing.proved(cp.core, cp.runs())}
        assert marks == {"o1": True, "o2": False}


@pytest.mark.parametrize("change", ["digest = x'00'", "body = x''", "size = 9000000", "flow = 'x'"])
def test_whatever_was_edited_is_marked(db: Path, change: str) -> None:
    edit(db, change)
    with hf.SyncCheckpointer(db) as cp:
        [found] = [run for run in listing.proved(cp.core, cp.runs()) if run.run_id == "o1"]
        one = cp.run("o1")
        assert one is not None
        assert found.damage
        assert found.damage == one.damage


@pytest.mark.parametrize("key", [None, OTHER_RING])
def test_a_reader_without_the_key_proves_by_digests(tmp_path: Path, key: Keyring | None) -> None:
    path = tmp_path / "sealed.db"
    with hf.SyncCheckpointer(path, key=RING) as cp:
        cp.save("o1", 1)
        cp.save("o1", 2)
    with hf.SyncCheckpointer(path, key=key) as cp:
        intact = cp.run("o1")
        assert intact is not None
        assert intact.damage is None
        assert listing.proved(cp.core, cp.runs()) == [intact]
        edit(path)
        marked = cp.run("o1")
        assert marked is not None
        assert marked.damage
        assert marked.seq == intact.seq - 1
    with hf.SyncCheckpointer(path, key=RING) as cp:
        assert listing.proved(cp.core, cp.runs()) == [cp.run("o1")] == [marked]
