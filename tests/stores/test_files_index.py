"""The heads index of a file store heals itself: no save keeps it, and no damage to it loses a run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.store import RunFilter, Store
from holdfast.stores.files import index
from holdfast.stores.files import run as journal
from holdfast.stores.files.store import FileStore
from holdfast.testing.contract import check_store, entry
from holdfast.testing.invariants import tombstone
from tests import faults


def runs(store: Store, where: RunFilter = RunFilter()) -> list[str]:
    return [row.run for row, _ in store.listed(where)]


def fill(path: Path) -> None:
    with closing(FileStore(path)) as store:
        store.append([entry(f"run-{n}", seq, at=n) for n in range(4) for seq in range(3)])
        store.append([entry("run-1", 3, status="failed")])
        assert store.counts() == {"open": 3, "failed": 1}


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def replace_by_a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def replace_by_a_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/passwd")


def replace_by_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


DAMAGES: list[Callable[[Path], object]] = [
    Path.unlink, cut_short, replace_by_a_directory, replace_by_a_link, replace_by_a_pipe,
    lambda file: file.write_bytes(b""), lambda file: file.write_bytes(b"x" * 99),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_a_missing_or_damaged_index_is_made_anew(tmp_path: Path, number: int) -> None:
    fill(tmp_path)
    file = tmp_path / ".heads"
    assert file.is_file()
    DAMAGES[number](file)
    for _ in range(2):
        with closing(FileStore(tmp_path)) as store:
            assert store.append([entry("run-1", len(store.read("run-1")))]) == [True]
            assert store.counts() == {"open": 4}
            assert check_store(store) == []


def test_an_old_index_is_brought_up_to_date(tmp_path: Path) -> None:
    fill(tmp_path)
    file = tmp_path / ".heads"
    old = file.read_bytes()
    with closing(FileStore(tmp_path)) as store:
        store.append([entry("run-2", 3, status="paused"), entry("new", 0, at=99)])
        store.erase(tombstone("run-0", 3))
    shutil.rmtree(tmp_path / "run-3")
    file.write_bytes(old)
    with closing(FileStore(tmp_path)) as store:
        assert store.counts() == {"open": 1, "failed": 1, "paused": 1}
        assert runs(store) == ["new", "run-2", "run-1"]
        assert check_store(store) == []


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_run_whose_writer_was_killed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry is there, and nobody was told."""
    with closing(FileStore(tmp_path)) as reader, closing(FileStore(tmp_path)) as writer:
        writer.append([entry("before", 0)])
        assert runs(reader) == ["before"]
        with monkeypatch.context() as patch:
            patch.setattr("holdfast.stores.files.root._count", lambda fd: None)
            with (
                faults.at("file.append.linked", interrupt),
                pytest.raises(KeyboardInterrupt),
            ):
                writer.append([entry("lost", 0)])
        with closing(FileStore(tmp_path)) as another:
            assert sorted(runs(another)) == ["before", "lost"]
        monkeypatch.setattr(index, "_LOOK_SECONDS", -1.0)  # that time is over
        assert sorted(runs(reader)) == ["before", "lost"]


def test_who_may_not_write_the_index_does_without(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / ".heads").unlink()
    with closing(FileStore(tmp_path)) as store:
        (tmp_path / ".heads").mkdir()
        assert store.rebuild() == 0
        assert store.counts() == {"open": 3, "failed": 1}
        assert store.append([entry("run-1", 4)]) == [True]
        assert store.counts() == {"open": 4}


def test_only_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    read: list[tuple[str, int]] = []
    real = journal.load

    def load(run: int, name: str, seq: int, bodies: bool) -> object:
        read.append((name, seq))
        return real(run, name, seq, bodies)

    with closing(FileStore(tmp_path)) as store:
        store.append([entry("run-2", 3, status="paused")])
        monkeypatch.setattr(journal, "load", load)
        assert store.counts() == {"open": 2, "failed": 1, "paused": 1}
        assert read == [("run-2", 2), ("run-2", 3)]
        assert store.counts() == {"open": 2, "failed": 1, "paused": 1}
        assert len(read) == 2


def test_a_run_with_a_damaged_entry_is_listed_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / ".heads").unlink()
    damaged = tmp_path / "run-1" / "0000000003.json"
    good = damaged.read_bytes()
    damaged.write_bytes(b"junk")
    with closing(FileStore(tmp_path)) as store:
        assert runs(store) == ["run-3", "run-2", "run-1", "run-0"]
        assert store.counts() == {"open": 4}
        assert store.rebuild(write=False) == 0
    damaged.write_bytes(good)
    with closing(FileStore(tmp_path)) as store:
        store.append([entry("run-1", 4, status="failed", term=3)])
        assert store.counts() == {"open": 3, "failed": 1}
        assert check_store(store) == []
