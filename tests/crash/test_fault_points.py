"""The process dies at every named fault point of every operation: the store is whole and usable."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import holdfast as hf
from tests import faults
from tests.conftest import Survived
from tests.crash import worker
from tests.crash.harness import RUNS, ForkServer, fork_server, judge, url_of

OPS = ("save", "fork", "rollback", "prune", "delete", "clear")


@pytest.fixture
def server() -> ForkServer:
    return fork_server()


def _job(kind: str, place: Path, name: str, op: str, ops: int, kill_at: int = 0) -> worker.Job:
    return worker.Job(
        url_of(kind, place), str(place / "oracle"), name, RUNS[:1],
        lanes=1, ops=ops, only=[op], kill_at=kill_at,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["sqlite", "file"])
@pytest.mark.parametrize("op", OPS)
def test_a_kill_at_any_fault_point_leaves_a_whole_store(
    kind: str, op: str, tmp_path: Path, server: ForkServer, survived: Survived
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    worker.work(_job(kind, model, "past", "save", 8))
    with faults.record() as points:
        worker.work(_job(kind, model, "worker", op, 1))
    assert len(points) >= 2, f"{op} passes fault points"
    for k, point in enumerate(points, 1):
        place = tmp_path / str(k)
        place.mkdir()
        worker.work(_job(kind, place, "past", "save", 8))
        status = server.wait(
            server.start(**_job(kind, place, "worker", op, 1, kill_at=k)._asdict())
        )
        assert status == -signal.SIGKILL, f"{point} was not reached: {server.errors()}"
        found = judge(url_of(kind, place), place / "oracle", min_acks=8)
        assert not found, f"killed at {point}: {list(map(str, found))}"
        with hf.SyncCheckpointer(url_of(kind, place)) as checkpointer:
            saved = checkpointer.save(RUNS[0], {"usable": "again"})
            assert checkpointer.load(RUNS[0]) == saved
            assert checkpointer.verify(RUNS[0]).ok
    survived("kills at fault points", len(points))


def test_every_fault_point_there_is_was_visited(tmp_path: Path) -> None:
    source = Path(hf.__file__).parent
    named = {
        name
        for path in source.rglob("*.py")
        for name in re.findall(r'\bfault\("([^"]+)"', path.read_text())
        if not name.startswith(("postgres.", "mysql.", "schema."))  # tests/servers kills there
        if not name.startswith("keys.")  # tests/keys kills there
        if name != "sqlite.wal.shrink"  # only after a long reader: tests/stores fails there
    }
    visited: set[str] = set()
    for kind in ("sqlite", "file"):
        place = tmp_path / kind
        place.mkdir()
        worker.work(_job(kind, place, "past", "save", 8))
        with faults.record() as points:
            for op in OPS:
                worker.work(_job(kind, place, f"worker-{op}", op, 1))
        visited |= set(points)
    assert named - visited == set()
