"""Who else can reach a store on disk: nobody, unless its owner says so."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.stores._shared import access
from tests.users import ANN, BOB, as_user, belongs_to, needs_root, public_directory

URLS = ["sqlite:///{}/runs.db", "duckdb:///{}/runs.duckdb", "file://{}/runs"]
STORES = pytest.mark.parametrize("url", URLS, ids=["sqlite", "duckdb", "files"])


@pytest.fixture(autouse=True)
def untold(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What was warned of before does not count; and modules are imported, which others can't."""
    access._told.clear()
    for url in URLS:
        save(url.format(tmp_path_factory.mktemp("warm")))


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that everyone can enter, for stores of several users."""
    with public_directory() as path:
        yield path


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, str]:
    """What everyone but the owner can do with each thing in a directory, and it itself."""
    return {
        str(path.relative_to(directory)): oct(stat.S_IMODE(path.lstat().st_mode) & 0o077)
        for path in (directory, *directory.rglob("*"))
    }


def save(url: str, run: str = "run") -> None:
    with hf.SyncCheckpointer(url) as cp:
        cp.save(run, {"n": 1})


@STORES
def test_everything_is_made_for_its_owner_only(url: str, tmp_path: Path, no_umask: None) -> None:
    place = tmp_path / "new" / "deep"
    with hf.SyncCheckpointer(url.format(place)) as cp:
        cp.save("run", {"n": 1})
        cp.save("run", {"n": "x" * 100_000})
        assert cp.load("run") is not None
        assert set(modes(tmp_path / "new").values()) == {"0o0"}
        cp.clear("run")
    save(url.format(place))
    assert set(modes(tmp_path / "new").values()) == {"0o0"}


@STORES
def test_what_is_there_keeps_its_mode(url: str, tmp_path: Path) -> None:
    save(url.format(tmp_path))
    (place,) = tmp_path.iterdir()
    place.chmod(0o770 if place.is_dir() else 0o660)
    with hf.SyncCheckpointer(url.format(tmp_path)) as cp:
        cp.save("run", {"n": 2})
        beside = [path for path in tmp_path.iterdir() if path != place]
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o660 for path in beside), "like it"
    assert stat.S_IMODE(place.stat().st_mode) in (0o770, 0o660)


@needs_root
@STORES
def test_a_store_in_a_directory_of_someone_else_that_everyone_can_write_to_is_refused(
    url: str, shared: Path
) -> None:
    place = shared / "planted"
    place.mkdir()
    belongs_to(ANN, place)
    with as_user(ANN):
        save(url.format(place))
    place.chmod(0o777)
    for path in place.rglob("*"):
        path.chmod(0o777)
    with as_user(BOB), pytest.raises(hf.StoreError, match="everyone can write to") as refused:
        save(url.format(place))
    assert "which belongs to uid 51001" in str(refused.value)
    command = str(refused.value).rpartition("have its owner change that: ")[2]
    assert shlex.split(command)[:2] == ["chmod", "o-w"]


@needs_root
@STORES
def test_a_store_that_everyone_can_write_to_is_refused_unless_it_is_ours(
    url: str, shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In a directory such as /tmp: others can't replace files, but may have put them there."""
    shared.chmod(0o1777)
    with as_user(ANN):
        save(url.format(shared))
    (place,) = shared.iterdir()
    place.chmod(0o777)
    with as_user(BOB), pytest.raises(hf.StoreError, match="everyone can write to"):
        save(url.format(shared))
    with as_user(ANN):
        save(url.format(shared))
        save(url.format(shared))
    (line,) = caplog.messages
    command = line.rpartition("change that: ")[2]
    assert command == f"chmod o-w {place}"
    subprocess.run(shlex.split(command), check=True)
    access._told.clear()
    with as_user(ANN):
        save(url.format(shared))
    assert len(caplog.messages) == 1


@needs_root
@pytest.mark.parametrize("how", ["file", "link"])
def test_a_log_that_someone_put_beside_a_database_is_refused(shared: Path, how: str) -> None:
    shared.chmod(0o1777)
    url = f"sqlite:///{shared}/runs.db"
    with as_user(BOB):
        save(url)
    with as_user(ANN):
        planted = shared / "runs.db-wal"
        if how == "file":
            planted.write_bytes(b"their pages")
        else:
            planted.symlink_to("elsewhere")
    with as_user(BOB), pytest.raises(hf.StoreError, match="not made by the owner") as refused:
        save(url)
    assert f"rm {planted}" in str(refused.value)
    planted.unlink()
    with as_user(BOB):
        save(url)


@needs_root
@pytest.mark.parametrize("url", URLS[:2], ids=["sqlite", "duckdb"])
def test_a_group_may_share_a_database(
    url: str, shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    team = 51_009
    place = shared / "team"
    place.mkdir()
    belongs_to(ANN, place, group=team)
    place.chmod(0o2770)
    with as_user(ANN, team):
        save(url.format(place))
    (store,) = place.iterdir()
    belongs_to(ANN, store, group=team)
    store.chmod(0o660)
    with as_user(BOB, team):
        save(url.format(place), "by bob")
    with as_user(ANN, team):
        save(url.format(place), "by ann")
    assert not caplog.messages


@needs_root
@STORES
def test_root_and_volumes_of_containers_are_no_strangers(
    url: str, shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (shared / "hers").mkdir()
    belongs_to(ANN, shared / "hers")
    with as_user(ANN):
        save(url.format(shared / "hers"))
    save(url.format(shared / "hers"), "by root")
    (shared / "volume").mkdir()
    (shared / "volume").chmod(0o777)
    with as_user(BOB):
        save(url.format(shared / "volume"))
    assert not caplog.messages


@needs_root
@STORES
def test_a_store_that_someone_may_have_planted_in_a_sticky_directory_is_warned_of(
    url: str, shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared.chmod(0o1777)
    with as_user(ANN):
        save(url.format(shared))
    save(url.format(shared))
    assert [line for line in caplog.messages if "belongs to uid 51001, who may have put it" in line]
