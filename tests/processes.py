"""What the kernel says of processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

GONE: Final = "X"


def state_of(pid: int) -> str:
    """R, S, T, Z... as `/proc` names them; `GONE` if somebody waited for it."""
    return _stat(pid)[0]


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and all that these started."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            child = int(directory.name)
            children.setdefault(_stat(child)[1], []).append(child)

    def below(parent: int) -> Iterator[int]:
        for child in children.get(parent, ()):
            yield child
            yield from below(child)

    return list(below(pid))


def command_of(pid: int) -> str:
    """Its command line; nothing if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return ""


def _stat(pid: int) -> tuple[str, int]:
    """Its state and its parent."""
    with suppress(FileNotFoundError, ProcessLookupError):
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0], int(fields[1])
    return GONE, 0
