"""What the documents' views of a checkpointer share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from holdfast.engine.door import Door
from holdfast.errors import (
    CheckpointLoadError,
    CheckpointSaveError,
    StoreClosedError,
    StoreError,
    StoreURLError,
)
from holdfast.kernel import backlog
from holdfast.kernel.core import Core

P = ParamSpec("P")
T = TypeVar("T")


class CheckpointerView(Door):
    """Any store or checkpointer, sync or async, under a document's names. Opened on first use."""

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
        if core.unsettled:  # reads and deletes see what was saved before
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


def check_scheme(url: str, *schemes: str) -> None:
    """Raise `StoreURLError` unless a URL begins with one of these schemes."""
    if url.partition("://")[0].lower() not in schemes:
        raise StoreURLError(url, f"must begin with {schemes[0]}://")
