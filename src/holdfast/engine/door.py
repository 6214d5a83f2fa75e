"""From whatever a front door is given to a checkpointer, and its end."""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol

from holdfast.checkpointer import Checkpointer, SyncCheckpointer
from holdfast.store import Store


class View(Protocol):
    """Something that shows what a checkpointer keeps in other words."""

    @property
    def checkpointer(self) -> Checkpointer | SyncCheckpointer:
        """The one it looks at."""


StoreLike = Store | Checkpointer | SyncCheckpointer | View | str | os.PathLike[str] | None


class Opened:
    """A checkpointer, and whether it is ours to close."""

    def __init__(self, checkpointer: Checkpointer | SyncCheckpointer, *, ours: bool) -> None:
        self.checkpointer = checkpointer
        self._ours = ours
        # A front door that is dropped without close() must not leave connections behind.
        self._finalizer = weakref.finalize(self, _close_store, checkpointer.store) if ours else None

    def close_blocking(self) -> None:
        """Make everything durable and release it, if it is ours and blocks."""
        if self._finalizer is not None and isinstance(self.checkpointer, SyncCheckpointer):
            self._finalizer.detach()
            self.checkpointer.close()

    async def close(self) -> None:
        """Make everything durable and release it, if it is ours."""
        if self._finalizer is None:
            return
        self._finalizer.detach()
        if isinstance(self.checkpointer, Checkpointer):
            await self.checkpointer.close()


def opened(
    where: Any, colour: type[Checkpointer] | type[SyncCheckpointer] = Checkpointer
) -> Opened:
    """What a URL, path, store, checkpointer or view of one, or None for the default, stands for.

    What has to be opened is opened in the `colour` that is asked for.
    """
    if isinstance(where, Checkpointer | SyncCheckpointer):
        return Opened(where, ours=False)
    inner = getattr(where, "checkpointer", None)
    if isinstance(inner, Checkpointer | SyncCheckpointer):
        return Opened(inner, ours=False)
    if where is not None and not isinstance(where, Store | str | os.PathLike):
        raise TypeError(
            f"a store is given as a URL, a path, a Store or a Checkpointer, not {where!r}"
        )
    return Opened(colour(where), ours=not isinstance(where, Store))


def _close_store(store: Store) -> None:
    # Not its writer: a finalizer may strike anywhere, and must not wait for a lock that is held
    # there. An idle writer's thread ends by itself.
    store.close()
