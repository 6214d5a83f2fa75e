"""The schemas of what the API answers, made of the types that the documents are made of."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from holdfast.checkpoint import RunInfo, Stats
from holdfast.engine.resume.activity import Activity
from holdfast.engine.working.listing import WorkerInfo
from holdfast.operations.tally import HourTally
from holdfast.operations.timeline import Moment
from holdfast.views.health import Finding

Schema = dict[str, Any]

ANYTHING: Final[Schema] = {}
TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
FLAG: Final[Schema] = {"type": "boolean"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
_SIMPLE: Final[Mapping[Any, Schema]] = {
    str: TEXT,
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: FLAG,
    datetime: TIME,
    timedelta: {"type": "number", "description": "seconds"},
    types.NoneType: {"type": "null"},
    Any: ANYTHING,
}


def maybe(schema: Schema) -> Schema:
    """What may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def many(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def record(*optional: str, **fields: Schema) -> Schema:
    """An object with these fields, of which some may be missing."""
    return {
        "type": "object",
        "properties": fields,
        "required": [name for name in fields if name not in optional],
    }


def fields_of(kind: Any) -> dict[str, Schema]:
    """The schemas of the fields of a NamedTuple."""
    return {name: _of(hint) for name, hint in typing.get_type_hints(kind).items()}


def _of(hint: Any) -> Schema:
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_of(arg) for arg in args]}
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin in (list, tuple):
        return many(_of(args[0]))
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(args[1])}
    raise TypeError(f"no schema is known for {hint}")


def named(name: str) -> Schema:
    """A schema by its name in the OpenAPI document."""
    assert name in COMPONENTS
    return {"$ref": f"#/components/schemas/{name}"}


_ACTIVITY: Final = fields_of(Activity)

COMPONENTS: Final[dict[str, Schema]] = {
    "Run": record("orphaned", "answered", "due", **fields_of(RunInfo) | _ACTIVITY),
    "ChildRun": record(**fields_of(RunInfo)),
    "Moment": record(**fields_of(Moment)),
    "Checkpoint": record(
        "damage",
        holdfast={"const": 1},
        checkpoint_id=TEXT,
        run_id=TEXT,
        seq={"type": "integer"},
        parent_id=maybe(TEXT),
        entry_id=TEXT,
        term={"type": "integer"},
        digest=TEXT,
        step=maybe(TEXT),
        step_index=maybe({"type": "integer"}),
        type=maybe(TEXT),
        status=TEXT,
        run_status=TEXT,
        created_at=TIME,
        duration=maybe({"type": "number"}),
        size=COUNT,
        flow=maybe(TEXT),
        thread_id=maybe(TEXT),
        owner=maybe(TEXT),
        meta={"type": "object"},
        damage=TEXT,
    ),
    "Question": record(
        run_id=TEXT,
        question=TEXT,
        prompt=TEXT,
        schema=ANYTHING,
        assignees=many(TEXT),
        asked_at=TIME,
        deadline=maybe(TIME),
        default=ANYTHING,
        shown=ANYTHING,
    ),
    "Worker": record(**fields_of(WorkerInfo)),
    "Finding": record(**fields_of(Finding)),
    "Hour": record(**fields_of(HourTally)),
    "Totals": record(
        "run_id",
        **fields_of(Stats),
        store=TEXT,
        statuses={"type": "object", "additionalProperties": COUNT},
        run_id=TEXT,
    ),
    "Report": record(
        "claims",
        run_id=TEXT,
        verdict=TEXT,
        problems=many(TEXT),
        entries=COUNT,
        proved=COUNT,
        rewritten=COUNT,
        deleted=COUNT,
        claims=many({"type": "object"}),
    ),
    "Problem": record(
        "parameter",
        type=TEXT,
        title=TEXT,
        status={"type": "integer"},
        detail=TEXT,
        advice=TEXT,
        parameter=TEXT,
    ),
}
