"""Checkpoints of pipelines by thread: the checkpointers of the IA Modules design, as thin views.

What a pipeline recorded is seen here; what is saved here by hand goes into a run of the thread
that nobody executes. Where this differs from the design on purpose, docs/documents/deviations.md
says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Final

from holdfast.checkpoint import Checkpoint, CheckpointInfo, to_micros
from holdfast.checkpointer import Checkpointer
from holdfast.codec import readable
from holdfast.documents.views import CheckpointerView, check_scheme, outages_as, unless_needed
from holdfast.engine.door import OpenedCheckpointer, StoreLike
from holdfast.engine.walking.program import MERGE
from holdfast.errors import CheckpointSaveError, InvalidIdError
from holdfast.kernel.appending import append, thread_member
from holdfast.kernel.core import Core, Op
from holdfast.kernel.reader import all_runs
from holdfast.kernel.threads import members
from holdfast.model import (
    CARRY_STATE,
    MAX_ID_BYTES,
    Entry,
    Kind,
    check_id,
    split_checkpoint_id,
    thread_journal,
)
from holdfast.operations import deleting, listing, reading, saving
from holdfast.pipeline.going_to import whole_state
from holdfast.urls import open_store

__all__ = [
    "BaseCheckpointer",
    "MemoryCheckpointer",
    "PipelineCheckpoint",
    "PipelineCheckpointInfo",
    "PostgresCheckpointer",
    "RedisCheckpointer",
    "SQLCheckpointer",
]


_KEYS: Final = (
    "pipeline_id", "pipeline_version", "step_id", "step_name", "parent_checkpoint_id",
)  # fmt: skip


class _Words(CheckpointInfo):
    """A checkpoint in the words of pipelines."""

    __slots__ = ()

    @property
    def pipeline_id(self) -> str | None:
        """The pipeline."""
        return self.flow

    @property
    def pipeline_version(self) -> str | None:
        """The version of the pipeline."""
        return self.flow_version

    @property
    def step_id(self) -> str | None:
        """The step that had just run; `step` says which of its visits, in a parallel branch.

        Where parallel branches met, it is the last step of one of them.
        """
        if self._entry.kind == Kind.RESULT:
            return self.step_name
        if self.step is not None and self.step.endswith(MERGE) and self.meta.before:
            return str(self.meta.before[-1])
        return self.step

    @property
    def step_name(self) -> str | None:
        """That step's name for people; the step's id unless another was given."""
        return super().step_name if self.meta.step_name is not None else self.step_id

    @property
    def timestamp(self) -> datetime:
        """When it was saved."""
        return self.created_at

    @property
    def parent_checkpoint_id(self) -> str | None:
        """The checkpoint it builds on."""
        return self.parent_id

    def to_dict(self) -> dict[str, Any]:
        """holdfast's JSON form, and the names of the design beside it; `from_dict` reads it."""
        own = {name: getattr(self, name) for name in _KEYS}
        return super().to_dict() | own | {
            "timestamp": self.timestamp.isoformat(),
            "metadata": readable.to_json(self.metadata),
        }  # fmt: skip


class PipelineCheckpointInfo(_Words):
    """A checkpoint of a pipeline, without its state."""

    __slots__ = ()


class PipelineCheckpoint(Checkpoint, _Words):
    """A checkpoint of a pipeline: its state is `{"pipeline_input": ..., "steps": {id: output}}`."""

    __slots__ = ()


