"""The front of the kernel: `Checkpointer` awaits, `SyncCheckpointer` blocks, and both do the same."""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from holdfast.errors import HoldfastError
from holdfast.kernel import backlog
from holdfast.kernel.core import (
    DEADLINE,
    MAX_STATE_BYTES,
    Core,
    Durability,
    OnSaveFailure,
    Op,
    Settings,
    unsettled,
)
from holdfast.kernel.journal import CACHE_BYTES, Journals
from holdfast.kernel.writer import writer_for
from holdfast.model import Retention
from holdfast.operations import (
    copying,
    deleting,
    forgetting,
    reading,
    saving,
    tables,
    timeline,
    transfer,
    verifying,
)
from holdfast.operations.retention import apply_retention, retain
from holdfast.seams import SYSTEM_CLOCK, SYSTEM_ENTROPY, Clock, Entropy
from holdfast.store import Store, Survives, require
from holdfast.urls import open_store

P = ParamSpec("P")
T = TypeVar("T")


class _Face:
    """What both colours share: how a checkpointer is opened, and what it can be asked at any time."""

    def __init__(
        self,
        store: Store | str | os.PathLike[str] | None = None,
        *,
        durability: Durability = "sync",
        on_save_failure: OnSaveFailure = "raise",
        retention: Retention | None = None,
        max_state_bytes: int = MAX_STATE_BYTES,
        deadline: float = DEADLINE,
        survives: Survives | None = None,
        cache_bytes: int = CACHE_BYTES,
        clock: Clock = SYSTEM_CLOCK,
        entropy: Entropy = SYSTEM_ENTROPY,
    ) -> None:
        """Open a checkpointer on a store, given by URL, path or as an object; None is the default.

        - `durability`: when `save` returns. "sync": the state is durable. "async": it is on its
          way, in order; `flush` and `close` wait for it, and an error shows at the next call.
          "exit": only the newest state of each run is kept, and written at exit, by `flush` and
          `close`. Beginning a run always waits, and every call but `save` first does what
          `flush` does.
        - `on_save_failure`: "raise", or "warn" to log it, mark the run as `degraded` and go on.
        - `retention`: what is deleted automatically; nothing unless given.
        - `max_state_bytes`: larger states are refused; beyond 1 MB they are warned about.
        - `deadline`: seconds a save may take, retries included.
        - `survives`: what the store must survive; `DurabilityError` if it does not.
        """
        settings = Settings(
            durability=durability,
            on_save_failure=on_save_failure,
            deadline=deadline,
            max_state_bytes=max_state_bytes,
            retention=retention,
        )
        self._owns_store = not isinstance(store, Store)
        if isinstance(store, Store):
            self._store = store
            if survives is not None:
                require(store, survives)
        else:
            self._store = open_store(store, **({} if survives is None else {"survives": survives}))
        self._core = Core(
            Journals(
                self._store,
                writer_for(self._store, clock),
                clock,
                entropy,
                cache_bytes,
                largest_state=max(max_state_bytes, MAX_STATE_BYTES),
            ),
            settings,
        )

    @property
    def store(self) -> Store:
        """The store underneath."""
        return self._store

    @property
    def core(self) -> Core:
        """What the engine and its front doors work with."""
        return self._core.ready()

    @property
    def degraded(self) -> HoldfastError | None:
        """The error that `on_save_failure="warn"` passed over, until a save succeeds again."""
        return self._core.degraded

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store.url!r})"


def _close(core: Core, owns_store: bool) -> Op[None]:
    """Make everything durable and release it. A second call does nothing."""
    if not core.closed:
        core.closed = True
        try:
            yield from backlog.flush(core)
        finally:
            if owns_store:
                yield core.journals.writer.close
                yield core.journals.store.close
    core.release()


