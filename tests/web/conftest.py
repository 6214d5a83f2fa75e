"""A site on a store with a few runs, and a client that speaks to it without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from holdfast import SyncCheckpointer
from holdfast.web.app import make_app
from holdfast.web.site import Settings, Site

Serving = Callable[..., TestClient]


@pytest.fixture
def cp(tmp_path: Path) -> Iterator[SyncCheckpointer]:
    with SyncCheckpointer(tmp_path / "runs.db") as opened:
        yield opened


@pytest.fixture
def serving(cp: SyncCheckpointer, tmp_path: Path) -> Iterator[Serving]:
    """Clients of sites on `cp`, with the settings that each is given."""
    clients: list[TestClient] = []

    def serve(**settings: Any) -> TestClient:
        site = Site(cp, str(tmp_path / "runs.db"), Settings(**settings))
        client = TestClient(
            make_app(site), base_url="http://127.0.0.1", raise_server_exceptions=False
        )
        client.__enter__()
        clients.append(client)
        return client

    yield serve
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(serving: Serving) -> TestClient:
    return serving()
