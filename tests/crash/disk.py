"""A disk that loses power: what may be left of the files a traced process wrote.

The model is what POSIX promises and no more. A write or truncation is sure once the file was
synced, a name once its directory was. What is not sure may be kept, dropped or torn, in any
combination. After a sync that failed, what it was to save stays unsure for good: the kernel may
have dropped it, and a later sync says nothing about it. Renaming is atomic.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

CALLS = (
    "openat,close,write,pwrite64,ftruncate,fallocate,fsync,fdatasync,rename,renameat,renameat2,"
    "link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir"
)
SECTOR = 512
Sureness = Literal["pending", "sure", "doomed"]


class Event(NamedTuple):
    """One system call that returned."""

    call: str
    args: list[str]
    result: int

    def text(self, place: int) -> bytes:
        """An argument that is a string; the log is written with every byte in hex."""
        return bytes.fromhex(self.args[place].strip('"').replace("\\x", ""))


_LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)")


def events(log: Path) -> Iterator[Event]:
    """The calls in a log of `strace -xx`, by one thread."""
    for line in log.read_text().splitlines():
        match = _LINE.match(line)
        if match:
            yield Event(match[1], match[2].split(", "), int(match[3]))
        elif "unfinished" in line:
            raise ValueError(f"the traced process must have a single thread: {line[:200]}")


@dataclass(eq=False)
class Change:
    """Something that happened to a file's bytes."""

    offset: int
    data: bytes | None  # None is a truncation to `offset`
    sureness: Sureness = "pending"


@dataclass(eq=False)
class Node:
    """A file or directory."""

    names: dict[str, Node] | None = None  # a directory's, as the running system sees them
    content: bytes = b""  # a file's, as far as it is sure
    changes: list[Change] = field(default_factory=list)

    def size(self) -> int:
        """As the running system sees it."""
        size = len(self.content)
        for change in self.changes:
            if change.data is None:
                size = change.offset
            else:
                size = max(size, change.offset + len(change.data))
        return size


@dataclass(eq=False)
class Naming:
    """Names given or taken at once: (directory, name, what now stands there)."""

    moves: list[tuple[Node, str, Node | None]]
    sureness: Sureness = "pending"


@dataclass
class Choice:
    """What becomes of everything unsure."""

    rng: random.Random
    keep: float  # how likely each change survives
    in_order: bool = False  # names survive up to a point, as on a journaling file system

    def survivors(self, namings: list[Naming]) -> list[Naming]:
        """The namings that reach the disk."""
        cut = self.rng.randint(0, len(namings)) if self.in_order and self.keep else 0
        if self.in_order:
            return [n for at, n in enumerate(namings) if n.sureness == "sure" or at < cut]
        return [n for n in namings if n.sureness == "sure" or self.rng.random() < self.keep]

    def content(self, node: Node) -> bytes:
        """The bytes of a file that reach the disk."""
        image = bytearray(node.content)
        for change in node.changes:
            if change.sureness == "sure" or self.rng.random() < self.keep:
                torn = change.sureness != "sure" and self.keep < 1 and self.rng.random() < 0.3
                self._apply(image, change, torn)
        return bytes(image)

    def _apply(self, image: bytearray, change: Change, torn: bool) -> None:
        if change.data is None:
            del image[change.offset :]
            image.extend(bytes(change.offset - len(image)))
            return
        end = change.offset + len(change.data)
        image.extend(bytes(max(0, end - len(image))))
        if not torn:
            image[change.offset : end] = change.data
            return
        for start in range(change.offset, end, SECTOR):
            if self.rng.random() < 0.5:
                stop = min(start + SECTOR, end)
                image[start:stop] = change.data[start - change.offset : stop - change.offset]


