"""Which runs of a file store changed, without a look at those that did not."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final, NamedTuple

from holdfast.changes import Change
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import HIDDEN
from holdfast.stores.files import format as form
from holdfast.stores.files import run as journal
from holdfast.stores.files.root import Root, opened

TICK: Final = 2_000_000_000  # nanoseconds; file systems tell no finer, and some are that coarse


class Stamp(NamedTuple):
    """When a directory was changed last and, if it may change again at the same time, its files."""

    changed: int
    files: str | None  # how many there are, and the last name


class _Mark(NamedTuple):
    """The number of changes, and the directories of all runs as they were then."""

    changes: bytes
    runs: dict[str, Stamp]


def poll(root: Root, mark: object) -> tuple[object, list[Change]]:
    """`Store.poll`: if the number of changes is another, find the directories that changed."""
    before = mark if isinstance(mark, _Mark) else None
    changes = root.changes()
    if before is not None and before.changes == changes:
        return before, []
    found: list[Change] = []
    stamps: dict[str, Stamp] = {}
    with root.open() as fd:
        known = before.runs if before is not None else {}
        for name in directories(fd):
            with suppress(FileNotFoundError):
                stamp = stamp_of(name, fd, known.get(name))
                stamps[name] = stamp
                if before is not None and stamp != known.get(name):
                    found += _changes(name, fd)
                if stamp.files is not None and time.time_ns() - stamp.changed > TICK:
                    stamps[name] = stamp._replace(files=None)
    return _Mark(changes, stamps), found


def directories(root: int) -> list[str]:
    """The names of the directories of runs."""
    with os.scandir(root) as places:
        return [
            place.name
            for place in places
            if not place.name.startswith(".") and place.is_dir(follow_symlinks=False)
        ]


def stamp_of(name: str, root: int, known: Stamp | None) -> Stamp:
    """The stamp of a directory; with its files as long as the known one has them."""
    changed = os.stat(name, dir_fd=root, follow_symlinks=False).st_mtime_ns
    recent = time.time_ns() - changed <= TICK
    if recent or (known is not None and known.changed == changed and known.files is not None):
        with opened(name, root) as run:
            names = os.listdir(run)  # noqa: PTH208 - by handle
            return Stamp(changed, f"{len(names)} {max(names, default='')}")
    return Stamp(changed, None)


def _changes(name: str, root: int) -> list[Change]:
    try:
        run = journal.run_in(name, root) if form.is_cut(name) else form.run_of(name)
    except CheckpointCorruptedError:
        return []
    if not run or run.startswith(HIDDEN):
        return []
    with suppress(CheckpointCorruptedError, FileNotFoundError), opened(name, root) as directory:
        head, _ = journal.load(
            directory, run, max(journal.seqs(directory), default=0), bodies=False
        )
        return [Change(run, head.seq, head.status)]
    return [Change(run)]
