"""Files that are written for people: exports, archives, receipts. They are their owner's only.

A file that is there already keeps its mode, whoever may read it then.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from holdfast.seams import new_id
from holdfast.stores._shared.disk import make_directories as make_directories


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new file to write to, which takes the place of `path` if all went well, durably.

    It is in a directory of its own, which nobody else can enter, whatever a library makes there.
    Raises `OSError` for what is no regular file: a file would take the place of /dev/stdout.
    """
    target = Path(path).absolute()
    _check_place(target)
    scratch = target.with_name(f".{new_id()}")
    partial = scratch / target.name
    try:
        scratch.mkdir(mode=0o700)
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.chmod(_mode_for(target))
        partial.replace(target)
    except OSError as error:
        if error.filename not in (str(partial), str(scratch)):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def open_to_append(path: Path) -> BinaryIO:
    """The file, to write at its end."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "ab")


def _check_place(target: Path) -> None:
    """Raise `OSError` for a device, a pipe and /dev/stdout, also if that leads to a file."""
    link = target.parent / target.readlink() if target.is_symlink() else target
    is_open = any(os.path.realpath(one.parent).startswith("/proc/") for one in (target, link))
    if is_open or (target.exists() and not target.is_file()):
        raise OSError(errno.EINVAL, "only a regular file can be replaced", os.fspath(target))


def _mode_for(target: Path) -> int:
    try:
        return stat.S_IMODE(target.stat().st_mode) & 0o777
    except FileNotFoundError:
        return 0o600
