"""Where servers keep their files, and what becomes of those whose tests were killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

_PREFIX: Final = "holdfast-server-"
_OWNER: Final = (
    "owner"  # a file that is locked as long as the process lives that made the directory
)
_ROOM: Final = 6 << 30  # bytes, for a few servers for each worker of xdist


def new_directory() -> Path:
    """An empty directory for one server, once those are removed that dead processes left behind."""
    place = roomy_place()
    remove_abandoned(place)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    file = directory / f"{_OWNER}.new"
    fcntl.flock(os.open(file, os.O_CREAT | os.O_RDONLY), fcntl.LOCK_EX)  # open until we end
    file.rename(directory / _OWNER)  # nobody sees it unlocked
    return directory


def remove_abandoned(place: Path) -> None:
    """Remove the directories whose processes are dead: hours of killed tests fill the memory."""
    for file in place.glob(f"{_PREFIX}*/{_OWNER}"):
        with suppress(OSError), file.open("rb") as owner:  # another's, or removed just now
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(file.parent, ignore_errors=True)


def roomy_place() -> Path:
    """In memory, if there is a lot of it: servers and stores wait for disks more than they work.

    What a killed process had acknowledged is there as well: only a power failure tells the
    difference. Containers may forbid to execute what is there, and tests do that.
    """
    memory = Path("/dev/shm")
    if not memory.is_dir() or os.statvfs(memory).f_flag & os.ST_NOEXEC:
        return Path(tempfile.gettempdir())
    return memory if shutil.disk_usage(memory).free > _ROOM else Path(tempfile.gettempdir())
