from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

import holdfast as hf
from tests.holders import held_here


@pytest.fixture
def store(url: str) -> Iterator[hf.Store]:
    """A fresh store of every kind, checked after the test: nothing damaged, no run left behind."""
    opened = hf.open_store(url)
    yield opened
    gc.collect()
    assert not held_here(), "a run is still held to be carried out here"
    with hf.SyncCheckpointer(opened) as checkpointer:
        for run in checkpointer.runs():
            assert checkpointer.verify(run.run_id).ok
    opened.close()


@pytest.fixture
def engine(store: hf.Store) -> hf.Engine:
    return hf.Engine(store)


@pytest.fixture(autouse=True)
def nothing_pending() -> Iterator[None]:
    """What is never awaited or never retrieved is reported by the collector, and fails the test."""
    gc.freeze()  # it need not look at what earlier tests left alive: that takes most of the time
    yield
    gc.collect()
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
