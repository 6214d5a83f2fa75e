"""The types that a function's annotations name, as far as they can be found out."""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any

log = logging.getLogger("holdfast")


def hints_of(fn: Any) -> dict[str, Any]:
    """A function's parameters and "return" with their types; without those that say nothing."""
    fn = inspect.unwrap(fn)
    while hasattr(fn, "func"):  # partial
        fn = inspect.unwrap(fn.func)
    if not hasattr(fn, "__annotations__") and callable(fn):
        fn = getattr(type(fn), "__call__", fn)  # noqa: B004 - the function behind a callable object
    try:
        return _hints_of(getattr(fn, "__func__", fn))
    except TypeError:  # can't be hashed
        return {}


@lru_cache(maxsize=1024)
def _hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(fn, localns=_around(fn), include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        name = getattr(fn, "__qualname__", fn)
        log.warning("the type hints of %s can't be resolved and are not used: %s", name, error)
        return {}
    return {name: hint for name, hint in hints.items() if hint is not Any}


def _around(fn: Callable[..., Any]) -> dict[str, Any]:
    """What the function sees of the functions around it."""
    try:
        return dict(inspect.getclosurevars(fn).nonlocals)
    except TypeError:
        return {}
