"""The file `.heads`: what a process has found out about the runs, for those that come after it.

A checksum, then msgpack: a version, what is known of each directory, and the statistics. A file
that is not whole counts as none.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

import ormsgpack

from holdfast.heads import RunHead, Tally
from holdfast.stores.files.changes import TICK, Stamp
from holdfast.stores.files.root import Root, remove_file

_NAME: Final = ".heads"
_VERSION: Final = 1
_CHECK: Final = 16  # bytes


class Known(NamedTuple):
    """What is known of a directory, as of its stamp."""

    stamp: Stamp | None
    run: str  # empty if it is none
    seq: int  # of the last entry that was read, and its digest
    digest: bytes
    thinned: bytes
    row: RunHead | None

    @classmethod
    def unread(cls, run: str) -> Self:
        """Nothing is known but its run."""
        return cls(None, run, -1, b"", b"", None)

    def settled(self) -> Self:
        """With a stamp that needs no look at the files, once they can't change unnoticed."""
        stamp = self.stamp
        if stamp is None or stamp.files is None or time.time_ns() - stamp.changed <= TICK:
            return self
        return self._replace(stamp=stamp._replace(files=None))


def read_heads(root: Root) -> tuple[dict[str, Known], list[Tally]]:
    """What the file says; nothing if there is none, or it is damaged."""
    try:
        with root.open() as directory:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(_NAME, flags, dir_fd=directory), "rb") as file:  # noqa: PTH123
                content = file.read()
        if content[:_CHECK] != _check(content[_CHECK:]):
            return {}, []
        version, known, statistics = ormsgpack.unpackb(content[_CHECK:])
        if version != _VERSION:
            return {}, []
        return {name: _known(*fields) for name, *fields in known}, [
            Tally(*row) for row in statistics
        ]
    except (OSError, ValueError, TypeError):
        return {}, []


def write_heads(root: Root, known: Mapping[str, Known], statistics: Iterable[Tally]) -> None:
    """Replace the file. A power loss may take it: it is not waited for."""
    content = ormsgpack.packb([
        _VERSION,
        [[name, *_packed(each)] for name, each in known.items()],
        [list(row) for row in statistics],
    ])  # fmt: skip
    with root.temporary() as temp, root.open() as directory:
        name = os.urandom(8).hex()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(name, flags, 0o600, dir_fd=temp), "wb") as file:  # noqa: PTH123
                file.write(_check(content) + content)
            os.replace(name, _NAME, src_dir_fd=temp, dst_dir_fd=directory)
        except OSError:
            remove_file(name, temp)
            raise


def _known(
    stamp: list[Any] | None, run: str, seq: int, digest: bytes, thinned: bytes, row: Any
) -> Known:
    stamped = None if stamp is None else Stamp(*stamp)
    made = None if row is None else RunHead._make([run, *row])
    if made is not None:
        made = made._replace(labels=tuple(made.labels))
    return Known(stamped, run, seq, digest, thinned, made)


def _packed(known: Known) -> list[object]:
    stamp, row = known.stamp, known.row
    return [
        None if stamp is None else list(stamp),
        *known[1:5],
        None if row is None else list(row[1:]),
    ]


def _check(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECK).digest()
