"""The front of the kernel: `Checkpointer` awaits, `SyncCheckpointer` blocks; both do the same."""

from __future__ import annotations

import atexit
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from holdfast.checkpoint import Checkpoint
from holdfast.codec.secrets import Provider
from holdfast.errors import HoldfastError
from holdfast.kernel import backlog
from holdfast.kernel.closing import close, flush_all
from holdfast.kernel.core import (
    DEADLINE,
    MAX_STATE_BYTES,
    Core,
    Durability,
    OnSaveFailure,
    Settings,
)
from holdfast.kernel.journal import CACHE_BYTES, Journals
from holdfast.kernel.methods import Awaits, Blocks, HasOperations, Iteration, Operation, reads
from holdfast.kernel.observing import Listener, flush, flush_async, observers_of
from holdfast.kernel.owner_view import bind
from holdfast.kernel.remembering import remember_heads
from holdfast.kernel.watcher import EVERY
from holdfast.kernel.watching import Changes, SyncChanges
from holdfast.kernel.withholding import Hidden
from holdfast.kernel.writer import writer_for
from holdfast.keys.sealing import sealers_of
from holdfast.migrations import Migrations
from holdfast.model import check_id
from holdfast.operations import (
    anchor_checks,
    anchoring,
    attesting,
    copying,
    deleting,
    dry_run,
    forgetting,
    iterating,
    listing,
    reading,
    receipt_check,
    rekeying,
    remembered,
    saving,
    tables,
    takeout,
    tally,
    timeline,
    transfer,
    verifying,
)
from holdfast.operations.children import children, parent_of
from holdfast.operations.retention import apply_retention, retain
from holdfast.retention import Retention, in_order
from holdfast.seams import SYSTEM_CLOCK, SYSTEM_ENTROPY, Clock, Entropy
from holdfast.store import Store, Survives
from holdfast.urls import store_of

if TYPE_CHECKING:
    from holdfast.keys.keyring import Keyring
    from holdfast.keys.signing import SigningKey, TrustedKeys

T = TypeVar("T")


