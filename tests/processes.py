"""What the kernel says of processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

GONE: Final = "X"


def state_of(pid: int) -> str:
    """R, S, T, Z... as `/proc` names them; `GONE` if somebody waited for it.

    It stops and ends thread by thread: as long as one still acts, its state is that one's.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        states = [_stat(thread)[0] for thread in Path(f"/proc/{pid}/task").iterdir()]
        return min(states, key="TZX".__contains__, default=GONE)
    return GONE


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and all that these started."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            child = int(directory.name)
            children.setdefault(_stat(directory)[1], []).append(child)

    def below(parent: int) -> Iterator[int]:
        for child in children.get(parent, ()):
            yield child
            yield from below(child)

    return list(below(pid))


def describe(pid: int) -> str:
    """Its command and, if it is a Python and py-spy is installed, its stack."""
    command = ""
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if spy is None or "python" not in command:
        return command
    done = subprocess.run(
        [spy, "dump", "--nonblocking", "--pid", str(pid)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    return f"{command}\n{done.stdout or done.stderr}"


def _stat(directory: Path) -> tuple[str, int]:
    """State and parent of a process or a thread, from its directory in `/proc`."""
    with suppress(FileNotFoundError, ProcessLookupError):
        fields = (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0], int(fields[1])
    return GONE, 0
