"""The runs that this process executes, so that it can pass requests to them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.errors import RunActiveError
from holdfast.kernel.core import Core
from holdfast.model import Status

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run

_runs: dict[tuple[int, str], Run] = {}
_claiming: set[tuple[int, str]] = set()


@contextmanager
def registered(run: Run) -> Iterator[None]:
    """Make a run known to the rest of this process while it is executed."""
    _runs[_key(run.core, run.run_id)] = run
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
    first = key not in _claiming
    if not opening and (key in _runs or not first):
        raise RunActiveError(run_id, Status.RUNNING)
    _claiming.add(key)
    try:
        yield
    finally:
        if first:
            _claiming.discard(key)


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
    return any(name == run_id for _, name in (*_runs, *_claiming))


def _key(core: Core, run_id: str) -> tuple[int, str]:
    return id(core.journals.store), run_id
