from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from tests.integrations.pydantic_ai.scripted import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[hf.Engine]:
    """On SQLite, and everything in it is intact after the test."""
    with hf.Engine(f"sqlite:///{tmp_path}/runs.db") as engine:
        yield engine
        with hf.SyncCheckpointer(engine.checkpointer.store) as checkpointer:
            for run in checkpointer.runs():
                assert checkpointer.verify(run.run_id).ok