class BaseCheckpointer(CheckpointerView):
    """Any store, or checkpointer, as the design's checkpointer. Saves are durable on return.

    Every method raises `InvalidIdError`, a `ValueError`, for ids that no store could keep, and
    `CheckpointSaveError` or `CheckpointLoadError`, both `OSError`, in an outage.
    """

    def __init__(self, store: StoreLike = None) -> None:
        super().__init__(store)

    async def initialize(self) -> None:
        """Open the store, and create its schema if it has none."""
        await self._off_loop(listing.runs, limit=1)

    async def save_checkpoint(
        self,
        thread_id: str,
        pipeline_id: str,
        step_id: str,
        step_index: int,
        state: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        step_name: str | None = None,
    ) -> str:
        """Save a state by hand, as the thread's newest checkpoint; returns the checkpoint's id."""
        core = self._opened.checkpointer.core
        with outages_as(CheckpointSaveError, thread_id):
            saved = await core.drive_async(
                _save(
                    core, thread_id, pipeline_id,
                    state=state, step=step_id, step_index=step_index,
                    step_name=step_name, metadata=metadata,
                )
            )  # fmt: skip
        return saved.checkpoint_id

    async def load_checkpoint(
        self, thread_id: str, checkpoint_id: str | None = None
    ) -> PipelineCheckpoint | None:
        """The thread's newest checkpoint, or the one of this id; None if there is none."""
        return await self._read(_load, thread_id, checkpoint_id)

    async def list_checkpoints(
        self, thread_id: str, limit: int | None = None, offset: int = 0
    ) -> list[PipelineCheckpointInfo]:
        """The checkpoints of all runs of the thread, newest first, without their states.

        All of them, or at most `limit`; the first `offset` are left out.
        """
        reading.check_limit(limit)
        reading.check_count("offset", offset)
        return await self._read(_list, thread_id, limit, offset)

    async def delete_checkpoints(
        self,
        thread_id: str,
        before: datetime | None = None,
        keep_latest: int = 0,
        *,
        force: bool = False,
    ) -> int:
        """Delete the checkpoints older than `before`, but not the newest `keep_latest`.

        With neither, the thread and everything in it. Returns how many went. Raises
        `RunActiveError` on a run that a living process executes or that waits for someone, unless
        forced; on any unfinished run if only a part is to go.
        """
        reading.check_count("keep_latest", keep_latest)
        with outages_as(CheckpointSaveError, thread_id):
            return await self._off_loop(_delete, thread_id, before, keep_latest, force)

    async def get_checkpoint_stats(self, thread_id: str | None = None) -> dict[str, Any]:
        """Count, bytes as if each state were stored whole, oldest and newest; for all, `threads`."""
        return await self._read(_stats, thread_id or "", thread_id)

    async def clear_all_checkpoints(self, thread_id: str, *, force: bool = False) -> int:
        """Delete the thread and everything in it; returns how many checkpoints went."""
        return await self.delete_checkpoints(thread_id, force=force)


class MemoryCheckpointer(BaseCheckpointer):
    """Checkpoints that end with the process, for tests."""

    def __init__(self) -> None:
        super().__init__("memory://")


class SQLCheckpointer(BaseCheckpointer):
    """Checkpoints in a SQL database, given by its URL or as a store of it."""


class PostgresCheckpointer(SQLCheckpointer):
    """Checkpoints in PostgreSQL."""

    def __init__(self, connection_string: str) -> None:
        check_scheme(connection_string, "postgresql", "postgres")
        super().__init__(connection_string)


class RedisCheckpointer(BaseCheckpointer):
    """Checkpoints in Redis or Valkey. A run that is over expires `ttl` seconds after its last save."""

    def __init__(self, redis_url: str, ttl: float | None = 86400) -> None:
        check_scheme(redis_url, "redis", "rediss", "valkey", "valkeys", "redis+unix")
        super().__init__(redis_url)
        self.ttl = ttl

    def _open(self) -> OpenedCheckpointer:
        return OpenedCheckpointer(Checkpointer(open_store(self._where, ttl=self.ttl)), ours=True)

    async def close(self) -> None:
        """Make everything durable and release what this opened. A second call does nothing."""
        await super().close()
        if self._place is not None:
            self._opened.checkpointer.store.close()


# --- by thread


def _save(core: Core, thread_id: str, pipeline_id: str, **saved: Any) -> Op[Checkpoint]:
    """Save to the thread's run for what is saved by hand, and have it be the newest of the thread."""
    check_id("thread_id", thread_id)
    check_id("pipeline_id", pipeline_id)
    run_id = _by_hand(thread_id, pipeline_id)
    newest: str | None = yield lambda: next(_members(core, thread_id), None)
    if newest not in (None, run_id):
        yield from append(
            core, thread_journal(thread_id), thread_member(run_id, saved.get("owner"))
        )
    state = saved.pop("state")
    return (
        yield from saving.save(core, run_id, state, flow=pipeline_id, thread_id=thread_id, **saved)
    )


