from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from tests.servers.server import wait_for_death
from tests.waiting import wait_until


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    """Two worker processes of two threads each, which are started again when they are killed."""
    with LocalCluster(
        n_workers=2, threads_per_worker=2, dashboard_address=":0", resources={"steps": 1}
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as client:
        yield client
        wait_until(lambda: len(client.scheduler_info()["workers"]) == 2)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db"


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_for_death(pid)
