"""What a function's signature says: the types it names, and whether it is async."""

from __future__ import annotations

import importlib
import inspect
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

from holdfast.logs import logger

log = logger()


def is_async(fn: object) -> bool:
    """Whether calling it makes a coroutine."""
    while hasattr(fn, "func"):  # partial
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
        getattr(fn, "__call__", None)  # noqa: B004 - an object with `async def __call__`
    )


@dataclass(frozen=True)
class _ByName:
    """A function that a decorator has replaced under its own name, for other processes."""

    module: str
    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = getattr(found, part)
        return inspect.unwrap(found)(*args, **kwargs)


def portable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function in a form that can be pickled, also if a decorator has replaced it."""
    if inspect.ismethod(fn):
        function = portable(fn.__func__)
        return fn if function is fn.__func__ else partial(function, fn.__self__)
    name, module = getattr(fn, "__qualname__", ""), sys.modules.get(getattr(fn, "__module__", ""))
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if module is None or found is fn or getattr(found, "__wrapped__", None) is not fn:
        return fn
    return _ByName(module.__name__, name)


def hints_of(fn: Any) -> dict[str, Any]:
    """The types of a function's parameters and of its "return", without those that are `Any`."""
    if type(fn) is FunctionType and not hasattr(fn, "__wrapped__"):
        return _hints_of(fn)  # as most are
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
        around = dict(inspect.getclosurevars(fn).nonlocals)  # types of the enclosing functions
    except TypeError:
        around = {}
    try:
        hints = typing.get_type_hints(fn, localns=around, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        name = getattr(fn, "__qualname__", fn)
        log.warning("the type hints of %s can't be resolved and are ignored: %s", name, error)
        return {}
    return {name: hint for name, hint in hints.items() if hint is not Any}
