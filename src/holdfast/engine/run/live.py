"""The runs that this process executes, so that it can pass requests to them at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.errors import RunActiveError
from holdfast.kernel.core import Core
from holdfast.model import Status

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run

_runs: dict[tuple[int, str], Run] = {}
_claiming: set[tuple[int, str, object]] = set()
_lock = threading.Lock()  # of those who begin to claim


def register(run: Run) -> None:
    """Make a run known to the rest of this process: it is about to be executed."""
    _runs[_key(run.core, run.run_id)] = run


@contextmanager
def registered(run: Run) -> Iterator[None]:
    """Make a run known to the rest of this process while it is executed."""
    register(run)
    run.task = asyncio.current_task()
    try:
        yield
    finally:
        forget(run)


@contextmanager
def claiming(core: Core, run_id: str, *, opening: bool = False) -> Iterator[None]:
    """One task of this process at a time takes a run over. Raises `RunActiveError`.

    One that is `opening` the run never raises: the store decides who opens it.
    """
    key = _key(core, run_id)
    mine = (*key, object())
    with _lock:
        if not opening and (key in _runs or any(other[:2] == key for other in tuple(_claiming))):
            raise RunActiveError(run_id, Status.RUNNING)
        _claiming.add(mine)
    try:
        yield
    finally:
        _claiming.discard(mine)  # without the lock: a finalizer may come here


def forget(run: Run) -> None:
    """The run is not executed any more, though its task has not noticed yet."""
    key = _key(run.core, run.run_id)
    if _runs.get(key) is run:
        del _runs[key]


def find(core: Core, run_id: str) -> Run | None:
    """The run of this id in this store, if this process executes it."""
    return _runs.get(_key(core, run_id))


def is_executed_here(run_id: str) -> bool:
    """Whether this process executes a run of this id, or is about to, in whatever store."""
    return any(one[1] == run_id for one in (*_runs, *_claiming))


def _key(core: Core, run_id: str) -> tuple[int, str]:
    return id(core.journals.store), run_id
