"""A form made from the JSON Schema of an answer, and the answer that a filled-in form gives.

Every field has a name: the path to its value as errors name it, such as `answer.address.city`.
Forms that send their fields as text, as browsers do, need nothing else. What has no field of its
own (arrays of objects, objects with free keys, several types) is a field of JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from holdfast.codec import readable
from holdfast.codec.values import same
from holdfast.engine.people.forms import CODEC, FORMS, STORED_AS
from holdfast.views.schemas import kind_of, resolved
from holdfast.views.values import plain

ROOT: Final = "answer"
"""The name of the field, or of the group of fields, of the whole answer."""

MOST_FIELDS: Final = 60
"""Of a form; a larger one is a field of JSON."""

_DEEPEST: Final = 4
_NOTHING: Final = object()
_YES_NO: Final = (("true", "Yes"), ("false", "No"))
_BOOLEANS: Final = (True, False)
_NUMBERS: Final = {"integer": int, "number": float}
_AS_TEXT: Final = ("decimal", "datetime", "timedelta", "uuid", "complex")

_QUOTE: Final = "'"
_FREE: Final = "JSON, or text"
_AS_JSON: Final = "JSON"

Kind = Literal[
    "text", "lines", "integer", "number", "choice", "date", "time", "json", "list", "group"
]


class Field(NamedTuple):
    """One field of a form, or a group of them."""

    name: str
    label: str
    kind: Kind
    required: bool = True
    value: str = ""  # what it shows at first
    help: str = ""
    example: str = ""
    choices: tuple[tuple[str, str], ...] = ()  # what is sent, and what is shown
    values: tuple[Any, ...] = ()  # what each choice stands for
    items: str = ""  # the type of the lines of a list
    limits: Mapping[str, str] = {}  # attributes of the control: min, max, maxlength
    fields: tuple[Field, ...] = ()  # of a group

    @property
    def decides(self) -> bool:
        """Whether it is a yes or no that must be given: two buttons, rather than a field."""
        return self.choices == _YES_NO and self.required


class FieldError(ValueError):
    """What a field has can't be read as what is asked for."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


def form_of(schema: Mapping[str, Any]) -> Field:
    """The form for an answer."""
    # Schemas may refer to their parts again and again: what is too much is never made.
    if _fields_in(schema, schema, depth=0, most=MOST_FIELDS) > MOST_FIELDS:
        return _json(ROOT, ROOT, schema, required=True)
    return _field(schema, schema, ROOT, ROOT, required=True, depth=0)


def decision(form: Field) -> Field | None:
    """The yes or no that is all a form needs, if it is: two buttons can give it."""
    if form.kind != "group":
        return form if form.decides else None
    needed = [field for field in form.fields if field.required]
    return needed[0] if len(needed) == 1 and needed[0].decides else None


def answer_from(form: Field, given: Mapping[str, str]) -> Any:
    """The answer that was filled in, as plain data. Raises `FieldError`."""
    value = _read(form, given)
    return None if value is _NOTHING else value


def at_fault(form: Field, problem: str) -> str:
    """The name of the field that a problem is about, by what it says first; else the form's."""
    names = sorted(_names(form), key=len, reverse=True)
    about = problem.removeprefix("the ")
    whole, lacks, key = about.partition(" lacks ")
    if lacks and (missing := f"{whole}.{key.strip(_QUOTE)}") in names:
        return missing
    for name in names:
        if about.startswith(name) and about[len(name) : len(name) + 1] in (" ", "[", ".", ""):
            return name
    return form.name


# --- from a schema to fields


def _fields_in(part: Any, root: Mapping[str, Any], *, depth: int, most: int) -> int:
    """How many fields a schema makes; more than `most` if it is more, and no matter how many."""
    properties = resolved(part, root).get("properties")
    found = 1
    if isinstance(properties, dict) and depth < _DEEPEST:
        for inner in properties.values():
            if found > most:
                break
            found += _fields_in(inner, root, depth=depth + 1, most=most - found)
    return found


def _field(
    part: Any, root: Mapping[str, Any], name: str, label: str, *, required: bool, depth: int
) -> Field:
    schema = resolved(part, root)
    words = _words(schema, label)
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        shown = tuple((str(at), _shown(choice)) for at, choice in enumerate(choices))
        first = [at for at, one in enumerate(choices) if same(one, schema.get("default", _NOTHING))]
        value = str(first[0]) if first else ""
        values = tuple(choices)
        return Field(
            name, words[0], "choice", required, value, words[1], choices=shown, values=values
        )
    kind, stored = kind_of(schema), schema.get(STORED_AS)
    if schema.get("const") is not None or schema.get(CODEC) is not None or stored == "bytes":
        return _json(name, label, schema, required=required)
    properties = schema.get("properties")
    if kind in ("object", None) and isinstance(properties, dict) and properties:
        if depth >= _DEEPEST or len(properties) > MOST_FIELDS:
            return _json(name, label, schema, required=required)
        needed = schema.get("required")
        needed = needed if isinstance(needed, list) else []
        inside = tuple(
            _field(inner, root, f"{name}.{key}", key, required=key in needed, depth=depth + 1)
            for key, inner in properties.items()
        )
        return Field(name, words[0], "group", required, help=words[1], fields=inside)
    if kind == "boolean":
        said = schema.get("default")
        value = str(said).lower() if isinstance(said, bool) else ""
        return Field(
            name, words[0], "choice", required, value, words[1], choices=_YES_NO, values=_BOOLEANS
        )
    if kind in _NUMBERS:
        limits = _limits(schema, min="minimum", max="maximum")
        value = _default(schema)
        which: Kind = "integer" if kind == "integer" else "number"
        return Field(name, words[0], which, required, value, words[1], limits=limits)
    items = resolved(schema.get("items"), root)
    if kind == "array" and "prefixItems" not in schema and _is_simple(items):
        of = kind_of(items) or ""
        return Field(name, words[0], "list", required, _lines(schema), words[1], items=of)
    if kind == "string" or stored in _AS_TEXT:
        return _text(schema, name, words, required=required, alone=depth == 0)
    return _json(name, label, schema, required=required)


