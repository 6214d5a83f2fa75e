"""The events of a run in the form that JSON has."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from datetime import UTC
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
import holdfast.events
from holdfast.codec import readable
from holdfast.codec.values import decode, encode
from holdfast.engine import events as engine_events
from holdfast.events import Event, RunCompleted, RunFailed, StepCompleted, StepEvent
from holdfast.kernel import events as kernel_events
from holdfast.workflow import ask, step, workflow
from tests.strategies import same, values

KINDS = [kind for kind in map(vars(holdfast.events).get, holdfast.events.__all__) if kind]


class Awkward:
    def __init__(self, *wrong: str) -> None:
        self.wrong = wrong

    def __repr__(self) -> str:
        if "repr" in self.wrong:
            raise ValueError("no repr")
        return "<awkward>"


class SilentError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def made(kind: type[Event], data: st.DataObject) -> Event:
    """An event of this kind with any values that its annotations allow."""
    text, small = st.text(), st.integers(0, 9)
    options: dict[str, st.SearchStrategy[Any]] = {
        "str": text,
        "str | None": st.none() | text,
        "int": small,
        "bool": st.booleans(),
        "float": st.floats(0, 10),
        "float | None": st.none() | st.floats(0, 1),
        "Any": values() | st.builds(Awkward) | st.builds(Awkward, st.just("repr")),
        "BaseException": st.builds(ValueError, text) | st.builds(SilentError),
        "datetime | None": st.none() | st.datetimes(timezones=st.just(UTC)),
        "tuple[str, ...]": st.lists(text).map(tuple),
        "dict[str, str]": st.dictionaries(text, text),
    }
    given = {
        field.name: data.draw(options[str(field.type)])
        for field in dataclasses.fields(kind)
        if not field.name.startswith("_")
    }
    return kind(**given)


def test_every_event_can_be_imported_from_holdfast_events() -> None:
    made = [*vars(engine_events).values(), *vars(kernel_events).values()]
    made_here = [kind for kind in made if isinstance(kind, type)]
    kinds = [kind for kind in made_here if issubclass(kind, Event)]
    assert {kind.__name__ for kind in kinds} == set(holdfast.events.__all__)


@given(kind=st.sampled_from(KINDS), data=st.data())
def test_every_event_has_a_json_form_whatever_it_carries(
    kind: type[Event], data: st.DataObject
) -> None:
    event = made(kind, data)
    told = json.loads(json.dumps(event.to_dict(), allow_nan=False))
    assert told["event"] == kind.__name__
    assert set(told) >= {"event", "run_id"}
    assert set(told) >= {f.name for f in dataclasses.fields(kind) if f.name[0] != "_"}


@given(values())
def test_a_result_in_the_json_form_can_be_read_back(value: Any) -> None:
    told = json.loads(json.dumps(RunCompleted("r", value).to_dict()))
    assert same(readable.from_json(told["result"]), decode(encode(value)))
    shown = StepCompleted("r", "s", "s", 0.5, 1, lambda: value).to_dict()
    assert shown["value"] == told["result"]


def test_what_cannot_be_stored_is_shown_as_python_shows_it() -> None:
    assert RunCompleted("r", Awkward()).to_dict()["result"] == "<awkward>"
    assert RunCompleted("r", Awkward("repr")).to_dict()["result"] == "<Awkward>"


def test_an_error_is_told_in_words() -> None:
    assert RunFailed("r", ValueError("no"), "s").to_dict() == {
        "event": "RunFailed",
        "run_id": "r",
        "error": "ValueError: no",
        "step": "s",
        "error_type": "ValueError",
    }
    assert RunFailed("r", SilentError()).to_dict()["error"] == "SilentError: <SilentError>"


def test_the_events_of_a_run_are_lines_of_json() -> None:
    @workflow
    def flow() -> Any:
        yield step("one").python(lambda: (1, b"x"))
        return (yield ask("Well?"))

    async def main() -> list[dict[str, Any]]:
        async with hf.Engine("memory://") as engine:
            stream = engine.stream(flow(), run_id="r")
            return [json.loads(json.dumps(event.to_dict())) async for event in stream]

    lines = asyncio.run(main())
    assert {line["run_id"] for line in lines} == {"r"}
    done = next(line for line in lines if line["event"] == "StepCompleted")
    assert readable.from_json(done["value"]) == (1, b"x")
    assert (done["step"], done["attempts"]) == ("one", 1)
    paused = {"event": "RunPaused", "run_id": "r", "questions": ["ask"], "until": None}
    assert lines[-1] == paused


def test_an_event_has_one_name() -> None:
    for kind in KINDS:
        assert kind.__name__ in holdfast.events.__all__
        assert getattr(hf.workflow, kind.__name__, kind) is kind
    assert not hasattr(hf.workflow, "WorkflowStarted")
    assert not hasattr(RunCompleted("r", 1), "workflow_id")


def test_the_reference_table_has_every_event_with_its_fields() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/events.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (`.+`) \|$", page, re.MULTILINE)
    told = {name: fields.strip("`").split("`, `") for name, _, fields in rows}
    assert told == {kind.__name__: kind.names() for kind in KINDS if kind not in (Event, StepEvent)}
