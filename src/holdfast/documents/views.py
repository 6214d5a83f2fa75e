"""What the documents' views of a checkpointer share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Concatenate, Final, ParamSpec, TypeVar

from holdfast.checkpointer import Checkpointer, SyncCheckpointer
from holdfast.engine.door import Door
from holdfast.engine.holding.observing import standing
from holdfast.errors import (
    CheckpointLoadError,
    CheckpointSaveError,
    RunActiveError,
    StoreClosedError,
    StoreError,
    StoreURLError,
)
from holdfast.kernel import backlog
from holdfast.kernel.core import Core
from holdfast.model import Entry, Status
from holdfast.operations import deleting

_MAY_DIFFER: Final = frozenset({"checkpointer", "close", "close_sync", "initialize"})

P = ParamSpec("P")
T = TypeVar("T")


class CheckpointerView(Door):
    """Any store or checkpointer, sync or async, under a document's names. Opened on first use.

    What flows save goes past the methods of a view. So a subclass that overrides one of them can be
    used by hand, but no flow takes it as its store.
    """

    @property
    def checkpointer(self) -> Checkpointer | SyncCheckpointer:
        """The checkpointer behind this: to list runs, look at their states, fork and roll back.

        Raises `TypeError` for a subclass that saves or loads in its own way.
        """
        own = type(self)
        overridden = _overridden(own)
        if overridden:
            raise TypeError(
                f"{own.__name__} has its own {', '.join(overridden)}, which a flow would not call; "
                "for a backend of your own, write a Store, and give the flow that"
            )
        return super().checkpointer

    async def _read(
        self,
        call: Callable[Concatenate[Core, str, P], T],
        name: str,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        with outages_as(CheckpointLoadError, name):
            return await self._off_loop(call, name, *args, **kwargs)

    async def _off_loop(
        self, call: Callable[Concatenate[Core, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        core = self._opened.checkpointer.core
        if core.unsettled:  # reads and deletes see what was saved before
            await core.drive_async(backlog.flush(core))
        return await core.off_loop(partial(call, core, *args, **kwargs))


def _ours(kind: type) -> type:
    """The class of this package that a class is, or is made from."""
    return next(each for each in kind.__mro__ if each.__module__.startswith(__package__ or ""))


def _overridden(kind: type) -> list[str]:
    ours = _ours(kind)
    own = kind.__mro__[: kind.__mro__.index(ours)]
    names = {name for each in own for name in vars(each) if not name.startswith("_")}
    return sorted(name for name in names - _MAY_DIFFER if hasattr(ours, name))


def unless_needed(core: Core, force: bool) -> Callable[[Entry], bool]:
    """For `deleting`: raise `RunActiveError` for a run that lives or waits for someone.

    One whose process died or left it is not needed: who deletes it does not want to resume it.
    """

    def condition(head: Entry) -> bool:
        if head.status != Status.RUNNING or force:
            return deleting.refuse_if_active(head, force)
        found = standing(core, head)
        if found.why is None:
            raise RunActiveError(head.run, head.status, found.name, deleting.FORCE)
        return True

    return condition


@contextmanager
def outages_as(error: type[CheckpointSaveError | CheckpointLoadError], name: str) -> Iterator[None]:
    """An outage is an `OSError` that names what was to be saved or read."""
    try:
        yield
    except StoreClosedError:
        raise
    except StoreError as outage:
        raise error(name, str(outage)) from outage


def check_scheme(url: str, *schemes: str) -> None:
    """Raise `StoreURLError` unless a URL begins with one of these schemes."""
    if url.partition("://")[0].lower() not in schemes:
        raise StoreURLError(url, f"must begin with {schemes[0]}://")