def _awaits(
    op: Callable[Concatenate[Core, P], Op[T]],
) -> Callable[Concatenate[Checkpointer, P], Coroutine[Any, Any, T]]:
    @functools.wraps(op)
    def method(self: Checkpointer, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._core.drive_async(op(self._core.ready(), *args, **kwargs))

    return method


def _off_loop(
    call: Callable[Concatenate[Core, P], T],
) -> Callable[Concatenate[Checkpointer, P], Coroutine[Any, Any, T]]:
    @functools.wraps(call)
    async def method(self: Checkpointer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        core = self._core.ready()
        if core.unsettled:  # whoever looks or deletes sees what was saved before
            await core.drive_async(backlog.flush(core))
        return await core.off_loop(functools.partial(call, core, *args, **kwargs))

    return method


def _drives(
    op: Callable[Concatenate[Core, P], Op[T]],
) -> Callable[Concatenate[SyncCheckpointer, P], T]:
    @functools.wraps(op)
    def method(self: SyncCheckpointer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._core.drive(op(self._core.ready(), *args, **kwargs))

    return method


def _calls(
    call: Callable[Concatenate[Core, P], T],
) -> Callable[Concatenate[SyncCheckpointer, P], T]:
    @functools.wraps(call)
    def method(self: SyncCheckpointer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        core = self._core.ready()
        if core.unsettled:
            core.drive(backlog.flush(core))
        return call(core, *args, **kwargs)

    return method


class Checkpointer(_Face):
    """Saves and loads the state of runs, for async programs. `SyncCheckpointer` is its blocking twin.

    May be shared by tasks, threads and event loops, and several processes may open one store.
    """

    save = _awaits(saving.save)
    save_many = _awaits(saving.save_many)
    flush = _awaits(backlog.flush)
    fork = _awaits(saving.fork)
    rollback = _awaits(saving.rollback)
    complete = _awaits(saving.complete)

    load = _off_loop(reading.load)
    list_checkpoints = _off_loop(reading.list_checkpoints)
    run = _off_loop(reading.run)
    runs = _off_loop(reading.runs)
    thread = _off_loop(reading.thread)
    within = _off_loop(reading.within)
    parent_of = _off_loop(reading.parent_of)
    stats = _off_loop(reading.stats)
    diff = _off_loop(reading.diff)
    timeline = _off_loop(timeline.timeline)

    delete = _off_loop(deleting.delete)
    prune = _off_loop(deleting.prune)
    clear = _off_loop(deleting.clear)
    delete_thread = _off_loop(deleting.delete_thread)
    forget = _off_loop(forgetting.forget)
    apply_retention = _off_loop(apply_retention)
    retain = _off_loop(retain)

    verify = _off_loop(verifying.verify)
    export_run = _off_loop(transfer.export_run)
    export_checkpoints = _off_loop(tables.export_checkpoints)
    export_runs = _off_loop(transfer.export_runs)
    import_run = _off_loop(transfer.import_run)
    import_runs = _off_loop(transfer.import_runs)
    copy_to = _off_loop(copying.copy_to)

    async def close(self) -> None:
        """Make everything durable and release it. A second call does nothing."""
        await self._core.drive_async(_close(self._core, self._owns_store))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class SyncCheckpointer(_Face):
    """Saves and loads the state of runs, blocking. `Checkpointer` is its awaiting twin."""

    save = _drives(saving.save)
    save_many = _drives(saving.save_many)
    flush = _drives(backlog.flush)
    fork = _drives(saving.fork)
    rollback = _drives(saving.rollback)
    complete = _drives(saving.complete)

    load = _calls(reading.load)
    list_checkpoints = _calls(reading.list_checkpoints)
    run = _calls(reading.run)
    runs = _calls(reading.runs)
    thread = _calls(reading.thread)
    within = _calls(reading.within)
    parent_of = _calls(reading.parent_of)
    stats = _calls(reading.stats)
    diff = _calls(reading.diff)
    timeline = _calls(timeline.timeline)

    delete = _calls(deleting.delete)
    prune = _calls(deleting.prune)
    clear = _calls(deleting.clear)
    delete_thread = _calls(deleting.delete_thread)
    forget = _calls(forgetting.forget)
    apply_retention = _calls(apply_retention)
    retain = _calls(retain)

    verify = _calls(verifying.verify)
    export_run = _calls(transfer.export_run)
    export_checkpoints = _calls(tables.export_checkpoints)
    export_runs = _calls(transfer.export_runs)
    import_run = _calls(transfer.import_run)
    import_runs = _calls(transfer.import_runs)
    copy_to = _calls(copying.copy_to)

    def close(self) -> None:
        """Make everything durable and release it. A second call does nothing."""
        self._core.drive(_close(self._core, self._owns_store))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@atexit.register
def _flush_at_exit() -> None:
    for core in list(unsettled):
        try:
            core.drive(backlog.flush(core))
        except HoldfastError as error:  # the others must be flushed too
            import logging

            logging.getLogger("holdfast").error("not everything was saved at exit: %s", error)
