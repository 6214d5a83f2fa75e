from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.manager import CheckpointManager


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where relative paths of evidence begin."""
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    return place


@pytest.fixture
def manager(url: str) -> Iterator[CheckpointManager]:
    with CheckpointManager(url) as opened:
        yield opened
        checkpointer = opened.checkpointer
        for run in checkpointer.core.journals.store.runs():
            assert checkpointer.verify(run.run).ok  # type: ignore[union-attr]
