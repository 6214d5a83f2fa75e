"""What is in a directory: its files, and the links that stand for themselves."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from typing import NamedTuple

from holdfast.errors import InvalidEvidenceError
from holdfast.evidence.policy import Policy
from holdfast.evidence.world.paths import locate, look


class Contents(NamedTuple):
    """The paths of what is in a directory, sorted; each begins with the directory's own path."""

    files: list[str]
    links: list[str]  # that lead nowhere, or to a directory whose files are among `files` already


def contents(path: str, policy: Policy, most: int) -> Contents:
    """Everything in a directory and in the directories below, also in those that links lead to.

    Each directory is visited once, so links in a circle end. Sockets, FIFOs and devices are left
    out. Raises `EvidencePolicyError` for a link that leads out of the roots, `OSError` if a
    directory can't be read, and `InvalidEvidenceError` beyond `most` entries.
    """
    found = Contents([], [])
    visited: set[tuple[int, int]] = set()
    real, linked = deque([path]), deque[str]()
    entries = 0
    while real or linked:  # links last: what they lead to may be in the directory itself
        is_link = not real
        directory = linked.popleft() if is_link else real.popleft()
        status = look(locate(directory, policy), policy)
        if (status.st_dev, status.st_ino) in visited:
            if is_link:
                found.links.append(directory)
            continue
        visited.add((status.st_dev, status.st_ino))
        with os.scandir(_opened(directory, policy)) as inside:
            for entry in inside:
                entries += 1
                if entries > most:
                    problem = f"has more than {most:,} files; claim one file that lists them"
                    raise InvalidEvidenceError(path, problem)
                name = f"{directory.rstrip('/')}/{entry.name}"
                _sort(name, entry, policy, found, real, linked)
    return Contents(sorted(found.files), sorted(found.links))


def _sort(
    name: str,
    entry: os.DirEntry[str],
    policy: Policy,
    found: Contents,
    real: deque[str],
    linked: deque[str],
) -> None:
    """Put one entry of a directory where it belongs."""
    if not entry.is_symlink():
        if entry.is_dir(follow_symlinks=False):
            real.append(name)
        elif entry.is_file(follow_symlinks=False):
            found.files.append(name)
        return
    try:
        mode = look(locate(name, policy), policy).st_mode
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        found.links.append(name)
        return
    if stat.S_ISDIR(mode):
        linked.append(name)
    elif stat.S_ISREG(mode):
        found.files.append(name)


def _opened(directory: str, policy: Policy) -> str:
    """The path to list; what is in it is looked up again by name, within the policy."""
    place = locate(directory, policy)
    return place.path if place.root is None else os.path.join(place.root, *place.parts)  # noqa: PTH118 - text
