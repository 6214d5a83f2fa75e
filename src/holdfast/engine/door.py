"""What the front doors share: a checkpointer that is opened on first use, and its runs by id."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, Self, TypedDict

from holdfast.checkpointer import Checkpointer, SyncCheckpointer
from holdfast.engine import launch
from holdfast.engine.blocking import blocking, has_loop_to_itself
from holdfast.engine.launch import Link
from holdfast.engine.options import Options, Trust
from holdfast.engine.people import requests
from holdfast.engine.people.questions import Question
from holdfast.engine.resume import takeover
from holdfast.engine.resume.holders import SILENT_SECONDS
from holdfast.engine.resume.recovery import Orphan, orphans, recover
from holdfast.errors import RunFinishedError
from holdfast.kernel.core import Core
from holdfast.model import Status
from holdfast.operations import reading
from holdfast.store import Store


class View(Protocol):
    """Something that shows what a checkpointer stores, such as a class of `holdfast.documents`."""

    @property
    def checkpointer(self) -> Checkpointer | SyncCheckpointer:
        """The checkpointer behind it."""


StoreLike = Store | Checkpointer | SyncCheckpointer | View | str | os.PathLike[str] | None


class RunOptions(TypedDict, total=False):
    """Options of everything that executes a run.

    - `timeout`: seconds that the run may take.
    - `trust`: what a resume believes. "verify" checks what the steps claimed about the world and
      resumes from the newest checkpoint that still verifies; "stored" believes the last verdicts;
      "skip" checks nothing.
    - `take_over`: resume although another living process of this machine executes the run.
    """

    timeout: float | None
    trust: Trust
    take_over: bool


class OpenedCheckpointer:
    """A checkpointer, and whether it is ours to close."""

    def __init__(self, checkpointer: Checkpointer | SyncCheckpointer, *, ours: bool) -> None:
        self.checkpointer = checkpointer
        # A front door that is dropped without close() must not leave connections behind.
        self._finalizer = weakref.finalize(self, _close_store, checkpointer.store) if ours else None

    def close_sync(self) -> None:
        """Make everything durable and close it, if it is ours and sync."""
        if self._finalizer is not None and isinstance(self.checkpointer, SyncCheckpointer):
            self._finalizer.detach()
            self.checkpointer.close()

    async def close(self) -> None:
        """Make everything durable and close it, if it is ours."""
        if self._finalizer is not None and isinstance(self.checkpointer, Checkpointer):
            self._finalizer.detach()
            await self.checkpointer.close()


def open_checkpointer(
    where: Any, kind: type[Checkpointer] | type[SyncCheckpointer] = Checkpointer
) -> OpenedCheckpointer:
    """The checkpointer of a URL, path, store, checkpointer or view; None is the default store.

    What is not open yet is opened as this `kind`.
    """
    known = getattr(where, "checkpointer", where)
    if isinstance(known, Checkpointer | SyncCheckpointer):
        return OpenedCheckpointer(known, ours=False)
    if where is not None and not isinstance(where, Store | str | os.PathLike):
        raise TypeError(
            f"a store is given as a URL, a path, a Store or a Checkpointer, not {where!r}"
        )
    return OpenedCheckpointer(kind(where), ours=not isinstance(where, Store))


def _close_store(store: Store) -> None:
    # Not its writer: a finalizer may strike anywhere, and must not wait for a lock that is held
    # there. An idle writer's thread ends by itself.
    store.close()


class Door:
    """Opens the checkpointer on first use and closes it."""

    def __init__(self, store: Any = None) -> None:
        self._where = store

    @property
    def checkpointer(self) -> Checkpointer | SyncCheckpointer:
        """The checkpointer behind this: to list runs, look at their states, fork and roll back."""
        return self._opened.checkpointer

    @cached_property
    def _opened(self) -> OpenedCheckpointer:
        return open_checkpointer(self._where)

    @property
    def _runs(self) -> Runs:
        return Runs(self.checkpointer.core)

    async def close(self) -> None:
        """Make everything durable and close what this opened. A second call does nothing."""
        if "_opened" in vars(self):  # else it was never used
            await self._opened.close()

    close_sync = blocking(close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close_sync()


class Runs:
    """The runs of one store, by id: executes and resumes them, and passes requests and answers."""

    def __init__(self, core: Core) -> None:
        self.core = core

    async def exists(self, run_id: str) -> bool:
        """Whether there is such a run."""
        return await self.core.off_loop(lambda: reading.run(self.core, run_id)) is not None

    async def run(
        self, make: takeover.Make, run_id: str, inputs: Any, options: Options, link: Link | None
    ) -> Any:
        """Start a run, or without a link resume it; returns the result, recorded or new."""
        core, options = self.core, replace(options, blocking=has_loop_to_itself())
        if link is not None:
            return await launch.execute(
                await launch.start(core, make, run_id, inputs, options, link)
            )
        try:
            ready = await launch.resume(core, make, run_id, inputs, options)
        except RunFinishedError as over:
            if over.status != Status.COMPLETED:
                raise
            ready = None
        if ready is None:  # outside of `except`: its errors must not show RunFinishedError first
            return await core.off_loop(lambda: launch.outcome(core, make, run_id, inputs))
        return await launch.execute(ready)

    async def resume(self, make: takeover.Make, run_id: str, options: Options) -> Any:
        """Resume a run and return its result. Raises `RunFinishedError`."""
        options = replace(options, blocking=has_loop_to_itself())
        return await launch.execute(await launch.resume(self.core, make, run_id, None, options))

    async def request(self, run_id: str, action: str, reason: str) -> None:
        """Ask a run to "pause" or "cancel", whichever process executes it."""
        await self.core.drive_async(requests.request(self.core, run_id, action, reason))

    async def answer(
        self, run_id: str, value: object, question: str | None = None, by: str | None = None
    ) -> None:
        """Answer a run's open question."""
        await self.core.drive_async(requests.answer(self.core, run_id, value, question, by=by))

    async def questions(self, run_id: str) -> list[Question]:
        """What a run waits for."""
        return await self.core.off_loop(lambda: requests.questions(self.core, run_id))

    async def orphans(self, silent: float) -> list[Orphan]:
        """The runs whose holder is dead."""
        return await self.core.off_loop(lambda: orphans(self.core, silent=silent))

    async def recover(
        self,
        makes: Mapping[str, takeover.Make],
        options: Options,
        silent: float = SILENT_SECONDS,
        at_once: int = 10,
    ) -> dict[str, Any]:
        """Resume every orphaned run of these flows; returns results and errors by run id."""
        return await recover(self.core, makes, options, silent=silent, at_once=at_once)
