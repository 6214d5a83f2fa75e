"""The recipe for FastAPI: a service that is killed in a step, and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.frameworks import effects, install, next_time
from tests.waiting import bounded, wait_until


@contextmanager
def service(place: Path) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    path = place / "socket"
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "uvicorn", "service:app", "--uds", str(path)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=place, **quiet) as process, bounded(process):  # type: ignore[call-overload]
        wait_until(lambda: answers(path))
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://service", timeout=30) as client:
            yield process, client
        process.terminate()


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def test_a_service_that_is_killed_resumes_its_runs_when_it_starts(tmp_path: Path) -> None:
    install(tmp_path)
    next_time(tmp_path, "die")
    with service(tmp_path) as (process, client):
        assert client.put("/publications/Brest").json()["new"]
        assert process.wait() == -signal.SIGKILL

    def shown(client: httpx.Client) -> Any:
        return client.get("/publications/Brest").json()

    with service(tmp_path) as (process, client):
        assert not client.put("/publications/Brest").json()["new"]
        wait_until(lambda: shown(client)["status"] == "paused")
        assert client.get("/publications/Dover").status_code == 404
        unknown = client.post("/publications/Dover/answers/publish", json={"value": True})
        assert unknown.status_code == 404
        answer = client.post("/publications/Brest/answers/publish", json={"value": True})
        assert answer.status_code == 204
        wait_until(lambda: shown(client)["status"] == "completed")
        assert shown(client)["text"] == "Brest: 2.5 m"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait() in (0, -signal.SIGTERM)
    assert effects(tmp_path) == {"fetch": 1, "average": 2}, "only the step in flight ran twice"