def _by_hand(thread_id: str, pipeline_id: str) -> str:
    """The same run for the same pair, and another for any other."""
    name = "/".join(
        part.replace("%", "%25").replace("/", "%2f") for part in (thread_id, pipeline_id)
    )
    if len(name.encode()) <= MAX_ID_BYTES:
        return name
    return f"{name.partition('/')[0][:64]}/{hashlib.sha256(name.encode()).hexdigest()}"


def _members(core: Core, thread_id: str) -> Iterator[str]:
    """The runs of a thread, newest first, some of them more than once."""
    for member in members(core.journals, thread_id):
        yield member.run


def _load(core: Core, thread_id: str, checkpoint_id: str | None) -> PipelineCheckpoint | None:
    if checkpoint_id is None:
        for run in listing.thread(core, thread_id):
            found = core.journals.undisturbed(run.run_id, partial(_newest, core, run.run_id))
            if found is not None:
                return found
        return None
    check_id("thread_id", thread_id)
    try:
        run_id, seq = split_checkpoint_id(checkpoint_id)
    except InvalidIdError:  # an id of another system names nothing here
        return None
    return core.journals.undisturbed(run_id, partial(_at, core, run_id, seq, thread_id))


def _newest(core: Core, run: str) -> PipelineCheckpoint | None:
    found = next(core.journals.branch(run), None)
    return None if found is None else _loaded(core, found)


def _at(core: Core, run: str, seq: int, thread_id: str) -> PipelineCheckpoint | None:
    found = core.journals.entry(run, seq)
    if found is None or found.thread != thread_id or found.kind not in CARRY_STATE:
        return None
    return _loaded(core, found)


def _loaded(core: Core, entry: Entry) -> PipelineCheckpoint:
    """A checkpoint with its whole state, also where it is that of a parallel branch."""
    encoding = core.journals.chain(entry.run, entry.seq, entry).encoding
    if entry.kind == Kind.RESULT:
        encoding = core.journals.encode(whole_state(core, entry))
    return PipelineCheckpoint(entry, encoding, core.journals.decode)


def _list(
    core: Core, thread_id: str, limit: int | None, offset: int
) -> list[PipelineCheckpointInfo]:
    found = (
        PipelineCheckpointInfo(info.entry)
        for run in listing.thread(core, thread_id)
        for info in reading.checkpoints(core, run.run_id)
    )
    return list(islice(found, offset, None if limit is None else offset + limit))


def _delete(
    core: Core, thread_id: str, before: datetime | None, keep_latest: int, force: bool
) -> int:
    if before is None and not keep_latest:
        check_id("thread_id", thread_id)
        return deleting.clear_thread(core, thread_id, unless_needed(core, force))
    count = 0
    for run in listing.thread(core, thread_id):
        kept = sum(1 for _ in islice(reading.checkpoints(core, run.run_id), keep_latest))
        oldest = next(
            iter(reading.list_checkpoints(core, run.run_id, limit=1, oldest_first=True)), None
        )
        if oldest is not None and (
            before is None or to_micros(oldest.created_at) < to_micros(before)
        ):
            count += deleting.prune(
                core, run.run_id, before=before, keep_latest=keep_latest, force=force
            )
        keep_latest -= kept
    return count


def _stats(core: Core, _: str, thread_id: str | None) -> dict[str, Any]:
    if thread_id is None:
        total = reading.stats(core)
        totals = [total]
        heads = all_runs(core.journals.store)
        threads = sorted({head.thread for head in heads if head.thread is not None})
        named: dict[str, Any] = {"threads": threads}
    else:
        totals = [reading.stats(core, run.run_id) for run in listing.thread(core, thread_id)]
        named = {}
    return {
        "total_checkpoints": sum(one.checkpoints for one in totals),
        "total_size_bytes": sum(one.state_bytes for one in totals),
        "oldest_timestamp": min((one.oldest for one in totals if one.oldest), default=None),
        "newest_timestamp": max((one.newest for one in totals if one.newest), default=None),
        **named,
    }
