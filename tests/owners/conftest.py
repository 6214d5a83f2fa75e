from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import holdfast as hf
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from tests.conftest import STORES
from tests.effort import EFFORT
from tests.owners.world import Owned, all_of, fill
from tests.servers import postgres


class Two(NamedTuple):
    """A store that two owners share. What is done in a test is done as Ann, to Bob."""

    store: Store
    ann: Owned
    bob: Owned
    files: Path

    def untouched(self) -> dict[str, object]:
        return all_of(self.store, self.bob)


def _url(kind: str, tmp_path: Path) -> str:
    if kind == "postgres":
        return postgres.new_url()
    places = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/runs.db"}
    return places.get(kind, f"file://{tmp_path}/runs")


@pytest.fixture(params=(*STORES, "postgres") if EFFORT > 1 else STORES)
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Two]:
    store = hf.open_store(_url(request.param, tmp_path))
    yield Two(store, fill(store, "ann", tmp_path), fill(store, "bob", tmp_path), tmp_path)
    store.close()


@pytest.fixture
def two_in_file(tmp_path: Path) -> Iterator[Two]:
    """The same for what opens a store by its URL."""
    store = hf.open_store(f"sqlite:///{tmp_path}/runs.db")
    yield Two(store, fill(store, "ann", tmp_path), fill(store, "bob", tmp_path), tmp_path)
    store.close()


def in_memory(files: Path) -> Two:
    store = MemoryStore()
    return Two(store, fill(store, "ann", files), fill(store, "bob", files), files)
