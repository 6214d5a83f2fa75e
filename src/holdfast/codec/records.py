"""Types with named fields: dataclasses, pydantic models, TypedDicts, NamedTuples."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, get_origin

from holdfast.codec.fields import has_default, is_stored, stored_fields
from holdfast.codec.paths import Misplaced, key_step

Convert = Callable[[Any], Any]
"""Turns plain data into one type. Raises `Misplaced` where it does not fit."""

Compile = Callable[[Any], Convert]
"""Makes the converter for a type hint."""


class Ready(NamedTuple):
    """A field that is converted already."""

    value: Any


def record(kind: Any, args: tuple[Any, ...], compile_hint: Compile) -> Convert | None:
    """The converter for a class with named fields, given its type arguments; None for others."""
    if hasattr(kind, "model_validate"):
        return _model(kind)
    fields = Fields(kind, args, compile_hint)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, fields)
    if hasattr(kind, "__required_keys__"):
        return _typed_dict(kind, fields)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple(kind, fields)
    return None


def stored_names(kind: Any) -> set[str] | None:
    """The keys of the dict that an instance is stored as; None when it is not stored as one."""
    if dataclasses.is_dataclass(kind):
        return set(stored_fields(kind))
    if hasattr(kind, "model_validate"):
        return set(getattr(kind, "model_fields", ()))
    if hasattr(kind, "__required_keys__"):
        return {*kind.__required_keys__, *kind.__optional_keys__}
    return None


def made(kind: Any, *args: Any, **fields: Any) -> Any:
    """Call the caller's class. Raises `Misplaced` with the reason if it refuses."""
    try:
        return kind(*args, **fields)
    except Exception as error:
        raise _refused(kind, error) from error


def _refused(kind: Any, error: Exception) -> Misplaced:
    return Misplaced(f"{kind.__name__} refused the stored data: {error}")


def is_made(kind: type, stored: type, data: object) -> bool:
    """Whether the data is an instance already, not what one is stored as. Raises for others."""
    if type(data) is stored:
        return False
    if isinstance(data, kind):
        return True
    raise misfit(kind.__name__, data)


def misfit(expected: str, data: object) -> Misplaced:
    """The error for data of another type."""
    return Misplaced(f"expected {expected}, found {type(data).__name__}", fits=False)


class Fields:
    """The hints of a class and their converters, made at first use: a class may name itself."""

    def __init__(self, kind: Any, args: tuple[Any, ...], compile_hint: Compile) -> None:
        self._kind = kind
        self._arguments = dict(zip(getattr(kind, "__parameters__", ()), args, strict=False))
        self._compile = compile_hint
        self._hints: dict[str, Any] | None = None
        self._converters: dict[str, Convert] | None = None

    def hints(self) -> dict[str, Any]:
        """The resolved hints, with the arguments put in for the type variables of the class."""
        if self._hints is None:
            try:
                hints = typing.get_type_hints(self._kind, include_extras=True)
            except (NameError, TypeError, AttributeError, SyntaxError) as error:
                raise Misplaced(
                    f"the type hints of {self._kind.__name__} can't be resolved ({error}); define "
                    "what they name in the same module, outside functions and TYPE_CHECKING"
                ) from error
            self._hints = {name: self._fill_in(hint) for name, hint in hints.items()}
        return self._hints

    def converters(self) -> dict[str, Convert]:
        """What makes of each field that has a hint what that asks for."""
        if self._converters is None:
            self._converters = {name: self._compile(h) for name, h in self.hints().items()}
        return self._converters

    def convert(self, data: dict[str, Any]) -> dict[str, Any]:
        """The fields as their hints ask for; those without a hint as they are."""
        known, converted = self._converters or self.converters(), {}
        key: Any = None
        try:
            for key, item in data.items():
                convert = known.get(key)
                if type(item) is Ready:
                    converted[key] = item.value
                else:
                    converted[key] = item if convert is None else convert(item)
        except Misplaced as misplaced:
            misplaced.under(key_step(key))
            raise
        return converted

    def _fill_in(self, hint: Any) -> Any:
        if isinstance(hint, TypeVar):
            return self._arguments.get(hint, hint)
        parameters = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
        return hint[tuple(self._arguments.get(p, p) for p in parameters)] if parameters else hint


def _dataclass(kind: Any, types: Fields) -> Convert:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    needed = [field.name for field in fields.values() if field.init and not has_default(field)]
    unsaved = {field.name for field in fields.values() if not is_stored(field)}
    set_later = [field.name for field in fields.values() if not field.init]

    def check(data: Any) -> None:
        for key in (key for key in data if key not in fields):
            raise Misplaced(
                f"{kind.__name__} has no such field, and dropping it would lose data", fits=False
            ).under(key_step(key))
        for key in (key for key in needed if key not in data):
            raise Misplaced(
                f"{kind.__name__} needs this field, but it was not stored; give it a default"
            ).under(key_step(key))

    def convert(data: Any) -> Any:
        if type(data) is not dict and is_made(kind, dict, data):
            return data
        if unsaved:  # it may have been stored before the field was marked
            data = {key: item for key, item in data.items() if key not in unsaved}
        if data.keys() != fields.keys():
            check(data)
        given = types.convert(data)
        if not set_later:
            try:
                return kind(**given)  # as `made` does: the state of every step comes this way
            except Exception as error:
                raise _refused(kind, error) from error
        later = {key: given.pop(key) for key in set_later if key in given}
        revived = made(kind, **given)
        for key, item in later.items():
            object.__setattr__(revived, key, item)  # works for frozen classes too
        return revived

    return convert


def _model(kind: Any) -> Convert:
    # Fields are stored by name, but models that declare aliases take only those unless told.
    by_name = "by_name" in inspect.signature(kind.model_validate).parameters
    options = {"by_alias": True, "by_name": True} if by_name else {}

    def convert(data: Any) -> Any:
        try:
            return kind.model_validate(data, **options)
        except Exception as error:
            first = next(iter(error.errors()), None) if hasattr(error, "errors") else None
            reason = str(error) if first is None else first["msg"]
            misplaced = Misplaced(f"{kind.__name__} refused the stored data: {reason}")
            for part in reversed(first["loc"] if first is not None else ()):
                misplaced.under(key_step(part))
            raise misplaced from error

    return convert


def _typed_dict(kind: Any, types: Fields) -> Convert:
    @lru_cache(maxsize=1)
    def required() -> frozenset[str]:
        # With postponed annotations the class itself takes every key for a required one.
        origins = {name: get_origin(hint) for name, hint in types.hints().items()}
        return frozenset(
            name
            for name, origin in origins.items()
            if origin is typing.Required
            or (origin is not typing.NotRequired and name in kind.__required_keys__)
        )

    def convert(data: Any) -> Any:
        if type(data) is not dict:
            raise misfit(kind.__name__, data)
        for name in sorted(required() - data.keys()):
            raise Misplaced(
                f"{kind.__name__} needs this key, but it was not stored; make it NotRequired"
            ).under(key_step(name))
        return types.convert(data)

    return convert


def _named_tuple(kind: Any, types: Fields) -> Convert:
    names = kind._fields
    least = len(names) - len(kind._field_defaults)

    def convert(data: Any) -> Any:
        if is_made(kind, tuple, data):
            return data
        if not least <= len(data) <= len(names):
            raise Misplaced(
                f"{kind.__name__} has {len(names)} fields, but {len(data)} were stored; "
                "give new fields a default, and keep old ones"
            )
        return made(kind, **types.convert(dict(zip(names, data, strict=False))))

    return convert