class _Operations(HasOperations):
    """What both checkpointers share: every operation, and how they are opened."""

    save = Operation(saving.save)
    save_many = Operation(saving.save_many)
    flush = Operation(backlog.flush)
    fork = Operation(saving.fork)
    rollback = Operation(saving.rollback)
    complete = Operation(saving.complete)

    if not TYPE_CHECKING:  # the checkpointers say what `as_type` makes of their results
        load = reads(reading.load)
        iter_states = Iteration(iterating.iter_states)
    list_checkpoints = reads(reading.list_checkpoints)
    run = reads(listing.run)
    runs = reads(listing.runs)
    count_runs = reads(listing.count_runs)
    tally = reads(tally.tally)
    iter_checkpoints = Iteration(iterating.iter_checkpoints)
    iter_runs = Iteration(listing.iter_runs)
    dry_run = Iteration(dry_run.dry_run)
    thread = reads(listing.thread)
    children = reads(children)
    parent_of = reads(parent_of)
    stats = reads(reading.stats)
    diff = reads(reading.diff)
    timeline = reads(timeline.timeline)

    delete = reads(deleting.delete)
    prune = reads(deleting.prune)
    clear = reads(deleting.clear)
    delete_thread = reads(deleting.delete_thread)
    forget = reads(forgetting.forget)
    apply_retention = reads(apply_retention)
    retain = reads(retain)

    rekey = reads(rekeying.rekey)
    cut_over = reads(rekeying.cut_over)

    verify = reads(verifying.verify)
    verify_chain = reads(verifying.verify_chain)
    anchor = reads(anchoring.anchor)
    verify_anchor = reads(anchor_checks.verify_anchor)
    prove_anchored = reads(anchor_checks.prove_anchored)
    check_remembered = reads(remembered.check_remembered)
    accept_history = reads(remembered.accept_history)
    attest = reads(attesting.attest)
    verify_receipt = reads(receipt_check.verify_receipt)
    export_run = reads(transfer.export_run)
    export_checkpoints = reads(tables.export_checkpoints)
    export_runs = reads(transfer.export_runs)
    export_data = reads(takeout.export_data)
    import_run = reads(transfer.import_run)
    import_runs = reads(transfer.import_runs)
    copy_to = reads(copying.copy_to)

    def __init__(
        self,
        store: Store | str | os.PathLike[str] | None = None,
        *,
        owner: str | None = None,
        durability: Durability = "sync",
        on_save_failure: OnSaveFailure = "raise",
        retention: Retention | Sequence[Retention] | None = None,
        max_state_bytes: int = MAX_STATE_BYTES,
        deadline: float = DEADLINE,
        survives: Survives | None = None,
        secrets_from: Provider | None = None,
        secrets: Iterable[str] = (),
        encrypt: Iterable[str] = (),
        cache_bytes: int = CACHE_BYTES,
        clock: Clock = SYSTEM_CLOCK,
        entropy: Entropy = SYSTEM_ENTROPY,
        listeners: Iterable[Listener] = (),
        key: Keyring | None = None,
        sign: SigningKey | None = None,
        trusted: TrustedKeys | None = None,
        remember: str | os.PathLike[str] | None = None,
    ) -> None:
        """Open a checkpointer on a store, given by URL, path or as an object; None is the default.

        - `owner`: see and change the runs of this owner only, and open new ones for them. For every
          operation, the runs of others do not exist. Raises `BoundOwnerError` for a store that is
          bound to another owner. Without it, all runs are seen, and an owner is only a label.
        - `durability`: when `save` returns. "sync": the state is durable. "async": it is queued, in
          order; `flush` and `close` wait for it, and an error is raised by the next call. "exit":
          only the newest state of each run is kept, and written at exit, by `flush` and `close`.
          Beginning a run always waits, and every call but `save` flushes first.
        - `on_save_failure`: "raise", or "warn" to log it, mark the run as `degraded` and continue.
        - `retention`: what is deleted automatically: one policy, or several, of which the first
          that matches a run applies. By default nothing.
        - `max_state_bytes`: larger states are refused; beyond 1 MB they are warned about.
        - `deadline`: seconds a save may take, retries included.
        - `survives`: what the store must survive; `DurabilityError` if it does not.
        - `secrets_from`: provides the values of secrets that are loaded: a mapping by their names,
          or a function of the name, such as `environment_secrets`.
        - `secrets`: paths of values that are never stored, such as "user.token",
          "headers.*.Authorization" or "[*].password", in states, inputs, results and answers. A
          load gets them from `secrets_from`, by their path.
        - `listeners`: functions that get every event, or a `Metrics`. See docs/reference/events.md.
        - `key`: encrypts everything that is saved, and refuses what is not encrypted.
        - `encrypt`: paths of values that `key` encrypts, while all else stays readable.
        - `sign`: signs everything that is saved, and refuses what is not signed by this key, or
          by one of those in `trusted`.
        - `remember`: a file outside of the store that remembers the newest entry of every run: a
          run that was cut off, replaced or removed then raises `HistoryRewoundError`.
        """
        hidden = Hidden(secrets_from, secrets, encrypt)
        if hidden.encrypted and key is None:
            raise ValueError("encrypt= needs key=, a Keyring that encrypts these fields")
        observers = observers_of(listeners)
        settings = Settings(
            durability=durability,
            on_save_failure=on_save_failure,
            deadline=deadline,
            max_state_bytes=max_state_bytes,
            retention=in_order(retention),
        )
        self._owns_store = not isinstance(store, Store)
        owner = None if owner is None else check_id("owner", owner)
        self._store = bind(store_of(store, survives), owner)
        writer = writer_for(self._store, clock)
        largest = max(max_state_bytes, MAX_STATE_BYTES)
        part = bool(hidden.encrypted)
        try:
            sealers = sealers_of(self._store, key, sign, trusted, clock, entropy, fields_only=part)
            journals = Journals(self._store, writer, clock, entropy, cache_bytes, largest, *sealers)
            self._core = Core(journals, settings, hidden)
            remember = remember_heads(self._core, remember, default=store is None)
        except BaseException:
            if self._owns_store:
                writer.close()
                self._store.close()
            raise
        keys = {"key": key, "sign": sign, "trusted": trusted, "remember": remember}
        self._keys = keys | hidden.options
        if observers:
            self._core.observe(observers)

    @property
    def store(self) -> Store:
        """The store underneath, as its owner sees it if there is one."""
        return self._store

    @property
    def keys(self) -> dict[str, Any]:
        """Its keys, secrets and remembered heads, to open other checkpointers on the store with."""
        return dict(self._keys)

    @property
    def owner(self) -> str | None:
        """The owner that it is bound to; None if it sees the runs of all."""
        return self._core.journals.owner

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