def _text(
    schema: Mapping[str, Any], name: str, words: tuple[str, str], *, required: bool, alone: bool
) -> Field:
    stored = schema.get(STORED_AS)
    if stored in ("date", "time"):
        which: Kind = "date" if stored == "date" else "time"
        return Field(name, words[0], which, required, _default(schema), words[1])
    example = FORMS[stored].example.strip('"') if stored in FORMS else ""
    limits = _limits(schema, maxlength="maxLength", minlength="minLength")
    longest = schema.get("maxLength")
    long = stored is None and (alone or (isinstance(longest, int) and longest > 200))
    kind: Kind = "lines" if long else "text"
    return Field(name, words[0], kind, required, _default(schema), words[1], example, limits=limits)


def _json(name: str, label: str, schema: Mapping[str, Any], *, required: bool) -> Field:
    value = json.dumps(schema["default"], indent=2) if "default" in schema else ""
    title, text = _words(schema, label)
    example = _AS_JSON if schema else _FREE
    return Field(name, title, "json", required, value, text, example)


def _words(schema: Mapping[str, Any], label: str) -> tuple[str, str]:
    title, text = schema.get("title"), schema.get("description")
    named = label if label != ROOT else ""
    return (
        named or (title if isinstance(title, str) and label != ROOT else ""),
        text if isinstance(text, str) else "",
    )


def _shown(choice: Any) -> str:
    return choice if isinstance(choice, str) else json.dumps(plain(choice), ensure_ascii=False)


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    return "" if value is None else value if isinstance(value, str) else json.dumps(plain(value))


def _lines(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    return "\n".join(map(_shown, value)) if isinstance(value, list) else ""


def _limits(schema: Mapping[str, Any], **names: str) -> dict[str, str]:
    found = {to: schema.get(name) for to, name in names.items()}
    return {
        to: str(value)
        for to, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _is_simple(schema: Mapping[str, Any]) -> bool:
    """Whether an item can be a line of text."""
    return kind_of(schema) in ("string", "integer", "number") and "enum" not in schema


def _names(field: Field) -> Sequence[str]:
    return [field.name, *(name for inner in field.fields for name in _names(inner))]


# --- from what was filled in to the answer


def _read(field: Field, given: Mapping[str, str]) -> Any:
    if field.kind == "group":
        parts = {each.name[len(field.name) + 1 :]: _read(each, given) for each in field.fields}
        found = {key: part for key, part in parts.items() if part is not _NOTHING}
        return found if found or field.required else _NOTHING
    text = given.get(field.name, "").replace("\r\n", "\n")
    if not text.strip() and not (field.required and field.kind in ("text", "lines", "list")):
        if field.required:
            raise FieldError(field.name, "is missing")
        return _NOTHING
    match field.kind:
        case "choice":
            return _chosen(field, text)
        case "integer" | "number":
            return _number(field, field.kind, text)
        case "list":
            lines = [line.strip() for line in text.split("\n") if line.strip()]
            if field.items in _NUMBERS:
                return [_number(field, field.items, line) for line in lines]
            return lines
        case "json":
            return _parsed(field, text)
    return text if field.kind in ("text", "lines") else text.strip()


def _chosen(field: Field, text: str) -> Any:
    for (sent, _), value in zip(field.choices, field.values, strict=True):
        if text == sent:
            return value
    raise FieldError(field.name, "is none of the choices")


def _number(field: Field, kind: str, text: str) -> Any:
    try:
        number = _NUMBERS[kind](text.strip())
        if math.isfinite(number):
            return number
    except (ValueError, OverflowError):
        pass
    what = "a whole number" if kind == "integer" else "a number"
    raise FieldError(field.name, f"must be {what}, not {text.strip()[:60]!r}")


def _parsed(field: Field, text: str) -> Any:
    try:
        return readable.loads_data(text)
    except ValueError as error:
        if field.example == _FREE and text.strip()[:1] not in ("{", "[", '"'):
            return text
        raise FieldError(field.name, f"is not JSON: {error}") from None
