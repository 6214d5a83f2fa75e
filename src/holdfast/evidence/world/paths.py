"""From a claimed path to a file, never outside the roots, even if links change meanwhile.

A path is walked one component at a time, each looked up in the directory that is already open,
and links are followed by hand: their text is walked in the same way. No name is ever resolved
twice, so no link can be put in its place in between. `..` in a link goes back
to the directory we came through and never above the root; in a claim it is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.errors import EvidencePolicyError, InvalidEvidenceError
from holdfast.evidence.policy import Policy

MAX_LINKS: Final = 40
MAX_PATH: Final = 4096

_DIRECTORY: Final = (
    getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
)
_ROOT: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
# A FIFO without a writer does not block, and a terminal does not become ours.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotRegularError(OSError):
    """It is there, but it is no regular file; it was not opened."""


class Place(NamedTuple):
    """A claimed path: the root it starts in, and the way from there. Nothing was opened yet."""

    path: str  # as it was claimed
    root: str | None  # None: an absolute path that is the program's own word
    parts: tuple[str, ...]
    claimed_in: str | None = None  # where a relative path was claimed, if it is not looked up there


def locate(path: object, policy: Policy, base: str | None = None) -> Place:
    """Where the path leads by its text.

    A relative one starts in `base`, where it was claimed, if the policy allows that; else in the
    policy's first root, or in the working directory. Raises `InvalidEvidenceError` if it is not a path, `EvidencePolicyError` if it is not allowed.
    """
    if not isinstance(path, str) or not path or "\0" in path or len(path) > MAX_PATH:
        raise InvalidEvidenceError("path", f"{str(path)[:80]!r} is not a path")
    parts = tuple(part for part in path.split("/") if part and part != ".")
    if ".." in parts:
        raise EvidencePolicyError(path, "'..' is refused; give the path without it")
    if not path.startswith("/"):
        if policy.directories or policy.own_word:
            return _in_base(path, parts, policy, base)
    elif not policy.directories and policy.own_word:
        return Place(path, None, parts)
    elif policy.directories:
        inside = _inside(parts, policy)
        if inside is not None:
            return Place(path, *inside)
    raise EvidencePolicyError(path, "it is in none of the roots; Policy(roots=[...]) allows it")


def _in_base(path: str, parts: tuple[str, ...], policy: Policy, base: str | None) -> Place:
    here = Place(path, str(policy.directories[0]) if policy.directories else ".", parts)
    if base is None:
        return here
    if policy.directories:
        inside = _inside((*Path(base).parts[1:], *parts), policy)
        return here._replace(claimed_in=base) if inside is None else Place(path, *inside)
    if os.path.isdir(base):  # noqa: PTH112 - text
        return Place(path, base, parts)
    return here._replace(claimed_in=base)


def look(place: Place, policy: Policy) -> os.stat_result:
    """What is there, links followed. Raises `OSError`, or `EvidencePolicyError` if they lead out."""
    if place.root is None:
        return os.stat(place.path)  # noqa: PTH116 - the same call as below
    if len(place.parts) == 1:  # the root is the program's own word: no walk is needed for it
        status = os.lstat(f"{place.root}/{place.parts[0]}")
        if not stat.S_ISLNK(status.st_mode):
            return status
    directory, _, status = _walk(place, policy)
    os.close(directory)
    return status


def look_at_name(place: Place, policy: Policy) -> tuple[os.stat_result, str | None]:
    """What has this very name, and its text if it is a link, which is not followed.

    Links on the way to it are. Raises as `look` does.
    """
    if place.root is None:
        status = os.lstat(place.path.rstrip("/") or "/")
        is_link = stat.S_ISLNK(status.st_mode)
        return status, os.readlink(place.path.rstrip("/")) if is_link else None  # noqa: PTH115 - as above
    directory, name, status = _walk(place, policy, follow_last=False)
    try:
        is_link = stat.S_ISLNK(status.st_mode)
        return status, os.readlink(name, dir_fd=directory) if is_link else None
    finally:
        os.close(directory)


def open_file(place: Place, policy: Policy) -> int:
    """A descriptor of the regular file that is there, for reading. Raises as `look` does.

    What is not a regular file is not opened, as opening a device may do something:
    `NotRegularError`.
    """
    if place.root is None:
        _refuse_special(os.stat(place.path), place.path)  # noqa: PTH116 - as above
        descriptor = os.open(place.path, _READ)
    else:
        directory, name, status = _walk(place, policy)
        try:
            _refuse_special(status, place.path)
            descriptor = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=directory)
        finally:
            os.close(directory)
    try:
        _refuse_special(os.fstat(descriptor), place.path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def real_path(place: Place, policy: Policy) -> str:
    """The path of the regular file that is there, for those who can't take a descriptor.

    It may be another one by the time it is used: look again afterwards.
    """
    if place.root is None:
        return os.path.realpath(place.path)
    directory, _, status = _walk(place, policy)
    try:
        _refuse_special(status, place.path)
    finally:
        os.close(directory)
    real = os.path.realpath(os.path.join(place.root, *place.parts))  # noqa: PTH118 - bytes-exact
    if not _same_file(os.stat(real), status):  # noqa: PTH116 - as above
        raise OSError(errno.EAGAIN, "changed while it was looked at", place.path)
    return real


def _inside(
    parts: tuple[str, ...], policy: Policy, usual: str = "."
) -> tuple[str, tuple[str, ...]] | None:
    """The root that this absolute path is in, and the way from there."""
    for resolve in (False, True):
        for root in policy.directories or (Path(os.path.abspath(usual)),):  # noqa: PTH100 - text
            way = (Path(os.path.realpath(root)) if resolve else root).parts[1:]
            if parts[: len(way)] == way:
                return str(root), parts[len(way) :]
    return None


def _walk(
    place: Place, policy: Policy, *, follow_last: bool = True
) -> tuple[int, str, os.stat_result]:
    """An open directory, the name in it that the path leads to, and its status.

    It is not a link, unless the last one is not to be followed. The caller closes the directory.
    """
    assert place.root is not None
    stack = [os.open(place.root, _ROOT)]
    todo, links = deque(place.parts), 0
    try:
        while todo:
            name = todo.popleft()
            if name == "..":
                if len(stack) == 1:
                    raise _leads_out(place.path, policy)
                os.close(stack.pop())
                continue
            if not todo:
                status = os.stat(name, dir_fd=stack[-1], follow_symlinks=False)
                if not (follow_last and stat.S_ISLNK(status.st_mode)):
                    return stack.pop(), name, status
            else:
                try:
                    stack.append(os.open(name, _DIRECTORY, dir_fd=stack[-1]))
                    continue
                except OSError as error:
                    if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                        raise
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place.path)
            _follow(name, stack, todo, place, policy)
        directory = stack.pop()
        return directory, ".", os.fstat(directory)
    finally:
        for descriptor in stack:
            os.close(descriptor)


def _follow(name: str, stack: list[int], todo: deque[str], place: Place, policy: Policy) -> None:
    """Put the target of a link before the rest of the way."""
    try:
        target = os.readlink(name, dir_fd=stack[-1])
    except OSError as error:
        if error.errno == errno.EINVAL:  # no link, so it was no directory either
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", place.path) from None
        raise
    parts = tuple(part for part in target.split("/") if part and part != ".")
    if target.startswith("/"):
        inside = _inside(parts, policy, place.root or ".")
        if inside is None:
            raise _leads_out(place.path, policy)
        root, parts = inside
        fresh = os.open(root, _ROOT)
        while stack:
            os.close(stack.pop())
        stack.append(fresh)
    todo.extendleft(reversed(parts))


def _leads_out(path: str, policy: Policy) -> EvidencePolicyError:
    if policy.directories:
        words = "a link in it leads out of the roots; Policy(roots=[...]) allows where it leads"
        return EvidencePolicyError(path, words)
    words = "a link in it leads out of the working directory; give the path it leads to, or roots"
    return EvidencePolicyError(path, words)


def _refuse_special(status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(errno.EINVAL, "not a regular file", path)


def _same_file(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
