"""Exports, archives and receipts are their owner's only, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.operations.private_files import replacing


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def cp() -> Iterator[hf.SyncCheckpointer]:
    with hf.SyncCheckpointer("memory://") as checkpointer:
        checkpointer.save("run", 1)
        yield checkpointer


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("name", ["run.jsonl", "run.json"])
def test_an_export_is_private(cp: hf.SyncCheckpointer, tmp_path: Path, name: str) -> None:
    cp.export_runs(["run"], tmp_path / name, form="json" if name.endswith("n") else "jsonl")
    assert mode(tmp_path / name) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet", "rows.duckdb"])
def test_a_table_is_private(cp: hf.SyncCheckpointer, tmp_path: Path, name: str) -> None:
    cp.export_checkpoints(tmp_path / name)
    assert mode(tmp_path / name) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_nobody_can_read_an_export_while_it_is_written(tmp_path: Path) -> None:
    with replacing(tmp_path / "it") as partial:
        partial.write_text("half")  # as a library does that knows nothing of modes
        (beside,) = tmp_path.iterdir()
        assert mode(beside) == 0o700
    assert mode(tmp_path / "it") == 0o600


def test_a_file_that_is_replaced_keeps_its_mode(cp: hf.SyncCheckpointer, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("old")
    path.chmod(0o640)
    cp.export_run("run", path)
    assert mode(path) == 0o640
    assert "holdfast_export" in path.read_text()


def test_a_failed_export_leaves_nothing(cp: hf.SyncCheckpointer, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        cp.export_run("run", tmp_path / "gone" / "run.jsonl")
    assert missing.value.filename == str(tmp_path / "gone" / "run.jsonl")
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "it") as partial:
        partial.write_text("half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_an_archive_is_private(tmp_path: Path) -> None:
    archive = tmp_path / "deep" / "archive"
    keep = hf.Retention(keep_latest=1, archive=archive)
    with hf.SyncCheckpointer("memory://", retention=keep) as cp:
        for n in range(3):
            cp.save("run", n)
        cp.apply_retention()
    (file,) = archive.iterdir()
    assert (mode(archive.parent), mode(archive), mode(file)) == (0o700, 0o700, 0o600)


def test_the_archive_of_a_whole_run_is_private(tmp_path: Path) -> None:
    keep = hf.Retention(run_ttl=timedelta(microseconds=1), archive=tmp_path / "archive")
    with hf.SyncCheckpointer("memory://", retention=keep) as cp:
        cp.save("run", 1, status="completed")
        cp.apply_retention()
    (file,) = (tmp_path / "archive").iterdir()
    assert mode(file) == 0o600


@pytest.mark.parametrize("kind", ["pipe", "directory", "standard output"])
def test_what_is_no_regular_file_is_not_replaced_by_one(
    cp: hf.SyncCheckpointer, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "it"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/proc/self/fd/1")  # as /dev/stdout is
    before = path.lstat()
    with pytest.raises(OSError, match="only a regular file can be replaced"):
        cp.export_runs(["run"], path)
    assert (path.lstat().st_mode, path.lstat().st_ino) == (before.st_mode, before.st_ino)
