"""Which program a process executes. A pid and a start time stay the same when it executes another."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Program(NamedTuple):
    """What a process executes."""

    exe: str | None  # identifies the file; None if the system does not say, or not to us
    command: str  # the SHA-256 of the command line, in hex: it may hold passwords


def program_of(pid: int, timeout: float = 5.0) -> Program:
    """The program of a process. Raises `OSError` if there is none, or the system does not say."""
    if sys.platform.startswith("linux"):
        return Program(_exe(pid), _digest(Path(f"/proc/{pid}/cmdline").read_bytes()))
    asked = ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command and a number
            asked, capture_output=True, timeout=timeout, env={"LC_ALL": "C"}
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError("ps did not answer") from None
    if not done.stdout.strip():
        raise ProcessLookupError(f"there is no process {pid}")
    return Program(None, _digest(done.stdout.strip()))


def _exe(pid: int) -> str | None:
    """The file that is executed, also if it was replaced or deleted since."""
    try:
        status = os.stat(f"/proc/{pid}/exe")  # noqa: PTH116 - a link that only the system can follow
    except PermissionError:  # another user's process
        return None
    except FileNotFoundError:  # the kernel's own threads have none
        return None
    return f"{status.st_dev}:{status.st_ino}"


def _digest(command: bytes) -> str:
    return hashlib.sha256(command).hexdigest()
