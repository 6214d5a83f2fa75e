"""What users see of the kernel is the same on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import STORES
from tests.servers import postgres


@pytest.fixture(params=(*STORES, "postgres"))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store of every kind."""
    return "memory://" if request.param == "memory" else _kept(request.param, tmp_path)


@pytest.fixture(params=(*STORES[1:], "postgres"))
def kept_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store of every kind that outlives its process."""
    return _kept(request.param, tmp_path)


def _kept(kind: str, tmp_path: Path) -> str:
    if kind == "postgres":
        return postgres.new_url()
    return f"sqlite:///{tmp_path}/runs.db" if kind == "sqlite" else f"file://{tmp_path}/runs"
