"""LangGraph's interface to holdfast: one class, whose methods block or await."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)

from holdfast.checkpointer import Checkpointer, SyncCheckpointer, close_blocking
from holdfast.engine.door import open_checkpointer
from holdfast.errors import CheckpointCorruptedError
from holdfast.integrations.langgraph import listing, thinning
from holdfast.integrations.langgraph.last_values import LastValues
from holdfast.integrations.langgraph.layout import (
    CheckpointNote,
    Typed,
    WritesNote,
    as_typed,
    other_keys,
    run_id,
    stored,
    stored_writes,
    typed_values,
)
from holdfast.integrations.langgraph.serializing import (
    Allowed,
    AllowListSerializer,
    checked,
    revived,
    serialized,
)
from holdfast.integrations.langgraph.threads import Found, Threads
from holdfast.integrations.langgraph.writing import (
    Appender,
    checkpoint_draft,
    opening_draft,
    writes_draft,
)
from holdfast.kernel import compose
from holdfast.kernel.core import Op
from holdfast.kernel.draft import Draft
from holdfast.store import NO_HEAD, Store


class HoldfastSaver(BaseCheckpointSaver[Any]):
    """Keeps LangGraph's checkpoints in any holdfast store, for sync and async graphs alike."""

    def __init__(
        self,
        store: Store | str | os.PathLike[str] | Checkpointer | SyncCheckpointer | None = None,
        *,
        owner: str | None = None,
        allow: Allowed = (),
        serde: Any = None,
        exclusive: bool = False,
    ) -> None:
        """Open a saver on a store, given by URL, path or as an object; None is the default one.

        A checkpointer that is given is not closed with the saver.

        - `owner`: see and write the threads of this owner only. For a checkpointer that is given, it
          must be its own.
        - `allow`: types of your own that checkpoints may hold, as classes or (module, name).
          Messages, standard types and LangGraph's own are always allowed; other
          classes are refused when they are saved.
        - `serde`: a serializer of LangGraph's protocol instead, for example one that encrypts;
          `ValueError` if it uses pickle, or loads every type, as `JsonPlusSerializer()` does.
        - `exclusive`: refuse to write to a thread that another process wrote to since this one
          read it, with `SecondWriterError`. Without it, both are saved, and the later one is the
          newest.
        """
        super().__init__(serde=AllowListSerializer(allow) if serde is None else checked(serde))
        if serde is not None and tuple(allow):
            raise ValueError("give allow= or serde=, not both: a serializer has its own allow-list")
        self._owns = not isinstance(store, Checkpointer | SyncCheckpointer)
        opened = SyncCheckpointer(store, owner=owner) if self._owns else store  # type: ignore[arg-type]
        self._checkpointer = open_checkpointer(opened, owner=owner).checkpointer
        self._threads = Threads(lambda: self._checkpointer.core)
        self._appender = Appender(lambda: self._checkpointer.core, exclusive=exclusive)
        self._values = LastValues()

    # lifetime

    @property
    def store(self) -> Store:
        """The store underneath."""
        return self._checkpointer.store

    def close(self) -> None:
        """Release the store, unless a checkpointer was given. A second call does nothing."""
        if self._owns:
            close_blocking(self._checkpointer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store.url!r})"

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The version that follows: an int, or a text like LangGraph's own in imported threads."""
        if not isinstance(current, str):
            return 1 if current is None else int(current) + 1
        return f"{int(current.partition('.')[0]) + 1:032}.{0:016}"

    # writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint; durable on return."""
        op, saved = self._put(config, checkpoint, metadata)
        self._threads.core.drive(op)
        return saved

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint; durable on return."""
        op, saved = self._put(config, checkpoint, metadata)
        await self._threads.core.drive_async(op)
        return saved

    def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> tuple[Op[None], RunnableConfig]:
        thread, ns, run = _where(config)
        parent, name = get_checkpoint_id(config), checkpoint["id"]
        values = self._serialized(run, parent, checkpoint)
        other = other_keys(checkpoint)
        rest = self.serde.dumps_typed(other) if any(other.values()) else None
        encoding = compose.encode(self._threads.core, run, stored(checkpoint, values, rest))
        said = dict(get_serializable_checkpoint_metadata(config, metadata))
        has = tuple(values) if said.get(listing.COUNTERS) else None

        def draft(early: tuple[int, ...]) -> Draft:
            return checkpoint_draft(CheckpointNote(name, parent, said, early, has), encoding)

        op = self._appender.put(run, partial(opening_draft, thread, ns), draft, name)
        return op, _config(config["configurable"]["thread_id"], ns, name)

    def _serialized(self, run: str, parent: str | None, checkpoint: Checkpoint) -> dict[str, Typed]:
        """The values of the channels; those that did not change are not serialized again."""
        versions = checkpoint["channel_versions"]
        known = self._values.after(run, parent)
        found: dict[str, tuple[Any, Any, Typed]] = {}
        for name, value in checkpoint["channel_values"].items():
            version = versions.get(name)
            before = known.get(name)
            if before is None or version is None or before[0] != version or before[1] is not value:
                before = version, value, serialized(self.serde, name, value)
            found[name] = before
        self._values.keep(run, checkpoint["id"], found)
        return {name: typed for name, (_, _, typed) in found.items()}

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote; durable on return."""
        self._threads.core.drive(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote; durable on return."""
        await self._threads.core.drive_async(self._put_writes(config, writes, task_id, task_path))

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Op[None]:
        thread, ns, run = _where(config)
        rows = [
            (WRITES_IDX_MAP.get(channel, index), channel, serialized(self.serde, channel, value))
            for index, (channel, value) in enumerate(writes)
        ]
        encoding = compose.encode(self._threads.core, run, stored_writes(rows), "writes")
        note = WritesNote(config["configurable"]["checkpoint_id"], task_id, task_path)
        draft = writes_draft(note, encoding)
        return self._appender.put_writes(run, partial(opening_draft, thread, ns), draft, note)

    # reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, or the newest of its thread and namespace.

        The newest ones are found at once, whatever the length of the thread. To find another one
        for the first time, the entries of the thread are listed, without their states. After
        `rollback`, the newest one is the one that was gone back to.
        """
        _, ns, run = _where(config)
        name = get_checkpoint_id(config)
        read = partial(self._named, run, name) if name else partial(self._newest, run)
        found = self._threads.reading(run, read)
        if found is None:
            return None
        return self._tuple(run, config["configurable"]["thread_id"], ns, found)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return await self._threads.core.off_loop(partial(self.get_tuple, config))

    def _newest(self, run: str) -> Found | None:
        head = self._threads.head(run)
        if head is None:
            self._threads.core.journals.fetch_tip(run, with_state=False)  # a save comes next
        found = None if head is None else self._threads.newest(head)
        self._appender.has_read(run, NO_HEAD if head is None else (head.seq, head.digest), found)
        return found

    def _named(self, run: str, name: str) -> Found | None:
        index = self._threads.index_with(run, name)
        position = index.position
        place = index.places.get(name)
        index.check(() if place is None else [place])  # it may be the one, or one of its writes
        found = None if place is None else self._threads.at(run, index, place)
        self._appender.has_read(run, position, found)
        return found

    def _tuple(self, run: str, thread: Any, ns: str, found: Found) -> CheckpointTuple:
        note, state = found.note, found.state
        load = partial(revived, self.serde, run=run)
        try:
            checkpoint = {
                key: state[key] for key in state if key not in ("channel_values", "other")
            }
            if "other" in state:
                checkpoint |= load(as_typed(state["other"]))
            values = {name: load(typed) for name, typed in typed_values(state).items()}
        except (TypeError, ValueError, LookupError) as error:
            raise CheckpointCorruptedError(run, found.seq, str(error)) from error
        checkpoint["channel_values"] = values
        parent = None if note.parent is None else _config(thread, ns, note.parent)
        return CheckpointTuple(
            _config(thread, ns, note.id),
            cast("Checkpoint", checkpoint),
            cast("CheckpointMetadata", dict(note.metadata)),
            parent,
            [
                (task, channel, load(typed))
                for task, channel, typed in listing.in_order(found.writes)
            ],
        )

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints that match, newest first.

        Those that a `rollback` left behind are not listed; they can still be got by their ids.
        If some are damaged, all others are listed before `CheckpointCorruptedError` is raised.
        """
        wanted = (config or {}).get("configurable", {})
        end = get_checkpoint_id(before) if before else None
        return listing.matching(
            self._threads,
            wanted,
            filter,
            end,
            limit,
            lambda space, found: self._tuple(*space, found),
        )

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (each := await self._threads.core.off_loop(partial(next, found, None))) is not None:
            yield each

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What each delta channel is rebuilt from: its last snapshot, and the writes since."""
        _, _, run = _where(config)
        name = get_checkpoint_id(config)
        read = partial(listing.delta_history, self._threads, run, name, channels)
        load = partial(revived, self.serde, run=run)
        result: dict[str, DeltaChannelHistory] = {}
        for channel, (seed, writes) in self._threads.reading(run, read).items():
            result[channel] = {"writes": [(task, channel, load(typed)) for task, typed in writes]}
            if seed is not None:
                result[channel]["seed"] = load(seed)
        return result

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `get_delta_channel_history`."""
        read = partial(self.get_delta_channel_history, config=config, channels=channels)
        return await self._threads.core.off_loop(read)

    # deleting and copying

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all of its namespaces.

        Raises `RunMismatchError`, and deletes nothing, if it is a run of another kind.
        """
        thinning.delete_thread(self._threads, str(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await self._threads.core.off_loop(partial(self.delete_thread, thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs of LangGraph's wrote. Looks at every thread.

        Raises `ValueError`, and deletes nothing, if delta channels of later ones need them.
        """
        thinning.delete_for_runs(self._threads, run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`."""
        await self._threads.core.off_loop(partial(self.delete_for_runs, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all of its namespaces, checkpoints and writes."""
        thinning.copy_thread(self._threads, str(source_thread_id), str(target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`."""
        copy = partial(self.copy_thread, source_thread_id, target_thread_id)
        await self._threads.core.off_loop(copy)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace ("keep_latest"), or nothing ("delete").

        With the newest one stay those that its delta channels are rebuilt from.
        """
        thinning.prune(self._threads, thread_ids, strategy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        await self._threads.core.off_loop(partial(self.prune, thread_ids, strategy=strategy))


def _where(config: RunnableConfig) -> tuple[str, str, str]:
    """The thread and namespace that a config names, and their run."""
    wanted = config["configurable"]
    thread, ns = str(wanted["thread_id"]), wanted.get("checkpoint_ns") or ""
    return thread, ns, run_id(thread, ns)


def _config(thread: Any, ns: str, checkpoint: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint}}
