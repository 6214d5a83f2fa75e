"""Other users, for tests that root runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

ANN: Final = 51_001
BOB: Final = 51_002
needs_root: Final = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")


@contextmanager
def as_user(uid: int, *member_of: int) -> Iterator[None]:
    """Have no more rights than this user."""
    groups, group = os.getgroups(), os.getegid()
    os.setgroups(member_of)
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def belongs_to(uid: int, *paths: Path, group: int | None = None) -> None:
    """Give files to a user."""
    for path in paths:
        os.chown(path, uid, uid if group is None else group, follow_symlinks=False)


@contextmanager
def public_directory() -> Iterator[Path]:
    """A directory that every user can enter, which pytest's own are not."""
    path = Path(tempfile.mkdtemp(prefix="holdfast-users-")).resolve()
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)
