"""What every view of a checkpointer in other words needs: opened when first used, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from holdfast.checkpointer import Checkpointer, SyncCheckpointer
from holdfast.engine.door import Opened, opened
from holdfast.errors import CheckpointLoadError, CheckpointSaveError, StoreClosedError, StoreError
from holdfast.kernel import backlog
from holdfast.kernel.core import Core

P = ParamSpec("P")
T = TypeVar("T")


class CheckpointerView:
    """Any store, or checkpointer of either colour, in other words. It is opened when first used."""

    def __init__(self, store: Any = None) -> None:
        self._where = store

    @property
    def checkpointer(self) -> Checkpointer | SyncCheckpointer:
        """What is underneath, with all that it can do."""
        return self._opened.checkpointer

    @cached_property
    def _opened(self) -> Opened:
        return opened(self._where)

    async def close(self) -> None:
        """Make everything durable and release what this opened. A second call does nothing."""
        if "_opened" in vars(self):  # else it was never used
            await self._opened.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

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
        core = self.checkpointer.core
        if core.unsettled:  # whoever looks or deletes sees what was saved before
            await core.drive_async(backlog.flush(core))
        return await core.off_loop(partial(call, core, *args, **kwargs))


@contextmanager
def outages_as(error: type[CheckpointSaveError | CheckpointLoadError], name: str) -> Iterator[None]:
    """An outage is an `OSError` that names what was to be saved or read."""
    try:
        yield
    except StoreClosedError:
        raise
    except StoreError as outage:
        raise error(name, str(outage)) from outage
