"""Executes what people continue on the pages, if the UI was given its flow.

Only what was asked for here is executed: for everything else there are workers. That it is to be
continued is in the store before it begins, so that a worker continues what is cut short.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from holdfast.engine.effects import Call
from holdfast.engine.engine import Engine
from holdfast.engine.options import RunNames
from holdfast.engine.run.failures import type_name
from holdfast.errors import (
    HoldfastError,
    RunActiveError,
    RunCancelledError,
    RunError,
    RunFinishedError,
    RunPausedError,
)
from holdfast.logs import about, logger
from holdfast.model import Kind
from holdfast.web.site import Settings, Site

_log: Final = logger()

DRAIN: Final = 5.0
"""Seconds that runs have to finish when the UI stops; then they are left to workers."""

_KEPT: Final = 100  # reasons why runs could not be continued


class Executor:
    """An engine with an event loop and a thread of its own: no step keeps a page waiting."""

    def __init__(self, site: Site) -> None:
        settings: Settings = site.settings
        self._names = frozenset(flow.name for flow in settings.flows)
        # The checkpointer of the pages reads values of unknown codecs as data; a flow must not.
        self._engine = Engine(
            site.cp.store,
            flows=settings.flows,
            verifier=settings.verifier,
            listeners=[site.metrics],
            **site.cp.keys,
        )
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by run; of the loop's thread
        self._again: set[str] = set()  # asked for while their task was under way
        self._problems: OrderedDict[str, str] = OrderedDict()
        self._stopping = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-ui-engine")
        self._thread.start()

    def knows(self, flow: str | None) -> bool:
        """Whether runs of this flow are executed here."""
        return flow in self._names

    def resume(self, run_id: str) -> None:
        """Continue a run in the background; one that is under way here, again when it stops."""
        with self._lock:
            self._problems.pop(run_id, None)
        self._loop.call_soon_threadsafe(self._begin, run_id)

    def submit(
        self, call: Call[Any], options: RunNames, delay: timedelta | None
    ) -> tuple[str, bool]:
        """Record a run; its id, and whether it is new. Blocks until that is durable."""
        submitting = self._engine.submit(call, delay=delay, **options)
        handle = asyncio.run_coroutine_threadsafe(submitting, self._loop).result()
        return handle.id, handle.new

    def problem(self, run_id: str) -> str | None:
        """Why a run could not be continued here, if that is not in its history."""
        with self._lock:
            return self._problems.get(run_id)

    def stop(self) -> None:
        """Let runs finish for a while, leave the others to workers, and end. Blocks."""
        self._wait_for(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait_for(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result()

    def _begin(self, run_id: str) -> None:
        if run_id in self._tasks:
            # It may have stopped just now, before it saw what it is to continue with.
            self._again.add(run_id)
            return
        task = self._loop.create_task(self._execute(run_id))
        self._tasks[run_id] = task
        task.add_done_callback(lambda _: self._ended(run_id))

    def _ended(self, run_id: str) -> None:
        del self._tasks[run_id]
        if run_id in self._again:
            self._again.discard(run_id)
            if not self._stopping:
                self._begin(run_id)

    async def _execute(self, run_id: str) -> None:
        try:
            await self._engine.resume(run_id)
        except (RunPausedError, RunCancelledError):
            pass  # its history says it
        except (RunActiveError, RunFinishedError):
            pass  # another process was faster
        except Exception as error:  # noqa: BLE001 - of a flow's own code
            what = str(error) if isinstance(error, HoldfastError) else type_name(error)
            _log.warning("run %s stopped: %s", run_id, what, extra=about(run_id))
            if not isinstance(error, RunError) and not await self._says_so(run_id):
                self._note(run_id, what)

    async def _says_so(self, run_id: str) -> bool:
        """Whether the run failed, according to its history, since it was to be continued."""
        core = self._engine.checkpointer.core
        head = await core.off_loop(lambda: core.journals.head(run_id))
        return head is not None and head.kind == Kind.FAIL

    def _note(self, run_id: str, why: str) -> None:
        with self._lock:
            self._problems[run_id] = why
            while len(self._problems) > _KEPT:
                self._problems.popitem(last=False)

    async def _finish(self) -> None:
        self._stopping = True
        under_way = list(self._tasks.values())
        if under_way:
            await asyncio.wait(under_way, timeout=DRAIN)
        for task in under_way:
            task.cancel()
        for task in under_way:
            with suppress(asyncio.CancelledError):
                await task
        await self._engine.close()
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()
