"""The directory of a file store: its lock and its temporary files.

    root/.lock               held by the writer; contains the token of the last writer, and how
                             often runs were changed
    root/.tmp/PID-TOKEN/     temporary files of one open store, locked while its process lives
    root/.heads              what was found out about the runs, for lists of them; see `index`
    root/RUN/                a run

Nothing below the root is ever followed through a symbolic link.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.errors import StoreUnavailableError
from holdfast.seams import on_fork
from holdfast.stores._shared.access import refuse_planted
from holdfast.stores._shared.disk import make_directories, sync

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_SLEEP: Final = 0.01
_TOKEN_BYTES: Final = 16
_COUNT_BYTES: Final = 8


class Root:
    """An existing or new directory. All methods may raise `OSError`."""

    _mutex: threading.Lock
    _lock_fd: int | None
    _temp_fd: int | None
    _token: bytes
    _temp_name: str

    def __init__(self, path: Path, lock_seconds: float) -> None:
        self.path = path
        self._lock_seconds = lock_seconds
        make_directories(path)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        refuse_planted(f"file://{path}", path)
        self._identity = _identity(path.stat())
        self._start()
        on_fork(self._after_fork)

    @contextmanager
    def open(self) -> Iterator[int]:
        """A handle of the directory, opened anew, as the directory may have been replaced."""
        fd = os.open(self.path, _DIRECTORY & ~os.O_NOFOLLOW)
        try:
            if _identity(os.fstat(fd)) != self._identity:
                raise FileNotFoundError(f"{self.path} was replaced while the store was open")
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def lock(self, *, sign: bool = True, count: bool = False) -> Iterator[bool]:
        """Lock out all other writers, for up to `lock_seconds` of waiting.

        Yields whether this root was also the last to hold the lock: then nobody else has changed
        the store since. Who does not `sign` leaves it to the next one to ask that. With `count`,
        those who poll look for changes.
        """
        deadline = time.monotonic() + self._lock_seconds
        with self._mutex:  # threads of one process never hold it for long
            fd = self._lock_file()
            self._wait_for_lock(fd, deadline)
            try:
                unchanged = os.pread(fd, _TOKEN_BYTES, 0) == self._token
                if sign and not unchanged:
                    os.pwrite(fd, self._token, 0)
                yield unchanged
            finally:
                if count:
                    _count(fd)
                fcntl.flock(fd, fcntl.LOCK_UN)

    def changes(self) -> bytes:
        """How often runs were changed, as bytes that differ if there are more."""
        with suppress(FileNotFoundError), self.open() as root:
            fd = os.open(".lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
            try:
                return os.pread(fd, _COUNT_BYTES, _TOKEN_BYTES)
            finally:
                os.close(fd)
        return b""

    @contextmanager
    def temporary(self) -> Iterator[int]:
        """A handle of a directory for files that are not part of the store yet, or no longer."""
        if self._temp_fd is None or os.fstat(self._temp_fd).st_nlink == 0:  # it was removed
            with self.lock(sign=False):
                self._open_temp()
        with (
            self.open() as root,
            opened(".tmp", root) as temps,
            opened(self._temp_name, temps) as temp,
        ):
            yield temp

    def close(self) -> None:
        """Close the lock file and remove this store's temporary directory."""
        with self._mutex:
            if self._temp_fd is not None:
                with suppress(OSError), self.open() as root, opened(".tmp", root) as temps:
                    remove_tree(self._temp_name, temps)
            self._forget()

    def _start(self) -> None:
        self._mutex = threading.Lock()
        self._lock_fd = self._temp_fd = None
        self._token = os.urandom(_TOKEN_BYTES)
        self._temp_name = f"{os.getpid()}-{self._token.hex()}"

    def _after_fork(self) -> None:
        # Closing the child's copies does not release what the parent has locked.
        self._forget()
        self._start()

    def _forget(self) -> None:
        for fd in (self._lock_fd, self._temp_fd):
            if fd is not None:
                os.close(fd)
        self._lock_fd = self._temp_fd = None

    def _lock_file(self) -> int:
        """The lock file, opened again if others can't find it any more."""
        if self._lock_fd is not None and os.fstat(self._lock_fd).st_nlink == 0:
            fd, self._lock_fd = self._lock_fd, None
            os.close(fd)
        if self._lock_fd is None:
            with self.open() as root:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                self._lock_fd = os.open(".lock", flags, 0o600, dir_fd=root)
        return self._lock_fd

    def _wait_for_lock(self, fd: int, deadline: float) -> None:
        sleep = 0.0002
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StoreUnavailableError(
                        f"{self.path} is locked by another process"
                    ) from None
            time.sleep(sleep)
            sleep = min(2 * sleep, _LONGEST_SLEEP)

    def _open_temp(self) -> None:
        """Make the temporary directory and remove those of processes that are gone.

        It is made and locked under the store's lock, so that nobody finds it unlocked and removes
        it. Locks are better than pids, which are reused and differ between containers.
        """
        if self._temp_fd is not None:
            if os.fstat(self._temp_fd).st_nlink:
                return
            fd, self._temp_fd = self._temp_fd, None
            os.close(fd)
        with self.open() as root:
            make_directory(".tmp", root)
            with opened(".tmp", root) as temps:
                os.mkdir(self._temp_name, 0o700, dir_fd=temps)
                self._temp_fd = open_directory(self._temp_name, temps)
                fcntl.flock(self._temp_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in os.listdir(temps):  # noqa: PTH208 - by handle
                    if name != self._temp_name:
                        _remove_if_abandoned(name, temps)


def _count(lock: int) -> None:
    with suppress(OSError):  # nobody must lose a save because others can't hear of it
        changes = int.from_bytes(os.pread(lock, _COUNT_BYTES, _TOKEN_BYTES), "big") + 1
        os.pwrite(lock, changes.to_bytes(_COUNT_BYTES, "big"), _TOKEN_BYTES)


def open_directory(name: str, parent: int) -> int:
    """A handle of a real directory; a symbolic link raises `OSError`."""
    return os.open(name, _DIRECTORY, dir_fd=parent)


@contextmanager
def opened(name: str, parent: int) -> Iterator[int]:
    """The same, closed at the end."""
    fd = open_directory(name, parent)
    try:
        yield fd
    finally:
        os.close(fd)


def make_directory(name: str, parent: int) -> None:
    """Make a directory unless it is there; durable once the parent is synced."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)


def write_durably(name: str, content: bytes, parent: int) -> None:
    """Write a new file and wait for the disk. On failure nothing of it is left."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=parent)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(fd, rest) :]
            sync(fd)
        finally:
            os.close(fd)
    except OSError:
        remove_file(name, parent)
        raise


def remove_file(name: str, parent: int) -> None:
    """Remove a file if it is there and can be removed."""
    with suppress(OSError):
        os.unlink(name, dir_fd=parent)


def reason(error: Exception) -> str:
    """What the operating system says, without the path."""
    return getattr(error, "strerror", None) or str(error)


def remove_tree(name: str, parent: int, *, missing_ok: bool = False) -> None:
    """Remove a directory with all that is in it, following no link."""
    shutil.rmtree(name, ignore_errors=missing_ok, dir_fd=parent)


def _remove_if_abandoned(name: str, parent: int) -> None:
    with suppress(OSError), opened(name, parent) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(name, parent)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
