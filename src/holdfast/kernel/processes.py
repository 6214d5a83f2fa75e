"""When a process started, which distinguishes it from a later one with its pid, and where."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_ENDED: Final = "ZXx"


def start_of(pid: int, timeout: float = 5.0) -> str | None:
    """When the process started, as text that no other process with this number has had.

    None if there is none, or it has ended and only waits to be collected. Raises `OSError` when
    the system does not say.
    """
    if sys.platform.startswith("linux"):
        return _from_proc(pid)
    return _from_ps(pid, timeout)


def this_host() -> str:
    """The name of this machine, as processes and claims are labelled with it."""
    return socket.gethostname().replace("|", "_")


def boot_id() -> str | None:
    """Identifies this boot of the system; None where the system does not say."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return None


def _from_proc(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        _refuse_if_hidden(pid)
        return None
    # The name is in brackets and may hold anything, brackets too.
    fields = text.rpartition(b")")[2].split()
    if len(fields) < 20:
        raise OSError(f"/proc/{pid}/stat is not what it should be")
    if fields[0].decode() in _ENDED:
        return None
    # Ticks since the system started, so they say nothing without which start that was.
    return f"{_BOOT.read_text().strip()} {int(fields[19])}"


def _refuse_if_hidden(pid: int) -> None:
    """Raise `OSError` if there is such a process: with `hidepid`, it may be another user's."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return
    raise OSError(f"process {pid} exists, but /proc does not show it")


def _from_ps(pid: int, timeout: float) -> str | None:
    asked = ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command and a number
            asked, capture_output=True, timeout=timeout, env={"LC_ALL": "C"}
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError("ps did not answer") from None
    state, _, start = done.stdout.decode(errors="replace").strip().partition(" ")
    if not state or state[0] in _ENDED:
        return None
    return " ".join(start.split())
