"""What the front doors share: a checkpointer that is opened once, used by many, and closed."""

from __future__ import annotations

import _thread
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol, Self

from holdfast.checkpointer import Checkpointer, SyncCheckpointer, close_blocking
from holdfast.engine.blocking import blocking
from holdfast.engine.executors import Executors
from holdfast.engine.tracebacks import fold
from holdfast.errors import BoundOwnerError, StoreClosedError
from holdfast.kernel.core import Core
from holdfast.kernel.observing import Observer
from holdfast.model import check_id
from holdfast.store import Store
from holdfast.urls import check_place, masked

_SHARED: Final = "_shared_checkpointer"  # of a store
_CLOSING_SECONDS: Final = 1.0  # that a finalizer waits


class View(Protocol):
    """Something that shows what a checkpointer stores, such as a class of `holdfast.documents`."""

    @property
    def checkpointer(self) -> Checkpointer | SyncCheckpointer:
        """The checkpointer behind it."""


StoreLike = Store | Checkpointer | SyncCheckpointer | View | str | os.PathLike[str] | None


class OpenedCheckpointer:
    """A checkpointer that several may use at once, and whether it is ours to close."""

    def __init__(self, checkpointer: Checkpointer | SyncCheckpointer, *, ours: bool) -> None:
        self.checkpointer = checkpointer
        self._lock = threading.RLock()  # a dropped stream may release it from within
        self._users = 0
        self._refuses = False
        self.at_end: Callable[[], None] | None = None  # called when it is not used any more
        # A front door that is dropped without close() must not leave connections behind.
        self._core = checkpointer.core
        self._finalizer = weakref.finalize(self, _close_store, self._core) if ours else None

    def use(self) -> Use:
        """Keep it open until `end()`. Raises `StoreClosedError` once it refuses work."""
        core = self.checkpointer.core
        with self._lock:
            if self._refuses:
                raise StoreClosedError(self.checkpointer.store.url)
            self._users += 1
        return Use(self, core)

    def release(self, *, dropped: bool = False) -> None:
        """One user less; the last one closes what is to be closed.

        For one that was `dropped` a finalizer calls this: it must not wait for anything.
        """
        with self._lock:
            self._users -= 1
            last = self._refuses and not self._users
        if last and not dropped:
            self._close_now()
        elif last:
            if self.at_end is not None:
                with suppress(RuntimeError):  # the interpreter ends
                    _thread.start_new_thread(self.at_end, ())
            if self._finalizer is not None:
                self._finalizer()

    def stop_observing(self, observers: Iterable[Observer]) -> None:
        """Tell these no more of what happens, also if it is closed."""
        self._core.stop_observing(observers)

    def refuse_work(self) -> None:
        """Accept no more users."""
        with self._lock:
            self._refuses = True

    async def close(self) -> None:
        """Make everything durable and close it, if it is ours and nobody uses it any more."""
        self.refuse_work()
        if self._users:
            return
        if self.at_end is not None:
            self.at_end()
        if not self._detach():
            return
        if isinstance(self.checkpointer, Checkpointer):
            await self.checkpointer.close()
        else:
            self.checkpointer.close()

    def close_sync(self) -> None:
        """`close`, blocking."""
        self.refuse_work()
        if not self._users:
            self._close_now()

    def _close_now(self) -> None:
        if self.at_end is not None:
            self.at_end()
        if self._detach():
            close_blocking(self.checkpointer)

    def _detach(self) -> bool:
        """Whether it is ours and was not closed before."""
        return self._finalizer is not None and self._finalizer.detach() is not None


class Use:
    """One use of a checkpointer: until the block, or `end()`."""

    def __init__(self, opened: OpenedCheckpointer, core: Core) -> None:
        self._opened: OpenedCheckpointer | None = opened
        self.core = core

    def end(self) -> None:
        """It is not used any more. A second call does nothing."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.release()

    def drop(self) -> None:
        """`end`, where a finalizer calls it."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.release(dropped=True)

    def __enter__(self) -> Core:
        return self.core

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.end()
        if isinstance(error, Exception):
            fold(error)  # it leaves the engine here


