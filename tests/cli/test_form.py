"""The form that is made from a question's schema."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli._form import fill_in
from holdfast.engine.people.fitting import problems_with


def filled(schema: dict[str, Any], *lines: str) -> Any:
    """What comes of typing these lines; fails if more are asked for."""

    @click.command()
    def form() -> None:
        click.echo("\0" + json.dumps(fill_in(schema)))

    result = CliRunner().invoke(form, input="".join(f"{line}\n" for line in lines))
    assert result.exit_code == 0, result.output
    return json.loads(result.output.rpartition("\0")[2])


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "home": {"$ref": "#/$defs/Home"},
    },
    "required": ["name", "home"],
    "$defs": {
        "Home": {
            "type": "object",
            "properties": {"city": {"type": "string", "default": "Kiel"}},
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "lines", "value"),
    [
        ({}, ["{", '{"a": [1]}'], {"a": [1]}),
        ({"type": "string"}, ["text"], "text"),
        ({"type": "string"}, ["", "", "text"], "text"),
        ({"type": "string"}, ["", '""'], ""),
        ({"type": "string", "default": ""}, [""], ""),
        ({"type": "integer"}, ["1.5", "x", "7"], 7),
        ({"type": "number"}, ["1.5"], 1.5),
        ({"type": "boolean"}, ["what", "yes"], True),
        ({"type": "boolean"}, ["", "true"], True),
        ({"type": "boolean"}, ["FALSE"], False),
        ({"type": "boolean", "default": False}, [""], False),
        ({"type": "boolean", "default": []}, ["", "y"], True),
        ({"properties": {"a": {"type": "boolean"}}}, ["true"], {"a": True}),
        ({"properties": {"a": {"type": "boolean"}}}, [""], {}),
        ({"enum": ["small", "large"]}, ["3", "large", "2"], "large"),
        ({"enum": [1, None]}, ["2"], None),
        ({"enum": ["a", "b"], "default": "b"}, [""], "b"),
        ({"type": "array", "items": {"type": "integer"}}, ["[1, 2]"], [1, 2]),
        ({"type": "null"}, ["null"], None),
        ({"type": ["string", "null"]}, ["text"], "text"),
        ({"type": ["string", "integer"]}, ['"text"'], "text"),
        ({"type": "object"}, ['{"x": 1}'], {"x": 1}),
        (PERSON, ["Ann", "", ""], {"name": "Ann", "home": {"city": "Kiel"}}),
        (PERSON, ["Ann", "41", "Rostock"], {"name": "Ann", "age": 41, "home": {"city": "Rostock"}}),
        (
            {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1]}}},
            ["", ""],
            {},
        ),
    ],
)
def test_a_form_asks_for_what_the_schema_wants(
    schema: dict[str, Any], lines: list[str], value: Any
) -> None:
    assert filled(schema, *lines) == value
    assert problems_with(value, schema) == ""


def test_what_a_schema_says_is_shown_and_harmless() -> None:
    @click.command()
    def form() -> None:
        fill_in({"type": "object", "properties": {"x\x1b[2J": {"description": "\x1b]0;owned\x07"}}})

    output = CliRunner().invoke(form, input="1\n").output
    assert "owned" in output
    assert "\x1b" not in output


def test_a_schema_that_refers_to_itself_ends_as_json() -> None:
    assert filled({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "[1]") == [1]
    endless = {
        "$defs": {"T": {"type": "object", "properties": {"t": {"$ref": "#/$defs/T"}}, "required": ["t"]}},
        "$ref": "#/$defs/T",
    }  # fmt: skip
    value = filled(endless, '"deep enough"')
    for _ in range(8):
        value = value["t"]
    assert value == "deep enough"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "properties", "enum", "anyOf", "$ref", "required", "default", "x"]),
        inner, max_size=4,
    ),
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["type", "properties", "enum", "anyOf", "default"]), _JSON))
def test_no_schema_breaks_the_form(schema: dict[str, Any]) -> None:
    @click.command()
    def form() -> None:
        fill_in(schema)

    result = CliRunner().invoke(form, input="1\n" * 50)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
