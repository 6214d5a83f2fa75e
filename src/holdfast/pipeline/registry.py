"""What definitions may name: functions and kinds of steps, and the services that steps use."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from holdfast.pipeline.problems import Nearest, WrongError, shown

T = TypeVar("T", bound=Callable[..., Any])

_PATH: Final = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z]\w*)*[.:][A-Za-z]\w*", re.ASCII)


class Registry:
    """The functions and `Step` classes that a definition may name.

    A definition is data, and may come from anywhere: it can only call what the program put in
    here. With `imports`, it may also name `package.module:function` below these prefixes; what a
    module there has imported from elsewhere is not among them.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        *,
        imports: Iterable[str] = (),
    ) -> None:
        if isinstance(imports, str):
            raise TypeError(f"imports is a list of prefixes, such as [{imports!r}]")
        self._known: dict[str, Callable[..., Any]] = {}
        self._imports = tuple(imports)
        for prefix in self._imports:
            if not all(part.isidentifier() for part in prefix.split(".")):
                raise ValueError(f"imports: {prefix!r} is not the name of a package or module")
        for name, fn in (functions or {}).items():
            self.register(name, fn)

    def register(self, name: str, fn: Callable[..., Any]) -> None:
        """Let definitions name a function or a `Step` class. A name is taken once."""
        given: object = name
        if not isinstance(given, str) or not given:
            raise TypeError(f"a name must be text, not {name!r}")
        if not callable(fn):
            raise TypeError(f"{name!r} must be a function or a Step class, not {fn!r}")
        if self._known.get(name, fn) is not fn:
            raise ValueError(f"there is another {name!r} already")
        self._known[name] = fn

    def __call__(self, fn: T) -> T:
        """Register under its own name: for use as a decorator."""
        self.register(fn.__name__, fn)
        return fn

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def function(self, given: object) -> Callable[..., Any]:
        """What a definition means: a function itself, a registered name, or an allowed path.

        Raises `ValueError` that says what is wrong with it.
        """
        if callable(given):
            return given
        if not isinstance(given, str):
            raise ValueError(f"must be a function or the name of one, not {shown(given)}")
        if given in self._known:
            return self._known[given]
        if not _PATH.fullmatch(given):
            raise WrongError(
                f"nothing is registered as {shown(given)}", Nearest(given, self._known)
            )
        return self._imported(given)

    def _imported(self, path: str) -> Callable[..., Any]:
        module, _, name = path.replace(":", ".").rpartition(".")
        if not self._allows(module):
            allowed = ", ".join(map(repr, self._imports)) or "none"
            raise WrongError(
                f"{path!r} is not registered, and may not be imported (allowed: {allowed})",
                Nearest(path, self._known),
            )
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"{path!r} can't be imported: {error}") from None
        if not callable(found) or not self._allows(getattr(found, "__module__", None) or ""):
            raise ValueError(f"{path!r} is not a function or class of {module!r} itself")
        return found  # type: ignore[no-any-return]

    def _allows(self, module: str) -> bool:
        return any(module == prefix or module.startswith(f"{prefix}.") for prefix in self._imports)

    def name_of(self, fn: Callable[..., Any]) -> str:
        """What a definition calls it. Raises `ValueError` if nothing does."""
        for name, known in self._known.items():
            if known is fn:
                return name
        module, name = getattr(fn, "__module__", ""), getattr(fn, "__qualname__", "")
        path = f"{module}:{name}"
        if not _PATH.fullmatch(path):
            raise ValueError(f"{fn!r} has no name that a definition could load it by: register it")
        return path


def registry_of(given: Registry | Mapping[str, Callable[..., Any]] | None) -> Registry:
    """A registry, from whatever a caller gives."""
    return given if isinstance(given, Registry) else Registry(given)


class ServiceRegistry:
    """What steps use and no checkpoint keeps: clients, connections, loggers; by name."""

    def __init__(self, services: Mapping[str, Any] | None = None) -> None:
        self._services: dict[str, Any] = dict(services or {})

    def register(self, name: str, service: Any) -> None:
        """Let steps use a service under this name; the newest of a name counts."""
        self._services[name] = service

    def get(self, name: str, default: Any = None) -> Any:
        """The service of this name, or the default."""
        return self._services.get(name, default)

    def __getitem__(self, name: str) -> Any:
        try:
            return self._services[name]
        except KeyError:
            raise KeyError(f"no service {name!r}{Nearest(name, self._services)}") from None

    def has(self, name: str) -> bool:
        """Whether there is such a service."""
        return name in self._services

    __contains__ = has

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServiceRegistry) and self._services == other._services

    __hash__ = object.__hash__