class Disk:
    """Follows a trace. Only what lies below `root` is followed."""

    def __init__(self, root: Path, cwd: Path) -> None:
        self._root = os.fsencode(root)
        self._cwd = os.fsencode(cwd)
        self.top = _load(root)
        self.first = _copy(self.top)  # names as they stood for sure before the trace
        self.namings: list[Naming] = []
        self.lines: list[bytes] = []  # written to files whose name is "oracle"
        self._fds: dict[int, tuple[Node | None, bytes]] = {}
        self._positions: dict[int, int] = {}

    def image(self, choice: Choice, target: Path) -> None:
        """Write what a power loss now could leave into a new directory."""
        names = _Names(self.first)
        for naming in choice.survivors(self.namings):
            for directory, name, node in naming.moves:
                names.set(directory, name, node)
        _write(self.top, names, choice, target)

    def follow(self, event: Event) -> None:
        """Take one call into account."""
        if event.result < 0:
            if event.call in ("fsync", "fdatasync"):
                self._sync(int(event.args[0]), "doomed")
            return
        handler = getattr(self, "_" + event.call, None)
        if handler is not None:
            handler(event)

    # --- calls

    def _openat(self, event: Event) -> None:
        path = self._path(event.args[0], event.text(1))
        self._opened(event.result, path, event.args[2])

    def _opened(self, fd: int, path: bytes, flags: str) -> None:
        self._positions[fd] = 0
        if not self._inside(path):
            self._fds[fd] = None, path
            return
        node = self._find(path)
        if node is None:
            node = Node()
            self._name([(path, node)])
        elif "O_TRUNC" in flags:
            node.changes.append(Change(0, None))
        self._fds[fd] = node, path

    def _close(self, event: Event) -> None:
        self._fds.pop(int(event.args[0]), None)

    def _write(self, event: Event) -> None:
        fd = int(event.args[0])
        node, path = self._fds.get(fd, (None, b""))
        if path.endswith(b"/oracle"):
            self.lines.append(event.text(1))
        elif node is not None:
            data = event.text(1)[: event.result]
            node.changes.append(Change(self._positions[fd], data))
            self._positions[fd] += len(data)

    def _pwrite64(self, event: Event) -> None:
        node, _ = self._fds.get(int(event.args[0]), (None, b""))
        if node is not None:
            data = event.text(1)[: event.result]
            node.changes.append(Change(int(event.args[3]), data))

    def _ftruncate(self, event: Event) -> None:
        node, _ = self._fds.get(int(event.args[0]), (None, b""))
        if node is not None:
            node.changes.append(Change(int(event.args[1]), None))

    def _fallocate(self, event: Event) -> None:
        raise NotImplementedError("nothing here reserves space")

    def _fsync(self, event: Event) -> None:
        self._sync(int(event.args[0]), "sure")

    _fdatasync = _fsync

    def _mkdir(self, event: Event) -> None:
        self._make_directory(self._path("AT_FDCWD", event.text(0)))

    def _mkdirat(self, event: Event) -> None:
        self._make_directory(self._path(event.args[0], event.text(1)))

    def _unlink(self, event: Event) -> None:
        self._name([(self._path("AT_FDCWD", event.text(0)), None)])

    _rmdir = _unlink

    def _unlinkat(self, event: Event) -> None:
        self._name([(self._path(event.args[0], event.text(1)), None)])

    def _rename(self, event: Event) -> None:
        self._move(
            self._path("AT_FDCWD", event.text(0)), self._path("AT_FDCWD", event.text(1)), keep=False
        )

    def _renameat(self, event: Event) -> None:
        self._move(*self._two_paths(event), keep=False)

    _renameat2 = _renameat

    def _link(self, event: Event) -> None:
        self._move(
            self._path("AT_FDCWD", event.text(0)), self._path("AT_FDCWD", event.text(1)), keep=True
        )

    def _linkat(self, event: Event) -> None:
        self._move(*self._two_paths(event), keep=True)

    # --- details

    def _two_paths(self, event: Event) -> tuple[bytes, bytes]:
        return (
            self._path(event.args[0], event.text(1)),
            self._path(event.args[2], event.text(3)),
        )

    def _sync(self, fd: int, sureness: Sureness) -> None:
        node, _ = self._fds.get(fd, (None, b""))
        if node is None:
            return
        if node.names is not None:
            for naming in self.namings:
                if naming.sureness == "pending" and any(m[0] is node for m in naming.moves):
                    naming.sureness = sureness
            return
        for change in node.changes:
            if change.sureness == "pending":
                change.sureness = sureness
        if all(change.sureness == "sure" for change in node.changes):
            node.content = Choice(random.Random(0), keep=1).content(node)
            node.changes.clear()

    def _make_directory(self, path: bytes) -> None:
        if self._inside(path):
            self._name([(path, Node(names={}))])

    def _move(self, source: bytes, target: bytes, *, keep: bool) -> None:
        if not self._inside(target):
            return
        node = self._find(source)
        assert node is not None, source
        self._name([(target, node)] if keep else [(source, None), (target, node)])

    def _name(self, changes: list[tuple[bytes, Node | None]]) -> None:
        moves = []
        for path, node in changes:
            if not self._inside(path):
                return
            directory, _, name = path.rpartition(b"/")
            parent = self._find(directory)
            assert parent is not None
            assert parent.names is not None
            text = os.fsdecode(name)
            if node is None:
                parent.names.pop(text, None)
            else:
                parent.names[text] = node
            moves.append((parent, text, node))
        self.namings.append(Naming(moves))

    def _inside(self, path: bytes) -> bool:
        return path == self._root or path.startswith(self._root + b"/")

    def _path(self, base: str, name: bytes) -> bytes:
        if name.startswith(b"/"):
            return os.path.normpath(name)
        start = self._cwd if base == "AT_FDCWD" else self._fds[int(base)][1]
        return os.path.normpath(start + b"/" + name)

    def _find(self, path: bytes) -> Node | None:
        node: Node | None = self.top
        for name in path[len(self._root) :].split(b"/"):
            if name:
                if node is None or node.names is None:
                    return None
                node = node.names.get(os.fsdecode(name))
        return node


class _Names:
    """What stands in each directory after the power came back."""

    def __init__(self, first: dict[Node, dict[str, Node]]) -> None:
        self._first = first
        self._changed: dict[Node, dict[str, Node]] = {}

    def set(self, directory: Node, name: str, node: Node | None) -> None:
        names = self._changed.setdefault(directory, dict(self._first.get(directory, {})))
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node

    def of(self, directory: Node) -> dict[str, Node]:
        return self._changed.get(directory, self._first.get(directory, {}))


def _load(path: Path) -> Node:
    if not path.is_dir():
        return Node(content=path.read_bytes())
    return Node(names={child.name: _load(child) for child in path.iterdir()})


def _copy(node: Node) -> dict[Node, dict[str, Node]]:
    if node.names is None:
        return {}
    found = {node: dict(node.names)}
    for child in node.names.values():
        found |= _copy(child)
    return found


def _write(node: Node, names: _Names, choice: Choice, target: Path) -> None:
    if node.names is None:
        target.write_bytes(choice.content(node))
        return
    target.mkdir()
    for name, child in names.of(node).items():
        _write(child, names, choice, target / name)


def follow_all(disk: Disk, calls: Iterable[Event]) -> Disk:
    """The disk at the end of a trace."""
    for event in calls:
        disk.follow(event)
    return disk
