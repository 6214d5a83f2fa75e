"""What the disk under a path can be trusted with."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_VOLATILE: Final = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})


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
