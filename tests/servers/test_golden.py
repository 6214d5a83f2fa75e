"""Golden files of all that needs more than Python: servers, DuckDB, encryption."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast as hf
from tests.golden import dumps, stories
from tests.golden.test_golden import FORMS, HERE, VERSIONS, opened


@pytest.fixture(params=[(v, f) for v in VERSIONS for f in (*FORMS, "duckdb", *dumps.KINDS)])
def cp(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hf.SyncCheckpointer]:
    version, form = request.param
    if form in FORMS:
        made = opened(version, form, "sealed", tmp_path)
    elif form == "duckdb":
        unpacked = tmp_path / "store.duckdb"
        unpacked.write_bytes(gzip.decompress((HERE / version / "store.duckdb.gz").read_bytes()))
        made = hf.SyncCheckpointer(f"duckdb:///{unpacked}")
    else:
        made = hf.SyncCheckpointer(dumps.loaded(form, HERE / version / "servers"))
    with made as cp:
        yield cp


@pytest.mark.parametrize("story", stories.STORIES)
def test_what_was_ever_stored_is_there(
    story: Callable[[hf.SyncCheckpointer], None], cp: hf.SyncCheckpointer
) -> None:
    story(cp)
