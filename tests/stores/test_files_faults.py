from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from holdfast import seams
from holdfast.errors import OutcomeUnknownError, StoreError
from holdfast.model import Entry, stub
from holdfast.store import Store
from holdfast.stores.files.store import FileStore
from holdfast.testing.contract import check_store, entry
from holdfast.testing.invariants import tombstone
from tests.waiting import in_time

THIN_POINTS = ["intent", "marked", "committed", "applying", "applied", "done"]
APPEND_POINTS = ["temp", "linked", "synced"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def store(root: Path) -> Iterator[FileStore]:
    with closing(FileStore(root)) as store:
        yield store
        seams.set_fault_hook(None)


# failing disks


def _failing(
    call: Callable[..., object], code: int, when: Callable[[int], bool]
) -> Callable[..., object]:
    calls = 0

    def fail(*arguments: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        if when(calls):
            raise OSError(code, os.strerror(code))
        return call(*arguments, **keywords)

    return fail


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("name", ["write", "fsync", "link", "mkdir", "open"])
def test_a_failing_call_is_never_acknowledged(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    """At every call in turn: what is said fits what is there, and the next try works."""
    original: Callable[..., object] = getattr(os, name)
    for place in range(1, 30):
        path = root / str(place)
        with closing(FileStore(path)) as store:
            store.append([entry("old", 0)])
            first = [entry("old", 1, b"x"), entry("new", 0, b"y")]
            with monkeypatch.context() as patch:
                patch.setattr(os, name, _failing(original, code, lambda n, at=place: n == at))  # type: ignore[misc]
                try:
                    assert store.append(first) == [True, True]
                    return
                except OutcomeUnknownError:
                    unknown = True
                except StoreError:
                    unknown = False
            found = {item.entry_id for run in ("old", "new") for item in store.read(run)}
            assert unknown or not found & {item.entry_id for item in first}
            mine = [item.entry_id in found for item in first]
            again = store.append(
                [item for item, there in zip(first, mine, strict=True) if not there]
            )
            assert all(again)
            assert check_store(store) == []
            assert list((path / ".tmp").rglob("*.*")) == []
    pytest.fail("there is no end to the calls")


@pytest.mark.parametrize("name", ["write", "fsync", "link", "rename", "mkdir"])
def test_a_trim_on_a_failing_disk_is_whole_or_not_there(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    original: Callable[..., object] = getattr(os, name)
    for place in range(1, 40):
        with closing(FileStore(root / str(place))) as store:
            before = [entry("run", seq, b"old") for seq in range(4)]
            store.append(before)
            marker = entry("run", 4)
            after = [before[0]._replace(body=b"new"), stub(before[1]), *before[2:], marker]
            with monkeypatch.context() as patch:
                patch.setattr(os, name, _failing(original, errno.EIO, lambda n, at=place: n == at))  # type: ignore[misc]
                try:
                    assert store.trim(marker, {0: b"new", 1: None})
                    return
                except OutcomeUnknownError:
                    expected = after
                except StoreError:
                    expected = before
            assert store.read("run") == expected
            assert store.append([entry("run", len(expected))]) == [True]
            assert not (root / str(place) / "run" / ".intent").exists()
    pytest.fail("there is no end to the calls")


def test_a_failed_sync_is_not_tried_again(
    store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append([entry("run", 0)])
    synced: list[int] = []

    def fsync(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreError, match="broken"):
        store.append([entry("run", 1)])
    assert len(synced) == 1


def test_a_read_only_file_system_can_be_read(
    store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append([entry("run", 0)])
    original = os.open

    def read_only(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return original(path, flags, mode, dir_fd=dir_fd)

    with closing(FileStore(root)) as reader:
        monkeypatch.setattr(os, "open", read_only)
        assert len(reader.read("run")) == 1
        assert len(reader.runs()) == 1
        assert reader.stats().checkpoints == 0
        with pytest.raises(StoreError, match="Read-only"):
            reader.append([entry("new", 0)])


def test_a_store_that_others_keep_locked_is_unavailable_in_time(root: Path) -> None:
    with closing(FileStore(root, lock_seconds=0.2)) as store:
        store.append([entry("run", 0)])
        fd = os.open(root / ".lock", os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX)
        with in_time(), pytest.raises(StoreError, match="locked"):
            store.append([entry("run", 1)])
        assert len(store.read("run")) == 1, "readers need no lock"
        os.close(fd)
        assert store.append([entry("run", 1)]) == [True]


# crashes


class _CrashError(Exception):
    pass


def _raise_at(point: str) -> Callable[[str], None]:
    def hook(passed: str) -> None:
        if passed == point:
            raise _CrashError

    return hook


def _die_at(point: str, nth: int, opener: Callable[[], Store], work: str) -> None:
    passed = 0

    def hook(name: str) -> None:
        nonlocal passed
        passed += name == point
        if name == point and passed == nth:
            os._exit(9)

    store = opener()
    seams.set_fault_hook(hook)
    _work(store, work)
    os._exit(0)


def _work(store: Store, work: str) -> None:
    if work == "append":
        store.append([entry("run", 4, b"new"), entry("run", 5, b"new"), entry("fresh", 0, b"new")])
    elif work == "trim":
        store.trim(entry("run", 4, b"marker"), {0: b"new", 1: b"new", 2: None})
    else:
        store.erase(tombstone("run", 4))


def _die(root: Path, point: str, nth: int, work: str) -> int:
    """In a forked child: a real exit, with nothing cleaned up and every lock dropped."""
    child = multiprocessing.get_context("fork").Process(
        target=_die_at, args=(point, nth, partial(FileStore, root), work)
    )
    child.start()
    child.join(30)
    assert child.exitcode is not None
    return child.exitcode


CRASHES = [
    *(("append", f"file.append.{point}", 1) for point in APPEND_POINTS),
    *((work, f"file.thin.{point}", 1) for work in ("trim", "erase") for point in THIN_POINTS),
    ("trim", "file.thin.applying", 3),
    ("erase", "file.thin.applying", 4),
]


@pytest.mark.parametrize("dies", [True, False], ids=["exit", "exception"])
@pytest.mark.parametrize(("work", "point", "nth"), CRASHES)
def test_a_crash_at_any_point_leaves_all_or_nothing(
    root: Path, work: str, point: str, nth: int, dies: bool
) -> None:
    before = [entry("run", seq, b"old") for seq in range(4)]
    with closing(FileStore(root)) as store:
        store.append(before)
        if dies:
            assert _die(root, point, nth, work) == 9
        else:
            seams.set_fault_hook(_raise_at(point))
            with pytest.raises(_CrashError):
                _work(store, work)
            seams.set_fault_hook(None)
        # The one that was open all along and a new one see the same, whoever repairs it.
        with closing(FileStore(root)) as other:
            journal = other.read("run")
            assert store.read("run") == journal
        _assert_whole(journal, before, work, point)
        assert store.append([entry("run", journal[-1].seq), entry("run", 9)]) == [False, False]
        assert store.append([entry("run", journal[-1].seq + 1)]) == [True]
        assert check_store(store) == []
    with closing(FileStore(root)) as store:
        store.append([entry("other", 0)])  # the first write of a store sweeps
        assert check_store(store) == []
    assert list((root / ".tmp").iterdir()) == []
    assert not (root / "run" / ".intent").exists()


def _assert_whole(journal: list[Entry], before: list[Entry], work: str, point: str) -> None:
    reached = not point.endswith((".intent", ".temp"))
    if work == "append":
        assert [item.body for item in journal] == [b"old"] * 4 + [b"new"] * (2 * reached)
    elif work == "erase" and reached:
        assert [item.kind for item in journal] == ["tombstone"]
    elif reached:
        assert [item.body for item in journal] == [b"new", b"new", b"", b"old", b"marker"]
        assert journal[2] == stub(before[2])
    else:
        assert journal == before


def test_a_repair_may_crash_too(root: Path) -> None:
    before = [entry("run", seq, b"old") for seq in range(4)]
    with closing(FileStore(root)) as store:
        store.append(before)
    assert _die(root, "file.thin.marked", 1, "trim") == 9
    for point in ("committed", "applying", "applying", "applied"):
        assert _die(root, f"file.thin.{point}", 1, "append") == 9
    with closing(FileStore(root)) as store:
        _assert_whole(store.read("run"), before, "trim", "file.thin.marked")
        assert check_store(store) == []


def test_a_sweep_leaves_the_temporary_files_of_live_stores_alone(root: Path) -> None:
    with closing(FileStore(root)) as live:
        live.append([entry("run", 0)])
        assert _die(root, "file.append.temp", 1, "append") == 9
        assert len(list((root / ".tmp").iterdir())) == 2
        seen = []

        def sweep(point: str) -> None:
            if point == "file.append.temp":
                seams.set_fault_hook(None)
                with closing(FileStore(root)) as other:
                    seen.append(other.append([entry("other", 0)]))

        seams.set_fault_hook(sweep)
        assert live.append([entry("run", 1)]) == [True]
        assert seen == [[True]]
        assert len(list((root / ".tmp").iterdir())) == 1
    assert list((root / ".tmp").iterdir()) == []


def test_an_acknowledged_append_is_synced_file_first(
    store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def spy_fsync(fd: int) -> None:
        steps.append(f"fsync {Path(f'/proc/self/fd/{fd}').readlink().name}"[:10])
        fsync(fd)

    def spy_link(*arguments: str, **keywords: int) -> None:
        steps.append("link")
        link(*arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "link", spy_link)
    store.append([entry("run", 0), entry("run", 1)])
    assert len(steps) == 6
    assert steps[2:] == ["link", "link", "fsync run", "fsync runs"]
    steps.clear()
    store.append([entry("run", 2)])
    assert steps[1:] == ["link", "fsync run"]
