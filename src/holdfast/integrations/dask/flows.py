"""Flows by name: a worker imports its own code, and never code that was sent to it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from holdfast.engine.flow import Flow
from holdfast.errors import FlowMissingError

_MAIN = "__main__"


class FlowName(NamedTuple):
    """Where a flow is found, and which one it must be."""

    flow: str
    version: str
    module: str
    name: str

    @property
    def source(self) -> str:
        """MODULE:NAME."""
        return f"{self.module}:{self.name}"

    def load(self, where: str) -> Flow[Any]:
        """Import the flow here. Raises `FlowMissingError`, which says that this is `where`."""
        try:
            found: Any = importlib.import_module(self.module)
            for part in self.name.split("."):
                found = getattr(found, part)
        except Exception as error:  # a module may raise anything
            reason = f"{type(error).__name__}: {error}"
            if self.module == _MAIN:
                reason += " (it is defined in the program itself: move it to a module)"
            raise self._missing(where, reason) from error
        if not isinstance(found, Flow) or found.name != self.flow:
            raise self._missing(where, f"it is {found!r} there")
        if found.version != self.version:
            reason = f"it is version {found.version} there, and version {self.version} is wanted"
            raise self._missing(where, reason)
        return found

    def _missing(self, where: str, reason: str) -> FlowMissingError:
        return FlowMissingError(self.flow, self.source, where, reason)


def name_of(flow: Flow[Any]) -> FlowName:
    """The name by which other processes import a flow. Raises `ValueError` if it has none."""
    for module in _modules(flow):
        for name, value in tuple(vars(module).items()):
            if value is flow:
                return FlowName(flow.name, flow.version, _name_of_module(module), name)
    raise ValueError(
        f"workers import flows by name, and {flow!r} has none: assign it to a variable at the top "
        "level of a module"
    )


def _modules(flow: Flow[Any]) -> Iterator[ModuleType]:
    """Where to look: first in the flow's own module, last in the program itself."""
    own = sys.modules.get(getattr(flow, "__module__", ""))
    if own is not None:
        yield own
    for name, module in tuple(sys.modules.items()):
        if name not in (_MAIN, "__mp_main__") and isinstance(module, ModuleType):
            yield module
    yield sys.modules[_MAIN]


def _name_of_module(module: ModuleType) -> str:
    """The name to import a module by: `python -m jobs` calls it `__main__`."""
    spec = getattr(module, "__spec__", None)
    if module.__name__ == _MAIN and spec is not None:
        return str(spec.name)
    return module.__name__
