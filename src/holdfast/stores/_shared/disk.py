"""The disk: how things get durable on it, and what it can be trusted with."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from typing import Final

DIRECTORY: Final = 0o700
"""The mode of what is made."""
_MOUNTS: Final = Path("/proc/self/mountinfo")
_VOLATILE: Final = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})


def sync(fd: int) -> None:
    """Wait until the disk has it.

    After a failure the outcome is unknown, and stays so: the kernel reports a lost write once, so a
    second try would succeed and prove nothing.
    """
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # macOS: fsync() alone leaves it in the drive's cache
    else:
        os.fsync(fd)


def sync_directory(path: Path) -> None:
    """Wait until the disk has the names in a directory."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(fd)
    finally:
        os.close(fd)


def make_directories(path: Path) -> None:
    """Make a directory, and those above it that are missing, durably, for their owner only."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=DIRECTORY, exist_ok=True)
        sync_directory(place.parent)


def volatile_file_system(path: str | os.PathLike[str]) -> str | None:
    """The kind of the file system that holds `path` if it lives in memory and is lost with the power.

    None when it does not, or where the system does not say.
    """
    try:
        mounts = _MOUNTS.read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return None
    real = os.path.realpath(path)
    longest, kind = "", None
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields.split(" ")[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(longest):  # the later of two on one point covers the other
            longest, kind = point, rest.split(" ")[0]
    return kind if kind in _VOLATILE else None
