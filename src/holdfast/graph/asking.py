"""Nodes that ask people: what they show of the state, and what the answer makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from holdfast.codec import values
from holdfast.engine.hints import hints_of
from holdfast.engine.questions import Inquiry
from holdfast.engine.schema import schema_of
from holdfast.engine.walking.plan import Asking
from holdfast.engine.walking.states import fields_of

Into = str | Callable[[Any, Any], Any]


def question(
    kind: Any,
    prompt: str | Callable[[Any], str],
    *,
    edit: Iterable[str],
    returns: Any,
    schema: Mapping[str, Any] | None,
    choices: Iterable[Any] | None,
    assignees: Iterable[str] | None,
    deadline: timedelta | float | datetime | None,
    default: Any,
    show: Iterable[str] | Callable[[Any], Any],
) -> Asking:
    """What a node of a graph on states of this type asks. Raises what `Inquiry` does."""
    fields = _names("edit", edit)
    shown = show if callable(show) else (*_names("show", show), *fields)
    if schema is None:
        schema = {} if returns is None else schema_of(returns)
        schema = _schema_of_fields(kind, fields) if fields else schema
    offered = None if choices is None else tuple(choices)
    said = prompt if isinstance(prompt, str) else "(depends on the state)"
    plain = Inquiry(said, schema, offered, assignees, deadline, default)

    def inquiry(state: Any) -> Inquiry:
        words = prompt if isinstance(prompt, str) else prompt(state)
        seen = shown(state) if callable(shown) else _part(state, shown)
        return Inquiry(words, plain.schema, offered, plain.assignees, deadline, default, seen)

    return Asking(inquiry, returns)


def answered(into: Into | None, edit: Iterable[str]) -> Callable[[Any, Any], Any]:
    """What a node does with its answer: puts it into a field, edits fields, or calls a function."""
    fields = _names("edit", edit)
    if (into is None) is not bool(fields):
        raise TypeError(
            "say what becomes of the answer: into= names a field of the state or is a function "
            "of the state and the answer, edit= names the fields that it may change"
        )
    if fields:
        return _edit
    return into if callable(into) else partial(_put, str(into))


def _put(field: str, state: Any, answer: Any) -> dict[str, Any]:
    return {field: answer}


def _edit(state: Any, answer: Any) -> dict[str, Any]:
    return dict(answer)


def _names(what: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise TypeError(f"{what} names fields in a list, such as [{given!r}]")
    return tuple(given)


def _part(state: Any, names: tuple[str, ...]) -> dict[str, Any] | None:
    """The fields that people may see, as data."""
    if not names:
        return None
    fields = fields_of(state)
    missing = [name for name in names if name not in fields]
    if missing:
        raise TypeError(f"the state has no field {missing[0]!r} to show")
    seen: dict[str, Any] = values.decode(values.encode({name: fields[name] for name in names}))
    return seen


def _schema_of_fields(kind: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """An object of some of these fields, and no others."""
    hints = hints_of(kind) if isinstance(kind, type) else {}
    properties = {name: schema_of(hints[name]) if name in hints else {} for name in names}
    return {"type": "object", "properties": properties, "additionalProperties": False}
