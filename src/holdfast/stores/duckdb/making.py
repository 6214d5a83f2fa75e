"""Makes DuckDB's files for their owner only: DuckDB itself would make them as the umask says."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb

from holdfast.stores._shared.access import refuse_planted
from holdfast.stores._shared.disk import make_directories, sync, sync_directory

_LOG: Final = ".wal"


def make_file(path: Path, url: str) -> None:
    """Make the database's file if there is none.

    It is made in a directory of its own, which nobody else can enter, and gets its name when it is
    private. Raises `StoreError` if others may have put one there, or could.
    """
    make_directories(path.parent)
    refuse_planted(url, path)
    if path.exists():
        return
    scratch = Path(tempfile.mkdtemp(prefix=".holdfast-", dir=path.parent))
    try:
        made = scratch / path.name
        duckdb.connect(str(made)).close()
        made.chmod(0o600)
        try:
            os.link(made, path)
        except FileExistsError:  # another process was faster
            return
        except OSError:  # a file system without links
            if not path.exists():
                made.rename(path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    sync_directory(path.parent)


@contextmanager
def rewritten(path: Path) -> Iterator[Path]:
    """Give a path to write the database anew to; it takes the place of the old one at the end."""
    scratch = Path(tempfile.mkdtemp(prefix=".holdfast-", dir=path.parent))
    try:
        fresh = scratch / path.name
        yield fresh
        fresh.chmod(path.stat().st_mode & 0o666)
        with fresh.open("rb") as file:
            sync(file.fileno())
        fresh.replace(path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    sync_directory(path.parent)


def make_log(path: Path) -> None:
    """Make the write-ahead log if there is none, with the mode of the database.

    DuckDB removes it whenever it has moved its content to the database, and writes to the one that
    it finds.
    """
    log = f"{path}{_LOG}"
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:  # it is there; or else DuckDB says what is wrong
        return
    try:
        mode = path.stat().st_mode & 0o666
        if mode != 0o600:
            os.fchmod(file, mode)
    finally:
        os.close(file)
