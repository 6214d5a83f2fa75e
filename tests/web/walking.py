"""Every path of an application, found by walking its routes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

READING: Final = {"GET", "HEAD"}
_PARAMETER: Final = re.compile(r"\{(\w+)(?::\w+)?\}")


class Walked(NamedTuple):
    """A path of the application, with its parameters filled in."""

    path: str
    methods: frozenset[str]
    given: frozenset[str]  # the names of its parameters

    @property
    def writing(self) -> list[str]:
        """Its methods that may change something."""
        return sorted(self.methods - READING)


def walk(
    routes: Sequence[BaseRoute], values: Mapping[str, str], before: str = ""
) -> Iterator[Walked]:
    """The paths below some routes, with these values of their parameters.

    Raises for a kind of route, and for a parameter, that nobody thought of.
    """
    for route in routes:
        if isinstance(route, Mount) and isinstance(route.app, StaticFiles):
            yield _walked(f"{before}{route.path}/{{path}}", {"GET", "HEAD"}, values)
        elif isinstance(route, Mount):
            assert route.routes, f"nobody knows what {before}{route.path} serves"
            yield from walk(route.routes, values, before + route.path)
        elif isinstance(route, Route):
            assert route.methods is not None, f"{route.path} does not say its methods"
            yield _walked(before + route.path, route.methods, values)
        else:
            raise AssertionError(f"{type(route).__name__} is a kind of route that nobody checks")


def _walked(path: str, methods: set[str], values: Mapping[str, str]) -> Walked:
    names = _PARAMETER.findall(path)
    for name in names:
        assert name in values, f"{path}: say what {name} is given"
    filled = _PARAMETER.sub(lambda found: values[found[1]], path)
    return Walked(filled, frozenset(methods), frozenset(names))
