"""The disk is full: a typed error, nothing lost, and once there is room it goes on."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast as hf
from tests.crash.harness import judge, url_of
from tests.crash.history import Oracle, state_hash
from tests.waiting import run_process

RUN = "run-a"
LIMITS = {"sqlite": 500_000, "file": 50_000}  # of one file: a database, or a single entry
Relief = Callable[[], None]


@contextmanager
def small_disk(place: Path) -> Iterator[Relief | None]:
    """A 2 MB file system with 1 MB taken, and how to free that; None where mounting is not allowed."""
    mounted = run_process(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        yield None
        return
    try:
        filler = place / "filler"
        filler.write_bytes(bytes(1 << 20))
        yield filler.unlink
    finally:
        run_process(["umount", "-l", place], check=True)


@contextmanager
def small_files(limit: int) -> Iterator[Relief]:
    """No file of this process may grow beyond the limit, until relieved."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))

    def relieve() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    try:
        yield relieve
    finally:
        relieve()


def _fill(url: str, oracle_path: Path, relieve: Relief) -> None:
    oracle = Oracle(oracle_path, "worker")
    rng = random.Random(1)
    failures = 0

    def save(checkpointer: hf.SyncCheckpointer) -> hf.HoldfastError | None:
        op_id = oracle.next_id()
        state = {"op": op_id, "noise": rng.randbytes(rng.randrange(60_000))}
        call = oracle.begin("save", RUN, id=op_id, hash=state_hash(state))
        try:
            call.ack(seq=checkpointer.save(RUN, state).seq)
        except hf.HoldfastError as error:
            call.fail(error)
            return error
        return None

    with hf.SyncCheckpointer(url, deadline=0.2) as checkpointer:
        for _ in range(60):
            error = save(checkpointer)
            if error is not None:
                assert isinstance(error, hf.CheckpointSaveError)
                failures += 1
                if failures == 3:
                    break
        assert failures, "the disk did get full"
        assert checkpointer.load(RUN) is not None, "reading needs no room"
        relieve()
        for _ in range(3):
            assert save(checkpointer) is None, "there is room again"
    oracle.close()
    assert judge(url, oracle_path, min_acks=4) == []


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_full_disk_fails_saves_and_harms_nothing(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place) as relieve:
        if relieve is None:  # not allowed to mount: the same by a limit on files
            with small_files(LIMITS[kind]) as lift:
                _fill(url_of(kind, place), tmp_path / "oracle", lift)
        else:
            _fill(url_of(kind, place), tmp_path / "oracle", relieve)


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_file_that_may_not_grow_fails_saves_and_harms_nothing(kind: str, tmp_path: Path) -> None:
    with small_files(LIMITS[kind]) as relieve:
        _fill(url_of(kind, tmp_path), tmp_path / "oracle", relieve)
