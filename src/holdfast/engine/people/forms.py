"""Answers in JSON for types that JSON lacks: `"1.50"` for a Decimal, `"2026-01-01"` for a date.

The schema of such a type names it (`STORED_AS`), because those who answer may not know the flow
and its types. `converting.py` converts what they give, before it is checked and recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from holdfast.codec.registry import Coded

STORED_AS: Final = "x-stored-as"
"""The keyword of a schema that names the type which an answer is recorded as."""
CODEC: Final = "x-codec"
"""The keyword that names the codec of the type that is asked for."""


_DATA: Final = ("const", "default", "enum", "examples", "required")  # no schemas in there


class Form(NamedTuple):
    """One type, and how it is given in JSON."""

    kind: type
    schema: dict[str, Any]
    convert: Callable[[Any], Any]  # may raise anything for what does not fit
    example: str


def form_of(kind: Any) -> dict[str, Any] | None:
    """The schema of a type that JSON lacks; None for others."""
    for name, form in FORMS.items():
        if form.kind is kind:
            return {**form.schema, STORED_AS: name}
    return None


def named(schema: Any) -> Any:
    """A model's schema in which parts with the format of such a type name it."""
    if isinstance(schema, list):
        return [named(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: part if key in _DATA else named(part) for key, part in schema.items()}
    kind = (schema.get("type"), schema.get("format"))
    for name, form in FORMS.items():
        if "format" in form.schema and kind == ("string", form.schema["format"]):
            return {**parts, STORED_AS: name}
    return parts


def codec_form(name: str, kind: type) -> dict[str, Any]:
    """The schema of a type that is stored by a codec."""
    return {"title": kind.__name__, CODEC: name}


def unlike(value: Any, schema: Mapping[str, Any]) -> str:
    """Why a converted value is not of the type that the schema names; empty if it is."""
    codec = schema.get(CODEC)
    if codec is not None and not (isinstance(value, Coded) and value.name == codec):
        kind = schema.get("title", codec)
        return (
            f"must be a {kind}, which JSON has no form for: answer from Python with one, or give "
            f'what its codec stores, {{"$codec": {{"name": "{codec}", "data": ...}}}}'
        )
    form = FORMS.get(schema.get(STORED_AS, ""))
    if form is not None and type(value) is not form.kind:
        found = repr(value) if isinstance(value, str | int | float) else type(value).__name__
        return f"must be a {form.kind.__name__} such as {form.example}, not {found[:60]}"
    return ""


def _text(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, str):
            raise TypeError(value)
        return parse(value.strip())

    return convert


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(value)
    # The shortest text of a float is what was written in JSON.
    return Decimal(value.strip() if isinstance(value, str) else repr(value))


def _complex(value: Any) -> complex:
    if isinstance(value, bool):
        raise TypeError(value)
    return complex(value)


def _duration(value: Any) -> timedelta:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    matched = _DURATION.fullmatch(value)
    if matched is None or value[-1] in "PT":
        raise ValueError(value)
    named = matched.groupdict(default="0")
    return timedelta(**{name: float(number) for name, number in named.items()})


def _members(kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, list | tuple | set | frozenset):
            raise TypeError(value)
        return kind(value)

    return convert


_DURATION: Final = re.compile(
    r"P(?:(?P<weeks>\d{1,6})W)?(?:(?P<days>-?\d{1,9})D)?(?:T(?:(?P<hours>\d{1,9})H)?"
    r"(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,9}(?:\.\d{1,6})?)S)?)?",
    re.ASCII,
)


def _as_it_is(value: Any) -> Any:
    return value


def _string(format_: str) -> dict[str, Any]:
    return {"type": "string", "format": format_}


FORMS: Final = {
    "decimal": Form(Decimal, _string("decimal"), _decimal, '"1.50"'),
    "date": Form(date, _string("date"), _text(date.fromisoformat), '"2026-01-31"'),
    "datetime": Form(
        datetime,
        _string("date-time"),
        _text(datetime.fromisoformat),
        '"2026-01-31T09:30:00+01:00"',
    ),
    "time": Form(time, _string("time"), _text(time.fromisoformat), '"09:30:00"'),
    "timedelta": Form(timedelta, _string("duration"), _duration, '"P1DT2H30M", or seconds'),
    "uuid": Form(UUID, _string("uuid"), _text(UUID), '"12345678-1234-5678-1234-567812345678"'),
    "complex": Form(complex, _string("complex"), _complex, '"1+2j"'),
    "bytes": Form(bytes, {}, _as_it_is, '{"$bytes": "aGVsbG8="} (base64)'),
    "tuple": Form(tuple, {"type": "array"}, _members(tuple), "[1, 2]"),
    "set": Form(set, {"type": "array"}, _members(set), "[1, 2]"),
    "frozenset": Form(frozenset, {"type": "array"}, _members(frozenset), "[1, 2]"),
}
