from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.holders.hosts import Hosts, World
from tests.servers import mariadb, postgres, redis


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    started = Hosts(tmp_path_factory.mktemp("hosts"))
    yield started
    started.close()


def new_url(kind: str, directory: Path) -> str:
    """An empty store of this kind."""
    if kind == "sqlite":
        return f"sqlite:///{directory}/runs.db"
    make = {"postgres": postgres.new_url, "mysql": mariadb.new_url, "redis": redis.new_url}[kind]
    return make()


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of store: SQLite, unless a test says otherwise."""
    found: str = getattr(request, "param", "sqlite")
    return found


@pytest.fixture
def world(kind: str, tmp_path: Path, hosts: Hosts) -> Iterator[World]:
    made = World(new_url(kind, tmp_path), tmp_path, hosts)
    yield made
    made.close()
