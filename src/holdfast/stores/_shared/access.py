"""Who else can reach a store on disk. One that others may have put there is not opened.

Everything is made for its owner only. What is there already keeps its mode: to share a store within
a group is the owner's choice, and `doctor` says so.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from holdfast.errors import StoreError
from holdfast.logs import logger
from holdfast.permissions import by_everyone, in_reach_of_everyone, is_ours, user_name

SUFFIXES: Final = ("-wal", "-shm", "-journal", ".wal")
"""What databases add to their name for their other files."""

_log: Final = logger()
_told: Final[set[str]] = set()  # what was warned of in this process
_ROOT: Final = 0


class Risk(NamedTuple):
    """What others can do with a file or directory, and the command that ends it."""

    level: Literal["refused", "warned", "noted"]
    path: Path
    what: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.what}; {self.way_out}"


def refuse_planted(url: str, path: Path) -> None:
    """Raise `StoreError` if others may have put the store at `path` there, or could.

    What everyone can change although it is ours is warned of, once.
    """
    for risk in risks(path):
        if risk.level == "refused":
            raise StoreError(f"{url} is not opened: {risk}")
        line = str(risk)
        if risk.level == "warned" and line not in _told:
            _told.add(line)
            _log.warning("%s", line)


def risks(path: Path) -> Iterator[Risk]:
    """Everything that others can do with a store, the worst of each file or directory."""
    real = Path(os.path.realpath(path))
    for directory in dict.fromkeys((path.absolute().parent, real.parent)):
        with suppress(FileNotFoundError):
            yield from _of_all(directory, directory.stat(), "the directory ")
    try:
        status = real.stat()
    except FileNotFoundError:
        return
    yield from _of_all(real, status)
    if not stat.S_ISDIR(status.st_mode):
        yield from _of_readers(real, status)
    for suffix in SUFFIXES:
        other = real.with_name(real.name + suffix)
        with suppress(FileNotFoundError):
            found = other.lstat()
            yield from _of_all(other, found)
            yield from _of_strangers(other, found, status)
    if not is_ours(status):
        what = f"{real} belongs to {user_name(status.st_uid)}"
        if in_reach_of_everyone(real.parent.stat()):
            what += ", who may have put it there: everyone can write to its directory"
            yield Risk("warned", real, what, "use it only if you know it")
        else:
            yield Risk("noted", real, what, "use it if that is meant")
    elif status.st_mode & stat.S_IWGRP:
        way_out = f"if that is not meant: chmod g-w {_quoted(real)}"
        yield Risk("noted", real, f"its group can write to {real}", way_out)


def _of_all(path: Path, status: os.stat_result, kind: str = "") -> Iterator[Risk]:
    """What everyone can change."""
    if not by_everyone(status) or stat.S_ISLNK(status.st_mode):
        return
    what, change = f"everyone can write to {kind}{path}", f"chmod o-w {_quoted(path)}"
    if not is_ours(status):
        what += f", which belongs to {user_name(status.st_uid)}"
        way_out = f"use another place, or have its owner change that: {change}"
        yield Risk("refused", path, what, way_out)
    elif kind and status.st_uid == _ROOT != os.geteuid():  # as volumes of containers are
        yield Risk("noted", path, what, f"if that is not meant: {change}")
    else:
        yield Risk("warned", path, what, f"change that: {change}")


def _of_readers(path: Path, status: os.stat_result) -> Iterator[Risk]:
    """What everyone can read, if they get as far as this."""
    if status.st_mode & stat.S_IROTH:
        way_out = f"if that is not meant: chmod o-r {_quoted(path)}"
        yield Risk("noted", path, f"everyone can read {path}", way_out)


def _of_strangers(path: Path, status: os.stat_result, main: os.stat_result) -> Iterator[Risk]:
    """A log that somebody else put beside a database would be taken for its newest pages."""
    foreign = not is_ours(status) and status.st_uid != main.st_uid
    if stat.S_ISLNK(status.st_mode) or (foreign and not main.st_mode & stat.S_IWGRP):
        what = f"{path} was not made by the owner of the database"
        yield Risk("refused", path, what, f"see what it is, and remove it: rm {_quoted(path)}")


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
