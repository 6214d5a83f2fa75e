"""How an endpoint is declared: where it is, what it takes and what it answers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from holdfast.model import MAX_ID_BYTES, check_id
from holdfast.views import times
from holdfast.web.live import Live
from holdfast.web.site import Site

Schema = Mapping[str, Any]

JSON: Final = "application/json"
LONGEST: Final = 2048
"""Characters of a text that is a parameter; ids are shorter."""


_NAME: Final = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$"  # no control characters
_FORMS: Final = ("pattern", "format", "anyOf")  # which text it may be


class Field(NamedTuple):
    """A parameter, or a field of a body."""

    name: str
    schema: Schema
    text: str
    required: bool = False
    default: Any = None
    parse: Callable[[Any], Any] | None = None  # what becomes of it; raises `ValueError`

    @property
    def checked_first(self) -> Schema:
        """The part of its schema that is checked before it is parsed."""
        return {name: part for name, part in self.schema.items() if name not in _FORMS}


class Call(NamedTuple):
    """One request."""

    site: Site
    live: Live
    who: str | None  # the name of the token that it came with
    url: Callable[..., str]  # of the same endpoint, with other parameters


class Endpoint(NamedTuple):
    """One thing that the API can do."""

    method: Literal["GET", "POST"]
    path: str  # below `PREFIX`
    call: Callable[..., Any]  # with a `Call`, and what it takes by name
    answer: Schema
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] = ()
    writes: bool = False
    media: str = JSON

    @property
    def name(self) -> str:
        """Its name in the OpenAPI document."""
        return self.call.__name__

    @property
    def text(self) -> str:
        """What it does: the first line is its summary."""
        return inspect.getdoc(self.call) or ""

    @property
    def in_path(self) -> tuple[Field, ...]:
        """What is in its path."""
        return tuple(_IN_PATHS[name] for name in re.findall(r"{(\w+)}", self.path))

    @property
    def fails_with(self) -> tuple[int, ...]:
        """The statuses of problems that it may answer with, besides those that all have."""
        found = [400] if self.query or self.in_path or self.body else []
        found += [404] if self.in_path or self.body else []
        return (*found, *((403, 409, 413, 415, 422) if self.writes else ()))


def get(
    path: str, answer: Schema, *query: Field, media: str = JSON
) -> Callable[[Callable[..., Any]], Endpoint]:
    """Declare an endpoint that reads."""
    return lambda call: Endpoint("GET", path, call, answer, query, media=media)


def post(path: str, answer: Schema, *body: Field) -> Callable[[Callable[..., Any]], Endpoint]:
    """Declare an endpoint that writes."""
    return lambda call: Endpoint("POST", path, call, answer, body=body, writes=True)


def text(name: str, what: str, **more: Any) -> Field:
    """A text."""
    schema = {"type": "string", "maxLength": LONGEST, "pattern": "^[^\\u0000]*$"}
    return Field(name, schema | more.pop("schema", {}), what, **more)


def identity(name: str, what: str, **more: Any) -> Field:
    """The id of something, or the name of somebody."""
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_ID_BYTES, "pattern": _NAME}
    return Field(name, schema, what, parse=partial(check_id, name), **more)


def moment(name: str, what: str, *, required: bool = False) -> Field:
    """A point in time."""
    forms = {"anyOf": [{"pattern": "^[1-9][0-9]{0,3}[smhdw]$"}, {"format": "date-time"}]}
    return text(name, what, required=required, parse=times.point, schema=forms)


def flag(name: str, what: str, *, default: bool = False) -> Field:
    """True or false."""
    return Field(name, {"type": "boolean", "default": default}, what, default=default)


def number(name: str, what: str, *, least: int, most: int, **more: Any) -> Field:
    """A whole number."""
    schema: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": most}
    if more.get("default") is not None:
        schema["default"] = more["default"]
    return Field(name, schema, what, **more)


def several(name: str, items: Schema, what: str, **more: Any) -> Field:
    """Any number of values: a parameter that may be repeated, or a list in a body."""
    schema = {"type": "array", "items": items, "maxItems": 100}
    return Field(name, schema, what, default=(), **more)


def limit(default: int, most: int) -> Field:
    """How many things a list has."""
    return number("limit", "At most so many.", least=1, most=most, default=default)


MOST_SEQ: Final = (1 << 53) - 1
"""No run has so many entries."""

SEQ: Final = number(
    "seq", "The number of a checkpoint in its run.", least=0, most=MOST_SEQ, required=True
)
RUN_ID: Final = identity("run_id", "The id of a run, percent-encoded.", required=True)
STEP: Final = text("step", "The key or name of a step, percent-encoded.", required=True)
_IN_PATHS: Final[Mapping[str, Field]] = {one.name: one for one in (RUN_ID, SEQ, STEP)}


def described(fields: Sequence[Field]) -> Schema:
    """The schema of an object with these fields, and no others."""
    return {
        "type": "object",
        "properties": {one.name: {**one.schema, "description": one.text} for one in fields},
        "required": [one.name for one in fields if one.required],
        "additionalProperties": False,
    }
