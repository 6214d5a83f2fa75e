"""Files that keys are kept in: private ones, which only their owner may read, and public ones.

A file of secret keys has a line for each, oldest first, as an id and the key in base64. Lines that
begin with # are comments:

    # for nightly jobs
    2025: 7QxQ0m1Pq3cY0n7rI1b0b0o3h7w1m3o8b1uYk0pF2aA=
    2026: nW2l8k0b4o0yJ9kqv5k6H4i3m8q2Wm4z0s1bQ0aJ6dE=
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.errors import InvalidIdError, KeyFileError
from holdfast.model import check_id
from holdfast.permissions import by_everyone, by_group, is_ours, user_name
from holdfast.seams import new_id
from holdfast.stores._shared.disk import sync, sync_directory

StrPath = str | os.PathLike[str]

MAX_KEY_ID: Final = 64
MAX_FILE: Final = 1 << 20
SHORTEST_KEY: Final = 32
LONGEST_KEY: Final = 1024
PRIVATE: Final = 0o600


def check_key_id(value: str) -> str:
    """Return the id of a key if it can be stored and shown; raise `InvalidIdError`.

    At most 64 bytes of printable text without spaces, which does not begin with #.
    """
    check_id("key id", value)
    if len(value.encode()) > MAX_KEY_ID:
        raise InvalidIdError("key id", value, f"is longer than {MAX_KEY_ID} bytes")
    if not value.isprintable() or " " in value:
        raise InvalidIdError("key id", value, "may hold printable characters only, and no space")
    if value.startswith(("#", "-----")):
        raise InvalidIdError("key id", value, "begins like a comment or a PEM block")
    return str(value)


def read_keys(path: StrPath) -> dict[str, bytes]:
    """The secret keys in a private file by id, oldest first.

    Raises `KeyFileError` if others can read or replace the file, or if it is malformed.
    """
    return parse_keys(read_private(path), os.fspath(path))


def write_keys(path: StrPath, keys: Mapping[str, bytes]) -> None:
    """Replace a private file with these keys, atomically and durably."""
    _replace(Path(path), format_keys(keys))


def add_key(path: StrPath, key_id: str, key: bytes) -> None:
    """Add a newer key to a private file, atomically and durably. What it has is kept."""
    line = format_keys({key_id: key})
    with _locked(Path(path).absolute().parent):
        content = read_private(path)
        if key_id in parse_keys(content, os.fspath(path)):
            raise KeyFileError(os.fspath(path), f"has a key {key_id!r} already; give another id")
        end = b"" if content.endswith(b"\n") or not content else b"\n"
        _replace(Path(path), content + end + line)


def parse_keys(content: bytes, where: str) -> dict[str, bytes]:
    """The keys in the text of a file. No message quotes a line: it may be half a key."""
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError:
        raise KeyFileError(where, "is not text") from None
    found: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        key_id, key = _parse_line(line, f"line {number}", where)
        if key_id in found:
            raise KeyFileError(where, f"line {number}: a key has the id of an earlier line")
        found[key_id] = key
    if not found:
        raise KeyFileError(where, "has no key; `holdfast keygen` makes one")
    return found


def format_keys(keys: Mapping[str, bytes]) -> bytes:
    """The text of a file with these keys."""
    lines = [
        f"{check_key_id(key_id)}: {base64.b64encode(_check_length(key_id, key)).decode()}\n"
        for key_id, key in keys.items()
    ]
    return "".join(lines).encode()


def read_private(path: StrPath) -> bytes:
    """The content of a file that nobody else can read or replace; raises `KeyFileError`.

    It must belong to this user or to root, with no permission for the group or others, and so must
    a symbolic link to it. Its directory must belong to one of them, too, and others must not be
    able to rename files in it.
    """
    content, status = _read(path)
    if status.st_mode & 0o077:
        raise KeyFileError(
            os.fspath(path),
            "can be used by others, so its keys may be known; make new ones, or, if nobody read "
            f"it: chmod 600 {shlex.quote(os.fspath(path))}",
        )
    return content


def read_public(path: StrPath) -> bytes:
    """The content of a file that everyone may read, but nobody else replace."""
    content, status = _read(path)
    if by_everyone(status) or by_group(status):
        raise KeyFileError(
            os.fspath(path),
            "can be changed by others, who could have their own keys trusted; after a look: "
            f"chmod go-w {shlex.quote(os.fspath(path))}",
        )
    return content


def write_new(path: StrPath, content: bytes, mode: int = PRIVATE) -> None:
    """Make a file, durably. Raises `FileExistsError`: keys are never overwritten."""
    target = Path(path)
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            sync(file.fileno())
    except BaseException:
        target.unlink()
        raise
    sync_directory(target.absolute().parent)


def _parse_line(line: str, number: str, where: str) -> tuple[str, bytes]:
    key_id, colon, text = line.rpartition(":")
    if not colon:
        raise KeyFileError(where, f"{number}: a line is an id, a colon and a key in base64")
    try:
        check_key_id(key_id)
    except InvalidIdError as error:
        raise KeyFileError(where, f"{number}: the id of the key {error.reason}") from None
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise KeyFileError(where, f"{number}: the key is not base64") from None
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise KeyFileError(where, f"{number}: {_length_problem(key)}")
    return key_id, key


def _check_length(key_id: str, key: bytes) -> bytes:
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise ValueError(f"key {key_id!r}: {_length_problem(key)}")
    return key


def _length_problem(key: bytes) -> str:
    return f"a key has {SHORTEST_KEY} to {LONGEST_KEY} random bytes, not {len(key)}"


def _read(path: StrPath) -> tuple[bytes, os.stat_result]:
    where = os.fspath(path)
    real = Path(os.path.realpath(path))
    for what, found in (
        ("it", os.lstat(path)),
        ("its directory", Path(path).absolute().parent.stat()),
        ("its directory", real.parent.stat()),
    ):
        if not is_ours(found):
            raise KeyFileError(where, f"is not used: {what} belongs to {user_name(found.st_uid)}")
        if stat.S_ISDIR(found.st_mode) and (by_everyone(found) or by_group(found)):
            raise KeyFileError(where, "is not used: others can replace files in its directory")
    fd = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileError(where, "is not a file")
        if not is_ours(status):
            raise KeyFileError(where, f"is not used: it belongs to {user_name(status.st_uid)}")
        with os.fdopen(fd, "rb", closefd=False) as file:
            content = file.read(MAX_FILE + 1)
    finally:
        os.close(fd)
    if len(content) > MAX_FILE:
        raise KeyFileError(where, "is larger than 1 MiB: it can't be a file of keys")
    return content, status


def _replace(target: Path, content: bytes) -> None:
    target = Path(os.path.realpath(target))  # a link stays one
    scratch = target.with_name(f".{new_id()}")
    try:
        write_new(scratch, content)
        scratch.replace(target)
        sync_directory(target.parent)
    finally:
        with suppress(FileNotFoundError):
            scratch.unlink()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One process at a time adds a key: else one of two would be lost."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
