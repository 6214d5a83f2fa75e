"""Anchoring: one root over all heads, kept outside of the store. Everything here blocks.

What is in a store can be replaced by whoever can write to it, all digests included. What was
anchored elsewhere before can't: `anchor_checks` compares.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from holdfast.errors import AnchorError
from holdfast.kernel.backlog import flush
from holdfast.kernel.core import Core
from holdfast.kernel.journal import Journals
from holdfast.kernel.owner_view import owner_of
from holdfast.kernel.reader import all_heads
from holdfast.kernel.store_id import known_store_id, store_id
from holdfast.kernel.writer import writer_for
from holdfast.operations.anchor_files import FIRST_LINE, Anchor, write_section
from holdfast.operations.private_files import open_to_append
from holdfast.operations.saving import save
from holdfast.store import Store
from holdfast.urls import store_of

if TYPE_CHECKING:
    from holdfast.keys.signing import SigningKey

Publish = Callable[[Anchor, IO[bytes]], object]
"""Keeps an anchor somewhere. It is given the anchor, and its lines as a binary file to read."""


def anchor(
    core: Core,
    to: str | os.PathLike[str] | Store | Publish,
    *,
    sign: SigningKey | None = None,
) -> Anchor:
    """Make one root over the heads of all runs, and keep it with their list outside of the store.

    `to` is a file, which gets one more section; another store, by URL or as an object, which
    gets one more checkpoint of its run `anchors/STORE_ID`; or a function that is called with the
    anchor, and its lines as a binary file. It is durable when this returns, if `to` is.

    It is signed with `sign`, or with the checkpointer's own signing key if it has one. Deleted
    runs, and the journals of verdicts, threads, aliases and keys are in it, too. Others may save
    meanwhile. Raises `AnchorError` for a file that is none of anchors.
    """
    refuse_bound(core)
    with tempfile.TemporaryFile(buffering=1 << 20) as lines:
        now = core.journals.clock.now()
        name = store_id(core)
        made = write_section(lines, all_heads(core.journals.store), name, now)
        sealer = core.journals.sealer
        signer = sign or (None if sealer is None else sealer.signer)
        if signer is not None:
            made = made.signed(signer)
        lines.write(made.line())
        lines.seek(0)
        if isinstance(to, Store) or (isinstance(to, str) and "://" in to):
            with opened_beside(core, to) as other:
                _to_store(other, made, lines)
        elif isinstance(to, str | os.PathLike):
            _to_file(Path(to), lines)
        else:
            to(made, lines)
    return made


def refuse_bound(core: Core) -> None:
    """Raise `AnchorError` for a checkpointer that shows the runs of one owner only."""
    if owner_of(core.journals.store) is not None:
        where = core.journals.store.url
        raise AnchorError(
            where, "anchors are of all owners; use a checkpointer that is bound to none"
        )


def _to_file(path: Path, lines: IO[bytes]) -> None:
    """Append a section to a file, whole or not at all."""
    with open_to_append(path) as file, _locked(file):
        size = os.fstat(file.fileno()).st_size
        if size and not _is_of_anchors(path):
            raise AnchorError(str(path), "it is not a file of anchors; name another one")
        try:
            if size and not _ends_line(path, size):
                file.write(b"\n")  # behind one that was interrupted
            shutil.copyfileobj(lines, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.ftruncate(file.fileno(), size)
            raise
    if not size:
        directory = os.open(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _is_of_anchors(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(FIRST_LINE)) == FIRST_LINE


def _ends_line(path: Path, size: int) -> bool:
    with path.open("rb") as file:
        file.seek(size - 1)
        return file.read(1) == b"\n"


@contextmanager
def _locked(file: IO[bytes]) -> Iterator[None]:
    """Only one process appends at a time."""
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def opened_beside(core: Core, where: str | Store) -> Iterator[Core]:
    """Another store, to be used beside that of a core."""
    own = core.journals
    store = store_of(where)
    writer = writer_for(store)
    try:
        yield Core(Journals(store, writer, own.clock, own.entropy), core.settings)
    finally:
        if store is not where:
            writer.close()
            store.close()


def _to_store(other: Core, made: Anchor, lines: IO[bytes]) -> None:
    """Save a section as a checkpoint of another store."""
    if known_store_id(other.journals) == made.store_id:
        where = other.journals.store.url
        raise AnchorError(where, "it is the store itself; keep anchors in another one")
    state = {"root": made.root, "lines": lines.read().decode()}
    other.drive(save(other, anchors_run(made.store_id), state, step=made.root))
    other.drive(flush(other))


def anchors_run(store_id: str) -> str:
    """The run of another store that keeps the anchors of this one."""
    return f"anchors/{store_id}"
