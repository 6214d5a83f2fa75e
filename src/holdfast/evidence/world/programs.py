"""Which program a process executes. A pid and a start time stay the same when it executes another."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

_RANDOMIZE: Final = Path("/proc/sys/kernel/randomize_va_space")
_TRIES: Final = 1000
_PAUSE_SECONDS: Final = 0.001
_NOT_RANDOM: Final = 0x0040000  # ADDR_NO_RANDOMIZE, as debuggers set it


class Program(NamedTuple):
    """What a process executes."""

    image: str | None  # another one after each exec; None if the system does not say, or not to us
    command: str  # the SHA-256 of the command line, in hex: it may hold passwords


def program_of(pid: int, timeout: float = 5.0) -> Program:
    """The program of a process. Raises `OSError` if there is none, or the system does not say."""
    if sys.platform.startswith("linux"):
        return Program(_image(pid), _digest(Path(f"/proc/{pid}/cmdline").read_bytes()))
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


def _image(pid: int) -> str | None:
    """A digest of the file that is executed and of where the kernel put it.

    A process that changes its name or arguments keeps it. With each exec, everything is put at
    other, random places; hashed together, they can't be guessed. Raises `OSError` if the process
    does not get past its exec.
    """
    try:
        before: bytes | None = None
        for _ in range(_TRIES):
            found = _placed(pid)
            if found is not None and found == before:
                return _digest(found) if _is_random(pid) else None
            before = found
            if found is None:
                time.sleep(_PAUSE_SECONDS)
    except (PermissionError, FileNotFoundError):  # another user's, or one of the kernel's own
        return None
    raise OSError(f"process {pid} is being started")


def _placed(pid: int) -> bytes | None:
    """The file that is executed, and where its parts were put; None while the kernel does that."""
    status = os.stat(f"/proc/{pid}/exe")  # noqa: PTH116 - a link that only the system can follow
    places = Path(f"/proc/{pid}/auxv").read_bytes()
    end_of_environment = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[48]
    if not places or int(end_of_environment) == 0:  # which it sets last
        return None
    return f"{status.st_dev}:{status.st_ino} ".encode() + places


def _is_random(pid: int) -> bool:
    """Whether a new program would be put elsewhere."""
    personality = int(Path(f"/proc/{pid}/personality").read_text(), 16)
    return _RANDOMIZE.read_text().strip() != "0" and not personality & _NOT_RANDOM


def _digest(command: bytes) -> str:
    return hashlib.sha256(command).hexdigest()
