from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.changes import Change
from holdfast.errors import (
    CheckpointCorruptedError,
    OutcomeUnknownError,
    SchemaError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.model import HIDDEN, Entry, check_id
from holdfast.store import Store
from holdfast.stores.files import format as form
from holdfast.stores.files import run as run_module
from holdfast.stores.files.store import FileStore
from holdfast.testing.contract import HOSTILE_IDS, PersistentStoreContract, check_store, entry
from holdfast.testing.corpus import HOSTILE_BODIES
from holdfast.testing.invariants import tombstone
from holdfast.testing.machine import make_store_machine
from tests.effort import examples


class TestFileStore(PersistentStoreContract):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Callable[[], Store]:
        return partial(FileStore, tmp_path / "runs")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def store(root: Path) -> Iterator[FileStore]:
    with closing(FileStore(root)) as store:
        yield store


# In memory when there is room for it: the machine is about logic, and waits for every fsync.
_SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None


@pytest.fixture(scope="module", autouse=True)
def scratch() -> Iterator[None]:
    global _scratch
    with tempfile.TemporaryDirectory(dir=_SCRATCH) as name:
        _scratch = Path(name)
        yield


_scratch: Path


def _new_files() -> Callable[[], Store]:
    return partial(FileStore, tempfile.mkdtemp(dir=_scratch))


TestFilesAgainstADict = make_store_machine(_new_files, derived=True).TestCase
TestFilesAgainstADict.settings = settings(
    max_examples=examples(10),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


# what people find


def test_an_entry_is_a_json_document_people_can_read(store: FileStore, root: Path) -> None:
    body = b'{"messages": ["h\xc3\xa9llo"], "n": 1}'
    given = entry("run-1", 3, body, step="fetch", meta='{"by":"me"}', at=1_700_000_000_123_456)
    store.append([*(entry("run-1", seq) for seq in range(3)), given])
    document = json.loads((root / "run-1" / "0000000003.json").read_text())
    assert document["run"] == "run-1"
    assert document["seq"] == 3
    assert document["step"] == "fetch"
    assert document["time"] == "2023-11-14T22:13:20.123456+00:00"
    assert document["digest"] == given.digest.hex()
    assert document["meta"] == {"by": "me"}
    assert document["body"] == {"messages": ["héllo"], "n": 1}
    assert list(document)[-1] == "body"


def test_every_file_is_json_whatever_the_body(store: FileStore, root: Path) -> None:
    metas = ["", "not json", '{"a":NaN}', '{"a":1}\n', '{"\ud800":1}', "{" * 9999, '{"a":1']
    store.append([entry("bodies", seq, body) for seq, body in enumerate(HOSTILE_BODIES)])
    given = [entry("metas", seq, meta=meta) for seq, meta in enumerate(metas)]
    store.append(given)
    files = list(root.glob("*/*.json"))
    assert len(files) == len(HOSTILE_BODIES) + len(metas)
    for file in files:
        json.loads(file.read_text(), parse_constant=pytest.fail)
    assert store.read("metas") == given


def test_numbers_that_json_lacks_come_back(store: FileStore) -> None:
    store.append([entry("run", 0, duration=float("inf"), step="\ud800")])
    found = store.read("run")[0]
    assert (found.duration, found.step) == (float("inf"), "\ud800")


def test_files_and_directories_are_for_their_owner_only(store: FileStore, root: Path) -> None:
    store.append([entry("run", 0)])
    store.trim(entry("run", 1), {0: None})
    for place in (root, *root.rglob("*")):
        assert place.stat().st_mode & 0o077 == 0, place


def test_what_people_leave_in_the_directory_is_passed_over(store: FileStore, root: Path) -> None:
    store.append([entry("run", 0)])
    (root / "notes.txt").write_text("mine")
    (root / "empty").mkdir()
    (root / "UPPER").mkdir()
    (root / "x~y").mkdir()
    (root / "run" / "0000000000.json~").write_text("a backup")
    (root / "run" / "1.json").write_text("{}")
    (root / "run" / "0000000001.json.tmp").write_text("{}")
    assert [head.run for head in store.runs()] == ["run"]
    assert [item.seq for item in store.read("run")] == [0]
    assert store.append([entry("run", 1), entry("empty", 0)]) == [True, True]
    assert check_store(store) == []


# names


@given(st.text(min_size=1, max_size=300).filter(lambda text: _is_id(text)))
def test_a_directory_name_is_safe_and_tells_its_run(run: str) -> None:
    name = form.directory_name(run)
    assert len(name.encode()) <= 255
    assert name == name.lower()
    assert name.isascii()
    assert not set(name) & set('/\\:*?"<>| ')
    assert not name.startswith((".", "~"))
    assert not name.endswith(".")
    assert form.run_of(name) == (None if form.is_cut(name) else run)


def test_directory_names_of_hostile_ids_differ_even_where_case_is_folded() -> None:
    ids = [*HOSTILE_IDS, *(HIDDEN + run for run in HOSTILE_IDS)]
    assert len({form.directory_name(run).casefold() for run in ids}) == len(ids)


def test_hostile_ids_never_leave_the_root(store: FileStore, root: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").write_text("untouched")
    for number, run in enumerate(HOSTILE_IDS):
        store.append([entry(run, 0), entry(run, 1)])
        store.trim(entry(run, 2), {0: None})
        if number % 2:
            store.erase(tombstone(run, 3))
    assert sorted(place.name for place in tmp_path.iterdir()) == ["beside", "runs"]
    expected = {form.directory_name(run) for run in HOSTILE_IDS} | {".lock", ".tmp"}
    assert {place.name for place in root.iterdir()} == expected


def _is_id(text: str) -> bool:
    try:
        return bool(check_id("run", text))
    except ValueError:
        return False


# damage


def _files(root: Path, run: str = "run") -> list[Path]:
    return sorted(place for place in (root / run).iterdir() if place.suffix == ".json")


@pytest.mark.parametrize("body", [b'{"state": [1, 2, 3]}', b"\x00packed\xff" * 5])
def test_no_changed_or_missing_byte_goes_unnoticed(
    store: FileStore, root: Path, body: bytes
) -> None:
    good = entry("run", 0, body, meta='{"a":"b"}')
    store.append([good])
    file = _files(root)[0]
    content = file.read_bytes()
    for place in range(len(content)):
        for damaged in (
            content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :],
            content[:place] + bytes([content[place] ^ 32]) + content[place + 1 :],
            content[:place],
        ):
            file.write_bytes(damaged)
            found: list[Entry] | None = None
            with suppress(CheckpointCorruptedError):
                found = store.read("run")
            assert found in (None, [good]), damaged  # unused bits of base64, at most
    file.write_bytes(content)
    assert store.read("run") == [good]


def test_a_damaged_file_hides_no_other(store: FileStore, root: Path) -> None:
    entries = [entry("run", seq, b"x" * 50) for seq in range(3)]
    store.append([*entries, entry("other", 0)])
    file = _files(root)[1]
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(CheckpointCorruptedError) as caught:
        store.read("run")
    assert caught.value.seq == 1
    assert store.read("run", limit=1) == entries[:1]
    assert store.read("run", after=1) == entries[2:]
    assert store.last("run") == entries[2]
    assert store.append([entry("run", 1)]) == [False]
    assert store.append([entry("run", 3)]) == [True]
    assert len(store.runs()) == 2
    assert store.erase(tombstone("run", 4))
    assert len(store.read("run")) == 1


def test_a_file_in_the_wrong_place_is_not_believed(store: FileStore, root: Path) -> None:
    store.append([entry("a", 0), entry("a", 1), entry("b", 0)])
    shutil.copy(_files(root, "a")[0], _files(root, "b")[0])
    with pytest.raises(CheckpointCorruptedError, match="belongs to a@0"):
        store.read("b")
    shutil.copy(_files(root, "a")[0], _files(root, "a")[1])
    with pytest.raises(CheckpointCorruptedError, match="belongs to a@0"):
        store.last("a")


def test_symbolic_links_in_the_root_are_never_followed(
    store: FileStore, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "0000000000.json").write_text("secret")
    store.append([entry("run", 0, b"x")])
    (root / "planted").symlink_to(outside)
    with pytest.raises(StoreError):
        store.append([entry("planted", 1)])
    with pytest.raises(StoreError):
        store.erase(tombstone("planted", 1))
    with pytest.raises(CheckpointCorruptedError):
        store.read("planted")
    assert [head.run for head in store.runs()] == ["run"]
    secret = _files(root)[0]
    secret.unlink()
    secret.symlink_to(outside / "0000000000.json")
    with pytest.raises(CheckpointCorruptedError, match="what is there is not a file"):
        store.read("run")
    assert [place.name for place in outside.iterdir()] == ["0000000000.json"]
    assert (outside / "0000000000.json").read_text() == "secret"


def test_a_batch_that_fails_after_its_first_entry_says_so(store: FileStore, root: Path) -> None:
    store.append([entry("run", 0)])
    (root / "planted").symlink_to(root / "run")
    with pytest.raises(OutcomeUnknownError):
        store.append([entry("good", 0), entry("planted", 0)])


def test_a_fifo_does_not_keep_readers_waiting(store: FileStore, root: Path) -> None:
    store.append([entry("run", 0)])
    file = _files(root)[0]
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(CheckpointCorruptedError):
        store.read("run")


def test_planted_temporary_directory_is_refused(root: Path, tmp_path: Path) -> None:
    root.mkdir()
    (tmp_path / "outside").mkdir()
    (root / ".tmp").symlink_to(tmp_path / "outside")
    with closing(FileStore(root)) as store, pytest.raises(StoreUnavailableError):
        store.append([entry("run", 0)])
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_removed_or_replaced_root_is_an_outage_and_not_an_empty_store(
    store: FileStore, root: Path, tmp_path: Path
) -> None:
    store.append([entry("run", 0)])
    root.rename(tmp_path / "moved")
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            store.read("run")
        with pytest.raises(StoreUnavailableError):
            store.runs()
        with pytest.raises(StoreUnavailableError):
            store.append([entry("run", 1)])
        root.mkdir(exist_ok=True)  # another directory with the same name
    root.rmdir()
    (tmp_path / "moved").rename(root)
    assert store.append([entry("run", 1)]) == [True]


def test_a_file_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SchemaError):
            FileStore(path)


def test_it_says_what_it_survives(root: Path) -> None:
    with closing(FileStore(root)) as store:
        assert store.survives() in ("power-loss", "process-crash")
        assert store.url == f"file://{root}"
    if _SCRATCH is not None:
        with closing(FileStore(_scratch / "survives")) as store:
            assert store.survives() == "process-crash"


def test_nothing_is_left_open(root: Path) -> None:
    with closing(FileStore(root)) as store:
        store.append([entry("run", 0), entry("x" * 512, 0)])
        open_before = len(list(Path("/dev/fd").iterdir()))
        for seq in range(1, 6):
            store.append([entry("run", seq)])
            store.append([entry("run", seq)])
            store.trim(entry("other", seq), {seq - 1: None})
            store.read("run")
            store.read("nothing")
            check_store(store)
        assert len(list(Path("/dev/fd").iterdir())) == open_before
    assert len(list(Path("/dev/fd").iterdir())) < open_before


def test_an_append_lists_no_directory_while_nobody_else_writes(
    store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a run's thousandth save costs a thousand names."""
    store.append([entry("run", 0)])
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", pytest.fail)
        assert store.append([entry("run", 1)]) == [True]
        assert store.append([entry("run", 1)]) == [False]
    with closing(FileStore(root)) as other:
        assert other.erase(tombstone("run", 2))
    assert store.append([entry("run", 2), entry("run", 3)]) == [False, False]


def test_a_run_goes_on_once_lost_files_are_restored(
    store: FileStore, root: Path, tmp_path: Path
) -> None:
    store.append([entry("run", seq) for seq in range(4)])
    lost = root / "run" / form.file_name(3)
    kept = lost.rename(tmp_path / "kept")
    assert store.append([entry("run", 4)]) == [False]
    kept.rename(lost)
    assert store.append([entry("run", 4)]) == [True]


def test_a_listing_that_misses_an_entry_is_completed(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large directory is listed in several calls, and others link files between them."""
    store.append([entry("run", seq) for seq in range(6)])
    listings = iter([[0, 1, 2, 4], [0, 1, 2, 3, 4, 5]])
    monkeypatch.setattr(run_module, "_listed", lambda run: next(listings))
    assert [item.seq for item in store.read("run")] == [0, 1, 2, 3, 4]


def test_a_temporary_directory_that_was_removed_is_made_again(store: FileStore, root: Path) -> None:
    """As whoever cleans up directories that look temporary does it."""
    store.append([entry("run", 0)])
    for seq in range(1, 4):
        shutil.rmtree(root / ".tmp")
        assert store.append([entry("run", seq)]) == [True]
    (own,) = (root / ".tmp").iterdir()
    own.rmdir()
    assert store.trim(entry("run", 4, kind="trim"), {0: None, 1: b"new"})
    own.rmdir()
    assert store.erase(tombstone("run", 5))
    assert [item.seq for item in store.read("run")] == [5]
    assert list((root / ".tmp").iterdir()) == [own]
    assert list(own.iterdir()) == []


def test_the_temporary_directory_of_a_live_store_is_not_taken_for_an_abandoned_one(
    store: FileStore, root: Path
) -> None:
    store.append([entry("run", 0)])
    shutil.rmtree(root / ".tmp")
    store.append([entry("run", 1)])
    (own,) = (root / ".tmp").iterdir()
    with closing(FileStore(root)) as other:  # it sweeps when it first writes
        other.append([entry("run", 2)])
        assert own.exists()
        assert store.append([entry("run", 3)]) == [True]


def test_stores_exclude_each_other_after_the_lock_file_was_removed(
    store: FileStore, root: Path
) -> None:
    store.append([entry("run", 0)])
    (root / ".lock").unlink()
    with closing(FileStore(root, lock_seconds=0.01)) as newcomer:
        newcomer.append([entry("run", 1)])
        with store._root.lock(), pytest.raises(StoreUnavailableError, match="locked"):
            newcomer.append([entry("run", 2)])
        assert store.append([entry("run", 2)]) == [True]


def test_a_poll_says_which_runs_changed_and_what_they_are_now(tmp_path: Path) -> None:
    long = "x" * 400  # its directory's name is cut
    with closing(FileStore(tmp_path)) as store, closing(FileStore(tmp_path)) as other:
        store.append([entry("a", 0), entry(long, 0)])
        mark, found = store.poll()
        assert found == []
        assert store.poll(mark) == (mark, [])
        other.append([entry(long, 1, status="paused")])
        mark, found = store.poll(mark)
        assert found == [Change(long, 1, "paused")]
        other.append([entry(f"{HIDDEN}h", 0)])
        assert store.poll(mark) == (mark, []), "nobody is asked to look for internal journals"
        other.append([entry("a", 1)])
        (head,) = (tmp_path / "a").glob("*1.json")
        head.write_text("damaged")
        assert store.poll(mark)[1] == [Change("a")]
