"""One run's directory, by its handle: its entries and its trims.

RUN/0000000003.json      an entry
RUN/.intent/             a trim or erase in progress, or interrupted
RUN/.thinned             the seq of the last marker that was applied; readers compare it
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Entry, lost
from holdfast.seams import fault
from holdfast.stores._shared.disk import sync
from holdfast.stores.files import format as form
from holdfast.stores.files.root import opened, remove_tree, write_durably

_HEAD_BYTES: Final = 4096  # what is read of a file at a time, when its body is not wanted
_INTENT: Final = ".intent"
_THINNED: Final = ".thinned"
_ERASE: Final = "erase"
_MARKER: Final = "marker-"

Stamp = tuple[int, int, int]


def seqs(run: int) -> list[int]:
    """The seqs of all entries, ascending. Other files are ignored.

    A listing may miss files that are linked meanwhile, and so have an entry without the one
    before it. A second listing has all entries before the newest of the first.
    """
    found = _listed(run)
    if found and len(found) != found[-1] + 1:
        newest = found[-1]
        found = [seq for seq in _listed(run) if seq <= newest]
    return found


def load(run: int, name: str, seq: int, bodies: bool) -> tuple[Entry, int]:
    """An entry and the size of its body, which is read only if `bodies`.

    Raises `CheckpointCorruptedError`, and `FileNotFoundError` if it is not there.
    """
    try:
        content = _read(run, form.file_name(seq), whole=bodies)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR):
            raise
        raise CheckpointCorruptedError(name, seq, "what is there is not a file") from None
    if not bodies:
        return form.decode_head(content, name, seq)
    entry = form.decode(content, name, seq)
    return entry, len(entry.body)


def outline(run: int, name: str, seq: int) -> Entry:
    """An entry without its body; of a damaged one, its place."""
    try:
        return load(run, name, seq, bodies=False)[0]
    except CheckpointCorruptedError as error:
        return lost(name, seq, error.digest)


def run_in(name: str, root: int) -> str | None:
    """The run of a directory whose name is cut, as one of its entries tells.

    None for an empty or foreign directory. Raises `CheckpointCorruptedError` if none can be read.
    """
    problem: CheckpointCorruptedError | None = None
    with suppress(FileNotFoundError), opened(name, root) as run:
        for seq in seqs(run):
            try:
                content = _read(run, form.file_name(seq), whole=False)
                entry, _ = form.decode_head(content, None, seq)
            except CheckpointCorruptedError as error:
                problem = error
                continue
            return entry.run if form.directory_name(entry.run) == name else None
    if problem is not None:
        raise problem
    return None


def stamp(seq: int, run: int) -> Stamp | None:
    """What tells the file of the entry at the seq from any other; None if there is none."""
    try:
        found = os.stat(form.file_name(seq), dir_fd=run, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def link(source: str, source_directory: int, name: str, run: int) -> None:
    """Give a finished file its name; `FileExistsError` if that is taken."""
    os.link(source, name, src_dir_fd=source_directory, dst_dir_fd=run, follow_symlinks=False)


def last_thinned(run: int) -> bytes:
    """Which trim was the last one applied. This changes before anything else does."""
    return _content(run, _THINNED)


def has_intent(run: int) -> bool:
    """Whether a trim is in progress or was interrupted."""
    try:
        os.stat(_INTENT, dir_fd=run, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def place_intent(marker: Entry, changes: Mapping[int, Entry] | None, temp: int, run: int) -> None:
    """Prepare a trim to these entries, or an erasure if None. Applying it then needs no space.

    It takes effect with `commit`. Until then, `finish` discards it.
    """
    files = {
        _MARKER + form.file_name(marker.seq): form.encode(marker),
        _THINNED: b"%d\n" % marker.seq,
    }
    if changes is None:
        files[_ERASE] = b""
    else:
        files |= {form.file_name(seq): form.encode(entry) for seq, entry in changes.items()}
    name = os.urandom(8).hex()
    os.mkdir(name, 0o700, dir_fd=temp)
    try:
        with opened(name, temp) as intent:
            for file, content in files.items():
                write_durably(file, content, intent)
            sync(intent)
        os.rename(name, _INTENT, src_dir_fd=temp, dst_dir_fd=run)
        sync(run)
    except OSError:
        remove_tree(name, temp, missing_ok=True)
        raise


def commit(marker: Entry, run: int) -> None:
    """Link the marker of the intent that was placed; `FileExistsError` if its name is taken."""
    name = form.file_name(marker.seq)
    with opened(_INTENT, run) as intent:
        link(_MARKER + name, intent, name, run)


def finish(run: int) -> None:
    """Apply an intent whose marker is in place; discard any other. Needs the store's lock.

    This may be interrupted again: it is idempotent, and the intent is removed only when its
    effect is durable.
    """
    if not has_intent(run):
        return
    with opened(_INTENT, run) as intent:
        names = sorted(os.listdir(intent))  # noqa: PTH208 - by handle
        marker = next((name for name in names if name.startswith(_MARKER)), "")
        name = marker.removeprefix(_MARKER)
        committed = bool(marker) and _content(intent, marker) == _content(run, name)
        if committed:
            sync(run)  # the marker must not be lost if the change it announces is kept
            fault("file.thin.committed")
            _apply(names, name, intent, run)
            sync(run)
    remove_tree(_INTENT, run)
    if not committed:
        sync(run)  # before anyone else may put an entry where the marker would have been
    fault("file.thin.done")


def _listed(run: int) -> list[int]:
    found = map(form.seq_of, os.listdir(run))
    return sorted(seq for seq in found if seq is not None)


def _apply(names: list[str], marker: str, intent: int, run: int) -> None:
    if _THINNED in names:
        os.rename(_THINNED, _THINNED, src_dir_fd=intent, dst_dir_fd=run)
    for name in names:
        if form.seq_of(name) is not None:
            fault("file.thin.applying")
            os.rename(name, name, src_dir_fd=intent, dst_dir_fd=run)
    if _ERASE in names:
        for seq in seqs(run):
            if seq < (form.seq_of(marker) or 0):
                fault("file.thin.applying")
                os.unlink(form.file_name(seq), dir_fd=run)
    fault("file.thin.applied")


def _content(directory: int, name: str) -> bytes:
    try:
        return _read(directory, name, whole=True)
    except FileNotFoundError:
        return b""


def _read(directory: int, name: str, *, whole: bool) -> bytes:
    # Without O_NONBLOCK, a FIFO put here would block the reader forever.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(name, flags, dir_fd=directory)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.ENXIO, "not a regular file", name)
        content = b""
        while chunk := os.read(fd, status.st_size + 1 if whole else _HEAD_BYTES):
            content += chunk
            if not whole and form.BODY in content:
                break
        return content
    finally:
        os.close(fd)
