"""Nodes that ask people: what they show of the state, and what they do with the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, get_origin

from holdfast.codec import values
from holdfast.codec.records import stored_names
from holdfast.engine.functions import hints_of
from holdfast.engine.people.questions import Inquiry, QuestionOptions, inquiry_of
from holdfast.engine.people.schema import schema_of, schema_of_fields
from holdfast.engine.walking.plan import Asking
from holdfast.engine.walking.states import fields_of
from holdfast.errors.base import meant

Into = str | Callable[[Any, Any], Any]

_PLAIN: Final = (str, int, float, bool)


def question(
    kind: Any,
    prompt: str | Callable[[Any], str],
    into: Into | None,
    edit: Iterable[str],
    show: Iterable[str] | Callable[[Any], Any],
    options: QuestionOptions,
) -> Asking:
    """What a node of a graph on states of this type asks. Raises what `Inquiry` does."""
    fields = _names("edit", edit)
    shown = show if callable(show) else (*_names("show", show), *fields)
    field = into if isinstance(into, str) else None
    hint = Any if field is None else _declared(kind).get(field, Any)
    named = (*(() if field is None else (field,)), *(() if callable(shown) else shown))
    problems = (*_missing(kind, named), *_misfits(field, hint, options.get("returns")))
    given = {key for key, value in options.items() if value is not None}
    options = {**options}
    if not given & {"returns", "schema", "choices"} and schema_of(hint):
        options["returns"] = hint
    if fields and "schema" not in given:
        hints = _declared(kind)
        options["schema"] = schema_of_fields({name: hints.get(name, Any) for name in fields})
    fixed = prompt if isinstance(prompt, str) else "(depends on the state)"
    plain = inquiry_of("add_question", fixed, options)

    def inquiry(state: Any) -> Inquiry:
        words = prompt if isinstance(prompt, str) else prompt(state)
        seen = shown(state) if callable(shown) else _part(state, shown)
        return replace(plain, prompt=words, show=seen)

    return Asking(inquiry, options.get("returns"), problems)


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


def _declared(kind: Any) -> dict[str, Any]:
    """The fields of a type of states with their types, as far as they are known."""
    return hints_of(kind) if isinstance(kind, type) else {}


def _missing(kind: Any, names: tuple[str, ...]) -> Iterator[str]:
    known = stored_names(get_origin(kind) or kind)
    for name in dict.fromkeys(names):
        if known is not None and name not in known:
            near = meant(name, known)
            yield f"names {name!r}, which is not a field of {kind.__name__}{near}"


def _misfits(field: str | None, hint: Any, returns: Any) -> Iterator[str]:
    """What is wrong with the type of an answer, as far as plain types show it."""
    if hint not in _PLAIN or returns not in _PLAIN or (returns, hint) == (int, float):
        return
    if not issubclass(returns, hint):
        yield f"asks for {returns.__name__}, and {field!r} is of type {hint.__name__}"