def check_store(where: Any) -> None:
    """Raise `TypeError` or `StoreURLError` for what names no store. Opens nothing."""
    known = getattr(where, "checkpointer", where)
    if isinstance(known, (Checkpointer, SyncCheckpointer, Store)):
        return
    if where is not None and not isinstance(where, str | os.PathLike):
        raise TypeError(
            f"a store is given as a URL, a path, a Store or a Checkpointer, not {where!r}"
        )
    check_place(where)


def open_checkpointer(
    where: Any,
    kind: type[Checkpointer] | type[SyncCheckpointer] = Checkpointer,
    *,
    owner: str | None = None,
    **keys: Any,
) -> OpenedCheckpointer:
    """The checkpointer of a URL, path, store, checkpointer or view; None is the default store.

    What is not open yet is opened as this `kind`, with these `keys`, and bound to the owner if one
    is given.
    """
    known = getattr(where, "checkpointer", where)
    keys = {name: key for name, key in keys.items() if key is not None}
    if isinstance(known, Checkpointer | SyncCheckpointer):
        if keys:
            raise ValueError(f"give {', '.join(keys)} to the checkpointer, which is open already")
        if owner not in (None, known.owner):
            if known.owner is not None:
                raise BoundOwnerError(known.owner, owner)
            raise ValueError(
                f"the checkpointer sees the runs of all owners; give it owner={owner!r}, or give "
                "its store instead of it"
            )
        return OpenedCheckpointer(known, ours=False)
    check_store(where)
    return OpenedCheckpointer(kind(where, owner=owner, **keys), ours=not isinstance(where, Store))


def shared_checkpointer(store: Store) -> Checkpointer:
    """The checkpointer of all calls that are given just this store, which keeps it.

    One for each call would ask for every head, and for a lease, anew.
    """
    kept: dict[str, Any] = getattr(store, "__dict__", {})
    found = kept.get(_SHARED)
    if found is None:
        found = kept.setdefault(_SHARED, Checkpointer(store))  # of many who try, one's
    made: Checkpointer = found
    return made


def _close_store(core: Core) -> None:
    """Close the store of a front door that was dropped, in a thread of its own.

    The collector may strike anywhere: also while this very thread holds a lock that closing needs.
    Then it is closed once the lock is free. Not its writer: an idle writer's thread ends by itself.
    """
    done = _thread.allocate_lock()
    done.acquire()

    def close() -> None:
        try:
            for call in core.at_close:
                call(core)
        finally:
            core.journals.store.close()
            done.release()

    try:
        _thread.start_new_thread(close, ())  # `Thread.start` would wait for locks of its own
    except RuntimeError:  # the interpreter ends
        core.journals.store.close()
    else:
        done.acquire(timeout=_CLOSING_SECONDS)


class Door:
    """Opens the checkpointer on first use, once, and closes it."""

    def __init__(self, store: Any = None, *, owner: str | None = None, **keys: Any) -> None:
        self._where = store
        self._owner = None if owner is None else check_id("owner", owner)
        self._keys = keys  # `key`, `sign`, `trusted` and `remember` of a checkpointer
        self._lock = threading.Lock()
        self._place: OpenedCheckpointer | None = None
        self._closed = False
        self._executors = Executors()

    @property
    def checkpointer(self) -> Checkpointer | SyncCheckpointer:
        """The checkpointer behind this: to list runs, look at their states, fork and roll back."""
        return self._opened.checkpointer

    @property
    def _opened(self) -> OpenedCheckpointer:
        with self._lock:
            if self._place is None:
                if self._closed:
                    raise StoreClosedError(masked(str(self._where or "the default store")))
                self._place = self._open()
                self._place.at_end = self._executors.close
            return self._place

    def _open(self) -> OpenedCheckpointer:
        return open_checkpointer(self._where, owner=self._owner, **self._keys)

    async def close(self) -> None:
        """Make everything durable and close what this opened. A second call does nothing."""
        self._refuse_work()
        if self._place is None:  # it was never used, or only without a store
            self._executors.close()
        else:
            await self._place.close()

    def _refuse_work(self) -> None:
        with self._lock:
            self._closed = True
            if self._place is not None:
                self._place.refuse_work()

    def close_sync(self) -> None:
        """`close`, for programs without an event loop."""
        blocking(type(self).close)(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close_sync()
