"""strace: what a worker asks of the kernel, and what happens when the kernel says no."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.crash import disk
from tests.crash.harness import ForkServer, wait_until_stopped
from tests.waiting import ENOUGH, bounded


def strace() -> str:
    """Where strace is. These tests are not skipped without it: they would look passed."""
    found = shutil.which("strace")
    assert found, "the crash tests need strace: apt-get install strace"
    return found


def attach(server: ForkServer, log: Path, inject: Sequence[str] = (), **job: Any) -> int:
    """Fork a worker, log its calls and tamper with them; returns its exit status."""
    pid = server.start(paused=True, **job)
    wait_until_stopped(pid)
    tampering = [option for one in inject for option in ("-e", f"inject={one}")]
    tracer = subprocess.Popen(
        [
            strace(), "-f", "-p", str(pid), "-xx", "-s", "100000000", "-o", log,
            "-e", f"trace={disk.CALLS}", "-e", "signal=none", *tampering,
        ],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert tracer.stderr is not None
    with tracer.stderr, bounded(tracer, 2 * ENOUGH):
        first = tracer.stderr.readline()
        assert "attached" in first, first
        os.kill(pid, signal.SIGCONT)
        status = server.wait(pid)
        tracer.wait()
    return status
