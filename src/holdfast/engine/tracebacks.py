"""Tracebacks as users see them: their own frames, without those of the engine in between."""

from __future__ import annotations

import dis
import inspect
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException
from types import TracebackType
from typing import Any, Final

from holdfast.errors import HoldfastError, StepNotAwaitedError

FULL: Final = "HOLDFAST_TRACEBACK"
"""The environment variable that turns folding off: `HOLDFAST_TRACEBACK=full`."""

_OURS: Final = ("holdfast.",)
_HOME: Final = f"{Path(__file__).parents[1]}{os.sep}"
_THEIRS: Final = (f"{_HOME}demo{os.sep}", f"{_HOME}testing{os.sep}")  # written as users write
_MACHINERY: Final = (
    "asyncio.",
    "concurrent.futures.",
    "selectors",
)  # dropped beside frames of ours
_RAISE: Final = dis.opmap["RAISE_VARARGS"]
_MOST: Final = 100  # errors in a chain of causes


def fold(error: BaseException) -> None:
    """Take the engine's frames out of an error's traceback, and out of those of its causes.

    Say `raise` afterwards: that adds no frame. An error that was raised in holdfast and is not of
    its own kind keeps its last frame there; one that was not raised on purpose keeps them all: it
    is a mistake of ours, to be found. Ctrl-C is none, wherever it strikes.
    """
    if os.environ.get(FULL) == "full":
        return
    for one in _chain(error):
        frames = list(_entries(one.__traceback__))
        ours = [_is_of(entry, _OURS) for entry in frames]
        if not any(ours):
            continue
        if ours[-1] and not isinstance(one, HoldfastError | KeyboardInterrupt):
            if isinstance(one, AssertionError) or not _is_raised_at(frames[-1]):
                continue
            ours[-1] = False
        kept: TracebackType | None = None
        for entry, dropped in reversed(list(zip(frames, _dropped(frames, ours), strict=True))):
            if not dropped:
                kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        one.__traceback__ = kept


def written(error: BaseException, fn: Callable[..., Any] | None = None) -> str:
    """An error with its traceback as text: the frames of users alone.

    If there are none, the lines of theirs that it is about: those of steps that were not awaited,
    or, if holdfast refused what the step's function `fn` returned, where that is defined. Else the
    last frame.
    """
    told = TracebackException.from_exception(error)
    if os.environ.get(FULL) != "full":
        waiting: list[TracebackException | None] = [told]
        while waiting:
            one = waiting.pop()
            if one is not None:
                theirs = [f for f in one.stack if _is_theirs(f.filename)]
                about = _about(error, fn) if one is told else []
                one.stack = StackSummary.from_list(theirs or about or one.stack[-1:])
                waiting += [one.__cause__, one.__context__, *(one.exceptions or ())]
    return "".join(told.format())


def _about(error: BaseException, fn: Callable[..., Any] | None) -> list[FrameSummary]:
    """The lines of users that an error is about which holdfast raised on purpose."""
    if isinstance(error, StepNotAwaitedError):
        return [FrameSummary(*place) for place in error.made_at]
    if not isinstance(error, HoldfastError):
        return []
    while isinstance(fn, partial):
        fn = fn.func
    code = getattr(None if fn is None else inspect.unwrap(fn), "__code__", None)
    if code is None or not _is_theirs(code.co_filename):
        return []
    return [FrameSummary(code.co_filename, code.co_firstlineno, code.co_name)]


def _is_theirs(file: str) -> bool:
    return not file.startswith(_HOME) or file.startswith(_THEIRS)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error with its causes and contexts, each once."""
    seen: dict[int, BaseException] = {}
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < _MOST:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen[id(one)] = one
            waiting += [one.__cause__, one.__context__]
    yield from seen.values()


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _dropped(frames: list[TracebackType], ours: list[bool]) -> list[bool]:
    """Which entries to drop: ours, and the machinery that leads to or from one of them."""
    dropped = list(ours)
    for places in (range(1, len(frames)), range(len(frames) - 2, -1, -1)):
        step = places.step
        for place in places:
            if dropped[place - step] and _is_of(frames[place], _MACHINERY):
                dropped[place] = True
    return dropped


def _is_raised_at(entry: TracebackType) -> bool:
    """Whether there is a `raise` statement, rather than something that went wrong."""
    return entry.tb_frame.f_code.co_code[entry.tb_lasti] == _RAISE


def _is_of(entry: TracebackType, names: tuple[str, ...]) -> bool:
    module = entry.tb_frame.f_globals.get("__name__", "")
    return isinstance(module, str) and module.startswith(names)
