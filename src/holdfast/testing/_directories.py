"""A directory that a crash test puts back before each run of the flow, and looks at after it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

_SHOWN: Final = 2000  # bytes of a file that are compared as text
_MOST: Final = 64 << 20  # bytes that are copied before each run


class WatchedDirectory:
    """Remembers what is in a directory now, in a copy."""

    def __init__(self, path: Path, copy: Path, ignore: Iterable[str]) -> None:
        self._path = path.resolve(strict=True)
        self._copy = copy
        self._ignore = tuple(ignore)
        if self._path in (Path.home(), Path(self._path.anchor)) or (self._path / ".git").exists():
            raise ValueError(
                f"{path} is put back before each run: give a directory of the test's own"
            )
        size = sum(file.lstat().st_size for file in self._path.rglob("*"))
        if size > _MOST:
            raise ValueError(f"{path} has {size >> 20:,} MB, too much to be copied before each run")
        shutil.copytree(self._path, copy, symlinks=True)

    def put_back(self) -> None:
        """Make it as it was."""
        for child in self._path.iterdir():
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()
        shutil.copytree(self._copy, self._path, symlinks=True, dirs_exist_ok=True)

    def put_back_at_the_end(self) -> None:
        """Make it as it was. If that fails, the error says where the copy is: keep it."""
        try:
            self.put_back()
        except OSError as error:
            error.add_note(f"what was in {self._path} is in {self._copy}")
            raise

    def look(self) -> dict[str, str]:
        """What is in it, by path: the text of small files, the digest of others."""
        found = {}
        for path in sorted(self._path.rglob("*")):
            name = path.relative_to(self._path).as_posix()
            if not any(fnmatch(name, pattern) for pattern in self._ignore):
                found[name] = _describe(path)
        return found


def _describe(path: Path) -> str:
    if path.is_symlink():
        return f"a link to {path.readlink()}"
    if path.is_dir():
        return "a directory"
    if not path.is_file():
        return "a special file"
    content = path.read_bytes()
    if len(content) <= _SHOWN:
        try:
            return content.decode()
        except UnicodeDecodeError:
            pass
    return f"{len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()[:16]}"
