"""Whole runs on Dask workers.

The journal decides who executes a run, and Dask decides where. If a worker is lost, Dask gives its
runs to others, which resume them: what is recorded does not run again. If a worker only seems to
be lost, the one that follows it finds a living holder and waits for the result.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, NamedTuple, TypeVar, Unpack

from distributed import Client, Future
from distributed.protocol import pickle

from holdfast.engine.blocking import check_options
from holdfast.engine.effects import Call
from holdfast.engine.engine import Engine
from holdfast.engine.holding.slots import DEAD_AFTER, check_dead_after
from holdfast.engine.launcher import take_call
from holdfast.engine.options import RunOptions
from holdfast.errors import StoreURLError
from holdfast.integrations.dask.flows import FlowName, name_of
from holdfast.integrations.dask.places import check_same, check_shared, place_of, resolved
from holdfast.integrations.dask.travel import ON_WORKER, portable_error, this_worker
from holdfast.model import check_id

R = TypeVar("R")


class DaskRun(RunOptions, total=False):
    """Options of `submit`: those of a run, to whom it belongs, and `labels` to find it by."""

    thread_id: str | None
    owner: str | None
    labels: Mapping[str, str] | None


class _Sent(NamedTuple):
    """What a worker needs to know to execute a run."""

    flow: FlowName
    inputs: bytes  # pickled: their types may be missing where the flow's code is
    run_id: str
    store: str | None  # None: the worker's own default store
    place: str | None  # see `place_of`
    dead_after: float
    options: DaskRun


def submit(
    client: Client,
    call: Call[R],
    *,
    run_id: str,
    store: str | os.PathLike[str] | None = None,
    dead_after: float = DEAD_AFTER,
    workers: str | Iterable[str] | None = None,
    resources: Mapping[str, float] | None = None,
    priority: int = 0,
    **options: Unpack[DaskRun],
) -> Future[R]:
    """Have a Dask worker execute a run; returns Dask's future of the result.

    The run is started, or resumed if there is one with this `run_id`; the result of a completed
    one is returned. Submitting it again while it is under way gives a future of the same task;
    after a failure, it is resumed.

    Workers open the `store` by its URL. None is each worker's own default store,
    `$HOLDFAST_STORE`, so that no password is sent. `workers`, `resources` and `priority` are those
    of `Client.submit`, `dead_after` is that of an `Engine`, and all other options are those of
    `Engine.run`.

    Raises `StoreURLError` for a store that workers can't share, and `ValueError` for a flow that
    can't be imported by name. What a worker can't import, `FlowMissingError`, is raised by the
    future, and so is what `Engine.run` raises. In both cases nothing was started.
    """
    check_options("submit", options, DaskRun.__annotations__)
    take_call("submit", call)
    check_id("run_id", run_id)
    check_dead_after(dead_after)
    url = resolved(store)
    check_shared(url)
    sent = _Sent(
        name_of(call.flow),
        pickle.dumps(call.inputs),
        run_id,
        None if store is None else url,
        place_of(url),
        dead_after,
        options,
    )
    future: Future[R] = client.submit(
        _execute,
        pickle.dumps(sent),
        key=_free_key(client, call.flow.name, run_id, url),
        workers=workers,
        resources=dict(resources or {}) or None,
        priority=priority,
    )
    return future


def _free_key(client: Client, flow: str, run_id: str, url: str) -> tuple[str, ...]:
    """The key of a run's task. One that has failed or was cancelled keeps its own."""
    group = f"holdfast:{flow}"  # what the dashboard shows
    store = hashlib.sha256(url.encode()).hexdigest()[:12]
    for number in count(1):
        key = (group, run_id, store) if number == 1 else (group, run_id, store, str(number))
        known = client.futures.get(key)
        if known is None or known.status in ("pending", "finished"):
            break
    return key


# --- on the worker


def _execute(sent: bytes) -> Any:
    """Execute the run that was sent. Everything that may be wrong is found before it is started."""
    what: _Sent = pickle.loads(sent)
    here = this_worker()
    flow = what.flow.load(here)
    url = resolved(what.store)
    check_shared(url)
    check_same(url, what.place, here)
    engine = _engines.get(url, what.dead_after)
    if not engine.checkpointer.store.shared:
        raise StoreURLError(url, "only one process can use this store")
    call = Call(flow, pickle.loads(what.inputs), source=what.flow.source)
    token = ON_WORKER.set(True)
    try:
        return engine.run_sync(call, run_id=what.run_id, resume=True, **what.options)
    except Exception as error:  # noqa: BLE001 - it is raised below
        failed = portable_error(error)
    finally:
        ON_WORKER.reset(token)
    raise failed


class _Engines:
    """One engine per process and store. They are open until the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[tuple[int, str, float], Engine] = {}

    def get(self, url: str, dead_after: float) -> Engine:
        """The engine for a store, made on first use."""
        key = (os.getpid(), url, dead_after)
        with self._lock:
            if key not in self._made:
                self._made[key] = Engine(url, dead_after=dead_after)
            return self._made[key]


_engines = _Engines()
