from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast as hf
from tests.golden import lived, stories

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.glob("v*"))
FORMS = ("sqlite", "files", "export")


def opened(version: str, form: str, name: str, tmp_path: Path) -> hf.SyncCheckpointer:
    """A copy of a store as a version left it; `name` says with which keys."""
    files, where = HERE / version, "memory://"
    if form == "sqlite":
        where = str(shutil.copy(files / f"{name}.db", tmp_path))
    elif form == "files":
        source = "files" if name == "store" else f"{name}-files"
        where = f"{shutil.copytree(files / source, tmp_path / 'files')}/"
    cp = hf.SyncCheckpointer(where, **lived.keys_of(name))
    if form == "export":
        cp.import_runs(files / f"{name}.export")
    return cp


@pytest.fixture(params=[(v, f, n) for v in VERSIONS for f in FORMS for n in ("store", "signed")])
def cp(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hf.SyncCheckpointer]:
    version, form, name = request.param
    with opened(version, form, name, tmp_path) as cp:
        yield cp


def test_there_are_golden_files() -> None:
    assert VERSIONS


@pytest.mark.parametrize("story", stories.STORIES)
def test_what_was_ever_stored_is_there(
    story: Callable[[hf.SyncCheckpointer], None], cp: hf.SyncCheckpointer
) -> None:
    story(cp)
