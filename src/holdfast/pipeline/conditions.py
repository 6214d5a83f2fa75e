"""Conditions of paths. Operators are looked up in tables; nothing is evaluated."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from typing import Any, Final

from holdfast.engine.functions import is_async
from holdfast.engine.people.patterns import pattern
from holdfast.errors import UnresolvedError
from holdfast.pipeline import references
from holdfast.pipeline.problems import Problems, shown
from holdfast.pipeline.references import Reference, Scope, Template
from holdfast.pipeline.registry import Registry

_LONGEST: Final = 60  # characters of a value in a message


def _text(value: Any) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise TypeError(f"{shown(value)} is not text")


def _regex(actual: Any, expected: Any) -> bool:
    if not isinstance(expected, str):
        raise TypeError(f"{shown(expected)} is not a pattern")
    return pattern(expected).found_in(_text(actual))


OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "equals": operator.eq,
    "not_equals": operator.ne,
    "greater_than": operator.gt,
    "greater_than_or_equal": operator.ge,
    "less_than": operator.lt,
    "less_than_or_equal": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "in": lambda actual, expected: actual in expected,
    "not_in": lambda actual, expected: actual not in expected,
    "contains": lambda actual, expected: expected in actual,
    "not_contains": lambda actual, expected: expected not in actual,
    "startswith": lambda actual, expected: _text(actual).startswith(_text(expected)),
    "endswith": lambda actual, expected: _text(actual).endswith(_text(expected)),
    "regex": _regex,
}
ABOUT_PRESENCE: Final = ("exists", "not_exists")


class Condition(ABC):
    """Whether a path is taken."""

    words = ""  # what it asks for, for people to read; empty: nothing

    @abstractmethod
    def holds(self, scope: Scope) -> bool:
        """Whether it is true. Raises `UnresolvedError` where that can't be decided."""

    @abstractmethod
    def to_dict(self, registry: Registry) -> dict[str, Any]:
        """Its definition. Raises `ValueError` for a function without a name."""


class _Always(Condition):
    def holds(self, scope: Scope) -> bool:
        return True

    def to_dict(self, registry: Registry) -> dict[str, Any]:
        return {"type": "always"}


ALWAYS: Final = _Always()
UNREADABLE: Final = _Always()  # there is a problem with it: nothing is concluded from it


class _Comparison(Condition):
    """A value compared with another."""

    def __init__(self, kind: str, config: Mapping[str, Any], source: Reference, expected: Template):
        self._kind = kind
        self._config = dict(config)
        self._source = source
        self._expected = expected
        self._operator: str = config.get("operator", "equals")
        self.words = f"{source.text} {self._operator}"
        if self._operator not in ABOUT_PRESENCE:
            self.words += f" {shown(config.get('value'), _LONGEST)}"

    def holds(self, scope: Scope) -> bool:
        presence = self._operator in ABOUT_PRESENCE
        try:
            actual = self._source.look_up(scope)
        except UnresolvedError:
            if presence:
                return self._operator == "not_exists"
            if "default" not in self._config:
                raise
            actual = self._config["default"]
        if presence:
            return self._operator == "exists"
        expected = self._expected.render(scope)
        try:
            return bool(OPERATORS[self._operator](actual, expected))
        except (TypeError, ValueError) as error:
            raise UnresolvedError(f"the condition {self.words}", str(error)) from None

    def to_dict(self, registry: Registry) -> dict[str, Any]:
        return {"type": self._kind, "config": {**self._config, "operator": self._operator}}


class _Function(Condition):
    """What a function of the program returns."""

    def __init__(self, fn: Callable[..., Any], parameters: Mapping[str, Any]) -> None:
        self._fn = fn
        self._parameters = dict(parameters)
        self.words = f"{getattr(fn, '__name__', 'function')}()"

    def holds(self, scope: Scope) -> bool:
        state = {root: deepcopy(scope.plain(root)) for root in references.ROOTS}
        try:
            return bool(self._fn(state, **deepcopy(self._parameters)))
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            raise UnresolvedError(f"the condition {self.words}", words) from error

    def to_dict(self, registry: Registry) -> dict[str, Any]:
        config: dict[str, Any] = {"function": registry.name_of(self._fn)}
        if self._parameters:
            config["parameters"] = self._parameters
        return {"type": "function", "config": config}


_KEYS: Final = {
    "always": (),
    "expression": ("source", "operator", "value", "default"),
    "parameter": ("parameter", "operator", "value", "default"),
    "function": ("function", "parameters"),
}


def condition_of(
    given: Any, steps: Collection[str], registry: Registry, problems: Problems
) -> Condition:
    """The condition that a definition describes; what is wrong with it goes into `problems`."""
    if given is None:
        return ALWAYS
    if not problems.is_a(Mapping, given, "a mapping with a type"):
        return UNREADABLE
    problems.keys(given, ("type", "config"))
    kind, config = given.get("type", "always"), given.get("config", {})
    if not problems.at("type").one_of(_KEYS, kind, "condition"):
        return UNREADABLE
    problems = problems.at("config")
    if not problems.is_a(Mapping, config, "a mapping"):
        return UNREADABLE
    problems.keys(config, _KEYS[kind])
    if kind == "always":
        return ALWAYS
    if kind == "function":
        return _function(config, registry, problems)
    return _comparison(kind, config, steps, problems)


def _comparison(
    kind: str, config: Mapping[str, Any], steps: Collection[str], problems: Problems
) -> Condition:
    key = "source" if kind == "expression" else "parameter"
    name, value = config.get(key), config.get("value")
    try:
        text = f"parameters.{name}" if kind == "parameter" and isinstance(name, str) else name
        source = references.parse(text, steps)
    except ValueError as error:
        problems.at(key).add(error)
        return UNREADABLE
    wanted = config.get("operator", "equals")
    if not problems.at("operator").one_of((*OPERATORS, *ABOUT_PRESENCE), wanted, "operator"):
        return UNREADABLE
    if wanted not in ABOUT_PRESENCE and "value" not in config:
        problems.add(f"{wanted!r} needs a value to compare with")
    if wanted != "regex":
        expected = Template(value, steps, problems.at("value"))
        return _Comparison(kind, config, source, expected)
    try:
        _regex("", value)
    except (TypeError, ValueError) as error:
        problems.at("value").add(f"{shown(value)} can't be used as a pattern: {error}")
        return UNREADABLE
    return _Comparison(kind, config, source, Template.literal(value))  # braces are counts there


def _function(config: Mapping[str, Any], registry: Registry, problems: Problems) -> Condition:
    parameters = config.get("parameters", {})
    if not problems.at("parameters").is_a(Mapping, parameters, "a mapping"):
        return UNREADABLE
    try:
        fn = registry.function(config.get("function"))
    except ValueError as error:
        problems.at("function").add(error)
        return UNREADABLE
    if is_async(fn):
        problems.at("function").add("can't be async: let a step find out what it needs to know")
    return _Function(fn, parameters)
