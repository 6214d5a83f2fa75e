"""The front of the kernel: `Checkpointer` awaits, `SyncCheckpointer` blocks; both do the same."""

from __future__ import annotations

import atexit
import functools
import inspect
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

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


class _Operation(Generic[P, T]):
    """One operation, to be a method of both checkpointers: awaited in one, blocking in the other.

    `_Operations` lists each once. Its subclasses get functions in their place, which have the
    operation's own signature and docstring.
    """

    def __init__(self, op: Callable[Concatenate[Core, P], Op[T]]) -> None:
        self._op = op

    if TYPE_CHECKING:  # what the functions that take its place are to callers

        @overload
        def __get__(
            self, face: Checkpointer, kind: type[Checkpointer]
        ) -> Callable[P, Coroutine[Any, Any, T]]: ...
        @overload
        def __get__(
            self, face: SyncCheckpointer, kind: type[SyncCheckpointer]
        ) -> Callable[P, T]: ...
        @overload
        def __get__(self, face: None, kind: type[Any]) -> Callable[..., Any]: ...
        def __get__(self, face: Any, kind: Any) -> Any: ...

    def awaited(self) -> Callable[Concatenate[Checkpointer, P], Coroutine[Any, Any, T]]:
        """The method of `Checkpointer`."""
        op = self._op

        @functools.wraps(op)
        async def method(self: Checkpointer, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await self._core.drive_async(op(self._core.ready(), *args, **kwargs))

        vars(method)["__signature__"] = self._signature()
        return method

    def blocking(self) -> Callable[Concatenate[SyncCheckpointer, P], T]:
        """The method of `SyncCheckpointer`."""
        op = self._op

        @functools.wraps(op)
        def method(self: SyncCheckpointer, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return self._core.drive(op(self._core.ready(), *args, **kwargs))

        vars(method)["__signature__"] = self._signature()
        return method

    def _signature(self) -> inspect.Signature:
        """The method's: of the operation, with `self` for the core, and its result."""
        signature = inspect.signature(self._op)
        rest = list(signature.parameters.values())[1:]
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        returns = str(signature.return_annotation)
        if returns.startswith("Op["):
            returns = returns[3:-1]
        return inspect.Signature([itself, *rest], return_annotation=returns)


def _reads(call: Callable[Concatenate[Core, P], T]) -> _Operation[P, T]:
    """An operation that blocks, and first waits for what was saved before."""

    @functools.wraps(call)
    def op(core: Core, /, *args: P.args, **kwargs: P.kwargs) -> Op[T]:
        if core.unsettled:
            yield from backlog.flush(core)
        result: T = yield functools.partial(call, core, *args, **kwargs)
        return result

    return _Operation(op)


class _Operations:
    """What both checkpointers share: every operation, and how they are opened."""

    save = _Operation(saving.save)
    save_many = _Operation(saving.save_many)
    flush = _Operation(backlog.flush)
    fork = _Operation(saving.fork)
    rollback = _Operation(saving.rollback)
    complete = _Operation(saving.complete)

    load = _reads(reading.load)
    list_checkpoints = _reads(reading.list_checkpoints)
    run = _reads(reading.run)
    runs = _reads(reading.runs)
    thread = _reads(reading.thread)
    children = _reads(reading.children)
    parent_of = _reads(reading.parent_of)
    stats = _reads(reading.stats)
    diff = _reads(reading.diff)
    timeline = _reads(timeline.timeline)

    delete = _reads(deleting.delete)
    prune = _reads(deleting.prune)
    clear = _reads(deleting.clear)
    delete_thread = _reads(deleting.delete_thread)
    forget = _reads(forgetting.forget)
    apply_retention = _reads(apply_retention)
    retain = _reads(retain)

    verify = _reads(verifying.verify)
    export_run = _reads(transfer.export_run)
    export_checkpoints = _reads(tables.export_checkpoints)
    export_runs = _reads(transfer.export_runs)
    import_run = _reads(transfer.import_run)
    import_runs = _reads(transfer.import_runs)
    copy_to = _reads(copying.copy_to)

    def __init_subclass__(cls, *, blocks: bool | None = None) -> None:
        super().__init_subclass__()
        for name, operation in vars(_Operations).items():
            if blocks is not None and isinstance(operation, _Operation):
                setattr(cls, name, operation.blocking() if blocks else operation.awaited())

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
        - `on_save_failure`: "raise", or "warn" to log it, mark the run as `degraded` and continue.
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
        writer = writer_for(self._store, clock)
        largest = max(max_state_bytes, MAX_STATE_BYTES)
        journals = Journals(self._store, writer, clock, entropy, cache_bytes, largest)
        self._core = Core(journals, settings)

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


class Checkpointer(_Operations, blocks=False):
    """Saves and loads the state of runs, awaiting. `SyncCheckpointer` is its blocking twin.

    May be shared by tasks, threads and event loops, and several processes may open one store.
    """

    async def close(self) -> None:
        """Make everything durable and release it. A second call does nothing."""
        await self._core.drive_async(_close(self._core, self._owns_store))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class SyncCheckpointer(_Operations, blocks=True):
    """Saves and loads the state of runs, blocking. `Checkpointer` is its awaiting twin."""

    def close(self) -> None:
        """Make everything durable and release it. A second call does nothing."""
        self._core.drive(_close(self._core, self._owns_store))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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


@atexit.register
def _flush_at_exit() -> None:
    for core in list(unsettled):
        try:
            core.drive(backlog.flush(core))
        except HoldfastError as error:  # the others must be flushed too
            backlog.log.error("not everything was saved at exit: %s", error)
