"""The runs that this process is carrying out, so that they can be spoken to at once."""

from __future__ import annotations

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
    """Known to others of this process while it is carried out."""
    key = (id(run.core.journals.store), run.run_id)
    _runs[key] = run
    try:
        yield
    finally:
        forget(run)


@contextmanager
def claiming(core: Core, run_id: str) -> Iterator[None]:
    """Only one of this process takes a run over at a time. Raises `RunActiveError`."""
    key = (id(core.journals.store), run_id)
    if key in _runs or key in _claiming:
        raise RunActiveError(run_id, Status.RUNNING)
    _claiming.add(key)
    try:
        yield
    finally:
        _claiming.discard(key)


@contextmanager
def starting(core: Core, run_id: str) -> Iterator[None]:
    """Nobody else of this process takes a run over while it is opened: the store says who opens it."""
    key = (id(core.journals.store), run_id)
    first = key not in _claiming
    _claiming.add(key)
    try:
        yield
    finally:
        if first:
            _claiming.discard(key)


def forget(run: Run) -> None:
    """It is not carried out any more, though its task has not noticed yet."""
    key = (id(run.core.journals.store), run.run_id)
    if _runs.get(key) is run:
        del _runs[key]


def find(core: Core, run_id: str) -> Run | None:
    """The run of this id in this store, if it is carried out here."""
    return _runs.get((id(core.journals.store), run_id))


def is_executed_here(run_id: str) -> bool:
    """Whether a run of this id is carried out here, or about to be, in whatever store."""
    return any(name == run_id for _, name in (*_runs, *_claiming))
