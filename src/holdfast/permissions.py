"""Who else can write a file: what others wrote is not taken for ours."""

from __future__ import annotations

import os
import pwd
import stat
from typing import Final

_ROOT: Final = 0


def is_ours(status: os.stat_result) -> bool:
    """Whether it belongs to this user, to root, or to the user who became root by sudo."""
    return status.st_uid in (_ROOT, os.geteuid()) or status.st_uid == _behind_sudo()


def by_everyone(status: os.stat_result) -> bool:
    """Whether every user can change it: write the file, or rename what is in the directory.

    In a directory such as /tmp, which is sticky, others may add files, but not replace ours.
    """
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    return bool(status.st_mode & stat.S_IWOTH) and not sticky


def by_group(status: os.stat_result) -> bool:
    """Whether a group that is neither our own nor root's can write it."""
    ours = (_ROOT, os.getegid(), _behind_sudo("SUDO_GID"))
    return bool(status.st_mode & stat.S_IWGRP) and status.st_gid not in ours


def in_reach_of_everyone(status: os.stat_result) -> bool:
    """Whether every user can put a file into this directory."""
    return bool(status.st_mode & stat.S_IWOTH)


def user_name(uid: int) -> str:
    """A user, for people."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # as in a container
        return f"uid {uid}"


def _behind_sudo(name: str = "SUDO_UID") -> int | None:
    """Whoever calls sudo could do as root what they like: their files may be used, too."""
    said = os.environ.get(name, "")
    return int(said) if os.geteuid() == _ROOT and said.isascii() and said.isdigit() else None
