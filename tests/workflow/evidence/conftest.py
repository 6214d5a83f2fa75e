from __future__ import annotations

from pathlib import Path

import pytest

import holdfast as hf
from tests.engine.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    place = tmp_path / "desk"
    place.mkdir()
    return Desk(place)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What a journal is kept in can't matter much here."""
    kind = getattr(request, "param", "sqlite")
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/runs.db"}[kind]


@pytest.fixture
def memory() -> hf.Engine:
    """For what the kind of store can't matter to."""
    return hf.Engine("memory://")