class Checkpointer(_Operations, Awaits):
    """Saves and loads the state of runs, awaiting. `SyncCheckpointer` is its blocking twin.

    May be shared by tasks, threads and event loops, and several processes may open one store.
    """

    if TYPE_CHECKING:

        @overload
        async def load(
            self,
            run_id: str | None = None,
            *,
            checkpoint_id: str | None = None,
            seq: int | None = None,
            step: str | None = None,
            as_type: type[T],
            migrate: Migrations | None = None,
        ) -> Checkpoint[T] | None: ...
        @overload
        async def load(
            self,
            run_id: str | None = None,
            *,
            checkpoint_id: str | None = None,
            seq: int | None = None,
            step: str | None = None,
            as_type: Any = None,
            migrate: Migrations | None = None,
        ) -> Checkpoint[Any] | None: ...
        async def load(self, run_id: str | None = None, **where: Any) -> Any:
            """The run's current checkpoint, or another one; `as_type` says what its state is."""

        @overload
        def iter_states(
            self,
            run_id: str,
            *,
            after: int | None = None,
            left_behind: bool = False,
            as_type: type[T],
            migrate: Migrations | None = None,
        ) -> AsyncIterator[Checkpoint[T]]: ...
        @overload
        def iter_states(
            self,
            run_id: str,
            *,
            after: int | None = None,
            left_behind: bool = False,
            as_type: Any = None,
            migrate: Migrations | None = None,
        ) -> AsyncIterator[Checkpoint[Any]]: ...
        def iter_states(self, run_id: str, **which: Any) -> Any:
            """Iterate over the run's checkpoints with their states, oldest first, in one pass."""

    def watch(self, run_id: str | None = None, *, every: float = EVERY) -> Changes:
        """Watch one run, or all: `async for change in cp.watch("run")`, or `await watch.wait(5)`.

        Includes what other processes do, except on stores for one process. PostgreSQL and Redis
        notify of changes; other stores are asked every so many seconds. What changed between two
        looks is one change. The first is what there is already, so that nothing is missed: see
        `Changes.wait`. After an outage it connects again.
        """
        return Changes(self._core.ready(), run_id, every=every)

    async def close(self) -> None:
        """Make everything durable and release it. A second call does nothing."""
        await self._core.drive_async(close(self._core, self._owns_store))
        await flush_async(self._core.observers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class SyncCheckpointer(_Operations, Blocks):
    """Saves and loads the state of runs, blocking. `Checkpointer` is its awaiting twin."""

    if TYPE_CHECKING:

        @overload
        def load(
            self,
            run_id: str | None = None,
            *,
            checkpoint_id: str | None = None,
            seq: int | None = None,
            step: str | None = None,
            as_type: type[T],
            migrate: Migrations | None = None,
        ) -> Checkpoint[T] | None: ...
        @overload
        def load(
            self,
            run_id: str | None = None,
            *,
            checkpoint_id: str | None = None,
            seq: int | None = None,
            step: str | None = None,
            as_type: Any = None,
            migrate: Migrations | None = None,
        ) -> Checkpoint[Any] | None: ...
        def load(self, run_id: str | None = None, **where: Any) -> Any:
            """The run's current checkpoint, or another one; `as_type` says what its state is."""

        @overload
        def iter_states(
            self,
            run_id: str,
            *,
            after: int | None = None,
            left_behind: bool = False,
            as_type: type[T],
            migrate: Migrations | None = None,
        ) -> Iterator[Checkpoint[T]]: ...
        @overload
        def iter_states(
            self,
            run_id: str,
            *,
            after: int | None = None,
            left_behind: bool = False,
            as_type: Any = None,
            migrate: Migrations | None = None,
        ) -> Iterator[Checkpoint[Any]]: ...
        def iter_states(self, run_id: str, **which: Any) -> Any:
            """Iterate over the run's checkpoints with their states, oldest first, in one pass."""

    def watch(self, run_id: str | None = None, *, every: float = EVERY) -> SyncChanges:
        """Watch one run, or all: `for change in cp.watch("run")`, or `watch.wait(5)`.

        Includes what other processes do, except on stores for one process. PostgreSQL and Redis
        notify of changes; other stores are asked every so many seconds. What changed between two
        looks is one change. The first is what there is already, so that nothing is missed: see
        `SyncChanges.wait`. After an outage it connects again.
        """
        return SyncChanges(self._core.ready(), run_id, every=every)

    def close(self) -> None:
        """Make everything durable and release it. A second call does nothing."""
        close_blocking(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def close_blocking(checkpointer: Checkpointer | SyncCheckpointer) -> None:
    """Close either of the twins, blocking. A second call does nothing."""
    core = checkpointer._core  # noqa: SLF001 - also of one that is closed
    core.drive(close(core, checkpointer._owns_store))  # noqa: SLF001
    flush(core.observers)


atexit.register(flush_all)  # called before heads are written to files: the last comes first
