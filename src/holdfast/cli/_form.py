"""A form for a person, made from the JSON Schema of an answer."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import click

from holdfast.cli._show import clean, to_json
from holdfast.views.schemas import DEEPEST, kind_of, resolved

BOOLEANS: Final = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
"""What may be typed for true and false, in whatever case."""

_NOTHING: Final = object()
_EMPTY: Final = '""'
_NUMBERS: Final = {"integer": int, "number": float}


def fill_in(schema: Mapping[str, Any], label: str = "answer") -> Any:
    """Ask for an answer field by field. What can't be asked for in a form is asked for as JSON."""
    value = _ask(resolved(schema, schema), schema, label, required=True, depth=0)
    return None if value is _NOTHING else value


def _ask(
    schema: Mapping[str, Any], root: Mapping[str, Any], label: str, *, required: bool, depth: int
) -> Any:
    """One value; `_NOTHING` if it is optional and was omitted."""
    title = clean(label)
    if schema.get("description"):
        click.echo(clean(str(schema["description"])))
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return _choose(choices, title, schema, required=required)
    kind = kind_of(schema)
    properties = schema.get("properties")
    if kind in ("object", None) and isinstance(properties, dict) and depth < DEEPEST:
        needed = schema.get("required")
        needed = needed if isinstance(needed, list) else []
        answer = {}
        for name, inner in properties.items():
            within = resolved(inner, root)
            given = _ask(within, root, name, required=name in needed, depth=depth + 1)
            if given is not _NOTHING:
                answer[name] = given
        return answer
    if kind == "boolean":
        return _yes_or_no(title, schema, required=required)
    return _entered(kind, title, schema, required=required)


def _choose(choices: list[Any], title: str, schema: Mapping[str, Any], *, required: bool) -> Any:
    for number, choice in enumerate(choices, 1):
        click.echo(f"  {number}  {clean(choice) if isinstance(choice, str) else to_json(choice)}")
    given = "default" in schema and schema["default"] in choices
    default = choices.index(schema["default"]) + 1 if given else None
    if default is None and not required:
        default = 0
    lowest = 1 if required else 0
    picked: int = click.prompt(title, value_proc=partial(_number, choices, lowest), default=default)
    return choices[picked - 1] if picked else _NOTHING


def _number(choices: list[Any], lowest: int, given: Any) -> int:
    """The number of a choice that is given by its number or, if it is a text, as it is."""
    if given in choices and isinstance(given, str):
        return choices.index(given) + 1
    number: int = click.IntRange(lowest, len(choices)).convert(given, None, None)
    return number


def _yes_or_no(title: str, schema: Mapping[str, Any], *, required: bool) -> Any:
    default = schema.get("default")
    optional = not required and not isinstance(default, bool)

    def read(text: str) -> Any:
        word = text.strip().lower()
        if optional and not word:
            return _NOTHING
        if word not in BOOLEANS:
            raise click.BadParameter("answer y or n")
        return BOOLEANS[word]

    hint, usual = "[y/n]", None
    if optional:
        hint, usual = "(y/n, empty for none)", ""
    elif isinstance(default, bool):
        hint, usual = ("[Y/n]", "y") if default else ("[y/N]", "n")
    return click.prompt(f"{title} {hint}", default=usual, value_proc=read, show_default=False)


def _entered(kind: str | None, title: str, schema: Mapping[str, Any], *, required: bool) -> Any:
    """A line of text, read as what the schema asks for."""
    optional = not required and "default" not in schema

    def read(text: str) -> Any:
        if optional and not text:
            return _NOTHING
        if kind == "string":
            if not text and "default" not in schema:  # a key pressed too early is no answer
                raise click.BadParameter(f"type the text, or {_EMPTY} for an empty one")
            return "" if text == _EMPTY else text
        try:
            return _NUMBERS[kind](text) if kind in _NUMBERS else json.loads(text)
        except (ValueError, RecursionError) as error:
            raise click.BadParameter(f"not a valid {kind or 'JSON value'}: {error}") from None

    default = schema.get("default", "")
    if not isinstance(default, str) or kind != "string":
        default = to_json(default) if "default" in schema else "" if optional else None
    hint = "" if kind in ("string", *_NUMBERS) else " (JSON)"
    return click.prompt(
        f"{title}{hint}{' (may be empty)' if optional else ''}",
        default=default,
        value_proc=read,
        show_default=bool(default),
    )
