"""Digests of files, cached while the file is certainly the same."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.evidence.policy import Policy
from holdfast.seams import SYSTEM_CLOCK, Clock

_CHUNK: Final = 1 << 18
_SETTLED: Final = 2_000_000_000  # nanoseconds; FAT keeps times to two seconds


class Identity(NamedTuple):
    """What changes whenever a file does: nobody can set a ctime."""

    device: int
    inode: int
    size: int
    mtime: int
    ctime: int


def identity(status: os.stat_result) -> Identity:
    """The identity of a file as it is now."""
    return Identity(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


class ChangedError(Exception):
    """The file changed while it was read; its digest is that of nothing."""


class HashCache:
    """Digests by identity, in memory, the oldest forgotten first. May be shared between threads.

    A file that changed less than two seconds before it was read is not remembered: clocks of
    file systems are coarse, and it could change again within the same tick. What is written
    through a shared memory map shows in a file's times only when the system gets to it, so no
    decision relies on this; it is for programs that show verdicts often.
    """

    def __init__(self, limit: int = 100_000, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._digests: dict[Identity, str] = {}
        self._limit = limit
        self._clock = clock
        self.hits = 0
        self.misses = 0

    def get(self, key: Identity) -> str | None:
        """The digest, if it is known."""
        digest = self._digests.get(key)
        if digest is None:
            self.misses += 1
        else:
            self.hits += 1
        return digest

    def now(self) -> int:
        """The time to give to `put`, taken before the file is read."""
        return self._clock.now() * 1000

    def put(self, key: Identity, digest: str, before: int) -> None:
        """Remember the digest of a file that was read after `before`."""
        if before - max(key.mtime, key.ctime) <= _SETTLED:
            return
        self._digests[key] = digest
        while len(self._digests) > self._limit:
            try:
                self._digests.pop(next(iter(self._digests)), None)
            except (StopIteration, RuntimeError):  # another thread is forgetting, too
                return

    def clear(self) -> None:
        """Forget everything."""
        self._digests = {}


def sha256_of(
    descriptor: int,
    on_chunk: Callable[[], object] = lambda: None,
    on_size: Callable[[int], object] = lambda size: None,
) -> tuple[Identity, str]:
    """The identity and digest of an open regular file.

    Raises `ChangedError` if it changed meanwhile, or has more or fewer bytes than its size says, as
    files of /proc do. `on_size` is called with that size before anything is read, and `on_chunk`
    after each piece; both may raise to stop.
    """
    before = identity(os.fstat(descriptor))
    on_size(before.size)
    digest = hashlib.sha256()
    buffer = _buffer()
    total = 0
    while True:
        count = os.readv(descriptor, [buffer])
        if not count:
            break
        total += count
        if total > before.size:
            raise ChangedError
        digest.update(buffer[:count])
        on_chunk()
    if total != before.size or identity(os.fstat(descriptor)) != before:
        raise ChangedError
    return before, digest.hexdigest()


def too_large(size: int, policy: Policy) -> str:
    """Why a file of this size is not read."""
    limit = policy.max_file_bytes
    return (
        f"it has {size:,} bytes, and {limit:,} is the limit; Policy(max_file_bytes=...) allows more"
    )


_local: Final = threading.local()


def _buffer() -> memoryview:
    """One for each thread; making a fresh one for each file costs as much as reading it."""
    try:
        found: memoryview = _local.buffer
    except AttributeError:
        found = _local.buffer = memoryview(bytearray(_CHUNK))
    return found
