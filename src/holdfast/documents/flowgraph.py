"""Checkpoints of graphs by node: the checkpoint store of flowgraph and its ADR-015, as a thin view.

What a graph's run recorded is seen here, a checkpoint for every visit to a node; what is saved here
by hand is an ordinary checkpoint of the run. Where this differs from the documents on purpose,
docs/documents/deviations.md says so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast import checkpoint as plain
from holdfast.codec.meta import plain_step
from holdfast.documents.views import CheckpointerView, check_scheme, outages_as, unless_needed
from holdfast.engine.blocking import blocking
from holdfast.engine.door import StoreLike
from holdfast.errors import CheckpointNotFoundError, CheckpointSaveError
from holdfast.graph.graph_checkpoint import GraphCheckpoint
from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_runs
from holdfast.model import CARRY_STATE, Entry, Status, check_id
from holdfast.operations import deleting, reading, saving

__all__ = [
    "Checkpoint",
    "CheckpointInfo",
    "CheckpointStore",
    "FileStore",
    "MemoryStore",
    "PostgresStore",
    "SQLiteStore",
]


class CheckpointInfo(GraphCheckpoint):
    """A checkpoint without its state: `run_id`, `node_id`, `sequence`, `timestamp`, `size`."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """Bytes that the whole state takes, encoded with its types and uncompressed.

        For data given as bytes, that is a few more than its length.
        """
        return self.get_state_size()

    def to_dict(self) -> dict[str, Any]:
        """holdfast's JSON form, and the names of the documents beside it; `from_dict` reads it."""
        return super().to_dict() | {
            "node_id": self.node_id,
            "sequence": self.sequence,
            "timestamp": self.timestamp.isoformat(),
            "version": self.version,
            "next_node": self.next_node,
        }


class Checkpoint(plain.Checkpoint, CheckpointInfo):
    """A checkpoint with its `state`, its `version` and its `next_node`."""

    __slots__ = ()


_Infos = list[CheckpointInfo]  # inside the class, `list` is the method
_Names = list[str]


class CheckpointStore(CheckpointerView):
    """Any store or checkpointer, sync or async, as the documents' store. Opened on first use.

    Give it to a graph as its `store=`. Every method has a blocking twin, such as `save_sync`, and
    raises `InvalidIdError`, a `ValueError`, for ids that no store could keep. An outage is
    `CheckpointSaveError` or `CheckpointLoadError`, both `OSError`.
    """

    def __init__(self, store: StoreLike = None) -> None:
        super().__init__(store)

    async def save(self, run_id: str, node_id: str, data: object) -> None:
        """Save bytes, or any other state, as the node's newest checkpoint; durable on return."""
        check_id("run_id", run_id)
        check_id("node_id", node_id)
        with outages_as(CheckpointSaveError, run_id):
            core = self._opened.checkpointer.core
            await core.drive_async(saving.save(core, run_id, data, step=node_id))

    async def load(self, run_id: str, node_id: str, *, as_type: Any = None) -> Any:
        """What was saved after the node, the last time; as this type, if one is given.

        A node inside parallel branches is found by its name, and has the state of its branch.
        Raises `CheckpointNotFoundError`.
        """
        return (await self.load_checkpoint(run_id, node_id, as_type=as_type)).state

    async def load_checkpoint(
        self, run_id: str, node_id: str, *, as_type: Any = None
    ) -> Checkpoint:
        """Like `load`, with what is known about the checkpoint beside its state."""
        return await self._read(_load, run_id, node_id, as_type)

    async def list(self, run_id: str) -> _Infos:
        """All checkpoints that led to where the run is, oldest first, without their states."""
        return await self._read(_list, run_id)

    async def list_runs(self) -> _Names:
        """The ids of all runs, in order."""
        return await self._read(_list_runs, "")

    async def delete(self, run_id: str, node_id: str, *, force: bool = False) -> None:
        """Delete every checkpoint of a node, at once; `load` no longer finds it.

        Raises `CheckpointNotFoundError`, and `RunActiveError` while a run is running, is paused or
        needs the checkpoint to be resumed, unless forced.
        """
        check_id("run_id", run_id)
        check_id("node_id", node_id)
        with outages_as(CheckpointSaveError, run_id):
            await self._off_loop(_delete, run_id, node_id, force)

    async def delete_run(self, run_id: str, *, force: bool = False) -> None:
        """Delete a run with all its checkpoints, at once; nothing happens if there is none.

        Raises `RunActiveError` while a living process executes it, or it is paused, unless forced.
        """
        with outages_as(CheckpointSaveError, run_id):
            await self._off_loop(_delete_run, run_id, force)

    save_sync = blocking(save)
    load_sync = blocking(load)
    load_checkpoint_sync = blocking(load_checkpoint)
    list_sync = blocking(list)  # noqa: A003 - the method above is meant
    list_runs_sync = blocking(list_runs)
    delete_sync = blocking(delete)
    delete_run_sync = blocking(delete_run)


class MemoryStore(CheckpointStore):
    """Checkpoints that end with the process, for tests."""

    def __init__(self) -> None:
        super().__init__("memory://")


class SQLiteStore(CheckpointStore):
    """Checkpoints in an SQLite file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(f"sqlite:///{quote(os.fspath(path))}")


class PostgresStore(CheckpointStore):
    """Checkpoints in PostgreSQL, given by its URL."""

    def __init__(self, url: str) -> None:
        check_scheme(url, "postgresql", "postgres")
        super().__init__(url)


class FileStore(CheckpointStore):
    """Checkpoints as JSON files that people can read, below a directory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(Path(path).absolute().as_uri())


def _load(core: Core, run: str, node: str, as_type: Any) -> Checkpoint:
    check_id("run_id", run)
    check_id("node_id", node)

    def find() -> int | None:
        after = (e.seq for e in core.journals.branch(run) if _is_after_node(e) and _is_of(e, node))
        return next(after, None)

    seq = core.journals.undisturbed(run, find)
    found = None if seq is None else reading.load(core, run, seq=seq, as_type=as_type)
    if found is None:
        raise CheckpointNotFoundError(run, f"after node {node!r}")
    state = found.state
    return Checkpoint(found.entry, b"", lambda _: state)


def _list(core: Core, run: str) -> list[CheckpointInfo]:
    trail = core.journals.trail(check_id("run_id", run), bodies=False)
    return [CheckpointInfo(entry) for entry in trail if _is_after_node(entry)]


def _list_runs(core: Core, _: str) -> list[str]:
    return [head.run for head in all_runs(core.journals.store)]


def _delete(core: Core, run: str, node: str, force: bool) -> None:
    def of_node(live: list[Entry], branch: list[int]) -> list[int]:
        return [entry.seq for entry in live if _is_of(entry, node)]

    if not deleting.drop(core, run, of_node, force):
        raise CheckpointNotFoundError(run, f"after node {node!r}")


def _delete_run(core: Core, run: str, force: bool) -> None:
    deleting.clear_family(core, check_id("run_id", run), unless_needed(core, force))


def _is_after_node(entry: Entry) -> bool:
    """Whether this is the checkpoint of a node, and not what a node that failed was given."""
    return entry.kind in CARRY_STATE and entry.step is not None and entry.status != Status.FAILED


def _is_of(entry: Entry, node: str) -> bool:
    return plain_step(entry) == node
