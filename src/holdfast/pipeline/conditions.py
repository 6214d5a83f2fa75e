"""When a path is taken: always, or if something holds. Looked up in tables, never evaluated."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.engine.functions import is_async
from holdfast.engine.people.patterns import pattern
from holdfast.errors import UnresolvedError
from holdfast.pipeline import references
from holdfast.pipeline.problems import Nearest, Problems, Where, shown
from holdfast.pipeline.references import Reference, Scope, Template
from holdfast.pipeline.registry import Registry

_LONGEST: Final = 60  # characters of a value in words


def _text(value: Any) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise TypeError(f"{shown(value)} is no text")


def _regex(actual: Any, expected: Any) -> bool:
    if not isinstance(expected, str):
        raise TypeError(f"{shown(expected)} is no pattern")
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

    @abstractmethod
    def holds(self, scope: Scope) -> bool:
        """Whether it holds. Raises `UnresolvedError` where that can't be told."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What it asks for, to be read by people."""

    @abstractmethod
    def to_dict(self, registry: Registry) -> dict[str, Any]:
        """The definition it was made of."""


class Always(Condition):
    """Holds."""

    def holds(self, scope: Scope) -> bool:
        """True."""
        return True

    @property
    def words(self) -> str:
        """Nothing."""
        return ""

    def to_dict(self, registry: Registry) -> dict[str, Any]:
        """The definition."""
        return {"type": "always"}


ALWAYS: Final = Always()
UNREADABLE: Final = Always()  # something is wrong with it: nothing is concluded from it


@dataclass(frozen=True, slots=True)
class Comparison(Condition):
    """A value compared with another."""

    source: Reference
    operator: str
    value: Any  # as it was given
    expected: Template
    default: tuple[Any, ...] = ()  # what counts where there is no such value; empty: an error
    parameter: str | None = None

    def holds(self, scope: Scope) -> bool:
        """Whether the comparison comes out true."""
        try:
            actual = self.source.look_up(scope)
        except UnresolvedError:
            if self.operator in ABOUT_PRESENCE:
                return self.operator == "not_exists"
            if not self.default:
                raise
            actual = self.default[0]
        if self.operator in ABOUT_PRESENCE:
            return self.operator == "exists"
        expected = self.expected.render(scope)
        try:
            return bool(OPERATORS[self.operator](actual, expected))
        except (TypeError, ValueError) as error:
            raise UnresolvedError(f"the condition {self.words}", str(error)) from None

    @property
    def words(self) -> str:
        """The comparison, as a line."""
        if self.operator in ABOUT_PRESENCE:
            return f"{self.source.text} {self.operator}"
        value = repr(self.value)
        value = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
        return f"{self.source.text} {self.operator} {value}"

    def to_dict(self, registry: Registry) -> dict[str, Any]:
        """The definition."""
        config: dict[str, Any] = {"operator": self.operator}
        if self.operator not in ABOUT_PRESENCE:
            config["value"] = self.value
        if self.default:
            config["default"] = self.default[0]
        if self.parameter is not None:
            return {"type": "parameter", "config": {"parameter": self.parameter, **config}}
        return {"type": "expression", "config": {"source": self.source.text, **config}}


@dataclass(frozen=True, slots=True)
class Asks(Condition):
    """What a function of the program says."""

    fn: Callable[..., Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def holds(self, scope: Scope) -> bool:
        """What the function says about the state, a copy of its own."""
        state = {root: deepcopy(scope.get(root)) for root in references.ROOTS}
        try:
            return bool(self.fn(state, **deepcopy(dict(self.parameters))))
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            raise UnresolvedError(f"the condition {self.words}", words) from error

    @property
    def words(self) -> str:
        """The function's name."""
        return f"{getattr(self.fn, '__name__', 'function')}()"

    def to_dict(self, registry: Registry) -> dict[str, Any]:
        """The definition."""
        config: dict[str, Any] = {"function": registry.name_of(self.fn)}
        if self.parameters:
            config["parameters"] = dict(self.parameters)
        return {"type": "function", "config": config}


_KEYS: Final = {
    "always": (),
    "expression": ("source", "operator", "value", "default"),
    "parameter": ("parameter", "operator", "value", "default"),
    "function": ("function", "parameters"),
}


def condition_of(
    given: Any, steps: Collection[str], registry: Registry, problems: Problems, where: Where
) -> Condition:
    """The condition that a definition describes; what is wrong with it goes into `problems`."""
    if given is None:
        return ALWAYS
    if not problems.is_a(Mapping, given, where, "a mapping with a type"):
        return UNREADABLE
    problems.keys(given, ("type", "config"), where)
    kind = given.get("type", "always")
    if not isinstance(kind, str) or kind not in _KEYS:
        problems.say((*where, "type"), f"{shown(kind)} is no condition", Nearest(kind, _KEYS))
        return UNREADABLE
    config = given.get("config", {})
    where = (*where, "config")
    if not problems.is_a(Mapping, config, where, "a mapping"):
        return UNREADABLE
    problems.keys(config, _KEYS[kind], where)
    if kind == "always":
        return ALWAYS
    if kind == "function":
        return _function(config, registry, problems, where)
    return _comparison(kind, config, steps, problems, where)


def _comparison(
    kind: str, config: Mapping[str, Any], steps: Collection[str], problems: Problems, where: Where
) -> Condition:
    key = "source" if kind == "expression" else "parameter"
    name = config.get(key)
    try:
        text = f"parameters.{name}" if kind == "parameter" and isinstance(name, str) else name
        source = references.parse(text, steps)
    except ValueError as error:
        problems.say((*where, key), error)
        return UNREADABLE
    wanted = config.get("operator", "equals")
    known = (*OPERATORS, *ABOUT_PRESENCE)
    if not isinstance(wanted, str) or wanted not in known:
        problems.say(
            (*where, "operator"), f"{shown(wanted)} is no operator", Nearest(wanted, known)
        )
        return UNREADABLE
    value = config.get("value")
    if wanted not in ABOUT_PRESENCE and "value" not in config:
        problems.say(where, f"{wanted!r} needs a value to compare with")
    if wanted == "regex":
        try:
            _regex("", value)
        except (TypeError, ValueError) as error:
            problems.say((*where, "value"), f"{shown(value)} can't be used as a pattern: {error}")
            return UNREADABLE
    if wanted == "regex":  # braces are counts there
        expected = Template.literal(value)
    else:
        expected = Template(value, steps, problems, (*where, "value"))
    default = (config["default"],) if "default" in config else ()
    return Comparison(
        source, wanted, value, expected, default, name if kind == "parameter" else None
    )


def _function(
    config: Mapping[str, Any], registry: Registry, problems: Problems, where: Where
) -> Condition:
    parameters = config.get("parameters", {})
    if not problems.is_a(Mapping, parameters, (*where, "parameters"), "a mapping"):
        return UNREADABLE
    try:
        fn = registry.function(config.get("function"))
    except ValueError as error:
        problems.say((*where, "function"), error)
        return UNREADABLE
    if is_async(fn):
        problems.say(
            (*where, "function"), "can't be async: let a step find out what it needs to know"
        )
    return Asks(fn, dict(parameters))
