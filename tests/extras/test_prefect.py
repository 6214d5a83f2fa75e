"""The recipe for Prefect: its retries, and a flow whose process is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.frameworks import effects, install, next_time
from tests.waiting import bounded, run_process, wait_until

SHIM = """
import fastapi

body = fastapi.Body
fastapi.Body = lambda *given, min_items=None, max_items=None, **named: body(*given, **named)
"""
"""Prefect 3.8 gives FastAPI arguments that newer ones have dropped; each process imports this."""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """That of the programs of the guide, and of a server which ends with the test."""
    install(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(SHIM)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = os.environ | {
        "HOLDFAST_STORE": f"sqlite:///{tmp_path}/runs.db",
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port), "--no-ui"]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        with server, bounded(server, seconds=300):
            wait_until(lambda: answers(port))
            yield environment
            server.terminate()


def answers(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def test_a_task_that_is_retried_and_a_flow_that_is_started_again_resume_the_run(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    def nightly(place: str) -> tuple[int, str]:
        command = [sys.executable, "nightly.py", place]
        done = run_process(command, cwd=tmp_path, env=environment, check=False, capture_output=True)
        return done.returncode, done.stdout + done.stderr

    next_time(tmp_path, "fail")
    code, text = nightly("Brest")
    assert code == 0, text
    assert "['Brest: 2.5 m']" in text
    assert effects(tmp_path) == {"fetch": 1, "average": 2}

    next_time(tmp_path, "die")
    code, text = nightly("Dover")
    assert code == -signal.SIGKILL, text
    code, text = nightly("Dover")
    assert code == 0, text
    assert effects(tmp_path) == {"fetch": 2, "average": 4}, "only the steps in flight ran twice"
