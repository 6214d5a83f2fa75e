"""Conditions and templates: what they say of a state, and what they refuse to guess."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.pipeline.conditions import condition_of
from holdfast.pipeline.problems import Problems
from holdfast.pipeline.references import Scope, Template
from holdfast.pipeline.registry import Registry

STATE = {
    "pipeline_input": {"limit": 3, "name": "kelp"},
    "steps": {"a": {"n": 5, "text": "hello", "items": [{"id": "x"}], "none": None}, "b": [1, 2]},
}
SCOPE = Scope(STATE, {"limit": 1, "unit": "cm"})
STEPS = ("a", "b", "never")


def holds(source: str, operator: str, value: Any = None, **more: Any) -> bool:
    config = {"source": source, "operator": operator, "value": value, **more}
    problems = Problems()
    given = {"type": "expression", "config": config}
    found = condition_of(given, STEPS, Registry(), problems)
    problems.settle("the condition")
    return found.holds(SCOPE)


@pytest.mark.parametrize(
    ("source", "operator", "value", "expected"),
    [
        ("a.n", "equals", 5, True), ("a.n", "==", 6, False), ("a.none", "equals", None, True),
        ("a.n", "not_equals", 6, True), ("a.n", "!=", 5, False),
        ("a.n", "greater_than", 4, True), ("a.n", ">", 5, False),
        ("a.n", "greater_than_or_equal", 5, True), ("a.n", ">=", 6, False),
        ("a.n", "less_than", 6, True), ("a.n", "<", 5, False),
        ("a.n", "less_than_or_equal", 5, True), ("a.n", "<=", 4, False),
        ("a.n", "in", [4, 5], True), ("a.n", "not_in", [4, 5], False),
        ("a.text", "in", "say hello", True),
        ("b", "contains", 2, True), ("b", "not_contains", 2, False), ("a.text", "contains", "ell", True),
        ("a.text", "startswith", "he", True), ("a.n", "startswith", 5, True), ("a.text", "endswith", "x", False),
        ("a.text", "regex", "^h.{3}o$", True), ("a.text", "regex", "l+", True), ("a.text", "regex", "^l", False),
        ("a.n", "exists", None, True), ("a.m", "exists", None, False), ("never.x", "not_exists", None, True),
        ("steps.a.output.n", "equals", 5, True), ("a.items.0.id", "equals", "x", True), ("b.1", "equals", 2, True),
        ("pipeline_input.name", "equals", "kelp", True),
        ("parameters.limit", "equals", 3, True), ("parameters.unit", "equals", "cm", True),
        ("a.n", "greater_than", "{{ parameters.limit }}", True), ("a.text", "equals", "{text}", False),
    ],
)  # fmt: skip
def test_a_condition_holds_or_not(source: str, operator: str, value: Any, expected: bool) -> None:
    assert holds(source, operator, value) is expected


@pytest.mark.parametrize(
    ("source", "operator", "value", "words"),
    [
        ("a.m", "equals", 1, "a.m: there is no 'm'; known are 'n', "),
        ("a.tekst", "equals", 1, "did you mean 'text'?"),
        ("never.x", "equals", 1, "step 'never' has not run"),
        ("b.7", "equals", 1, "there are only 2 items"),
        ("a.n.x", "equals", 1, "steps.a.n is of type int, and has no 'x'"),
        ("a.text", "greater_than", 3, "the condition a.text greater_than 3: "),
        ("a.n", "in", 3, "the condition a.n in 3"),
        ("b", "startswith", "x", "is not text"),
    ],
)  # fmt: skip
def test_an_undecided_condition_is_an_error_and_not_false(
    source: str, operator: str, value: Any, words: str
) -> None:
    with pytest.raises(hf.UnresolvedError) as caught:
        holds(source, operator, value)
    assert words in str(caught.value)


def test_a_default_stands_in_for_what_is_not_there() -> None:
    assert holds("never.approved", "equals", True, default=True)
    assert not holds("never.approved", "equals", True, default=False)


def test_a_parameter_is_the_input_or_its_default() -> None:
    for name, value, expected in [("limit", 3, True), ("unit", "cm", True), ("unit", "m", False)]:
        config = {"parameter": name, "value": value}
        given = {"type": "parameter", "config": config}
        found = condition_of(given, STEPS, Registry(), Problems())
        assert found.holds(SCOPE) is expected


def test_a_function_is_asked_about_a_state_and_its_errors_are_reported() -> None:
    def large(state: Any, least: int) -> bool:
        return bool(state["steps"]["a"]["n"] / state["pipeline_input"]["limit"] >= least)

    registry = Registry({"large": large})
    for least, expected in [(1, True), (2, False)]:
        config = {"function": "large", "parameters": {"least": least}}
        given = {"type": "function", "config": config}
        found = condition_of(given, STEPS, registry, Problems())
        assert found.holds(SCOPE) is expected
        assert found.words == "large()"
    nothing = Scope({**STATE, "pipeline_input": {"limit": 0}}, {})
    with pytest.raises(hf.UnresolvedError, match="ZeroDivisionError"):
        found.holds(nothing)


def test_a_function_that_is_async_is_refused() -> None:
    async def slow(state: Any) -> bool:
        return True

    problems = Problems()
    given = {"type": "function", "config": {"function": slow}}
    condition_of(given, STEPS, Registry(), problems)
    with pytest.raises(hf.InvalidFlowError, match="can't be async"):
        problems.settle("it")


def rendered(data: Any) -> Any:
    problems = Problems()
    template = Template(data, STEPS, problems)
    problems.settle("the template")
    return template.render(SCOPE)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("{{ a.n }}", 5), ("{steps.a.output.n}", 5), ("{{a.items}}", [{"id": "x"}]), ("{pipeline_input}", STATE["pipeline_input"]),
        ("{{ parameters }}", {"limit": 3, "name": "kelp", "unit": "cm"}),
        ("n is {{ a.n }}, {parameters.unit}", "n is 5, cm"),
        ("{{ a.items }} {{ a.none }}", '[{"id": "x"}] null'),
        ({"x": ["{{ b.0 }}", 3]}, {"x": [1, 3]}),
        ("plain {text} {x.n}", "plain {text} {x.n}"), ("{}", "{}"), ("", ""), (3, 3), (None, None),
    ],
)  # fmt: skip
def test_a_template_becomes_data_and_a_lone_one_keeps_its_type(data: Any, expected: Any) -> None:
    assert rendered(data) == expected
    assert type(rendered(data)) is type(expected)


def test_what_a_template_brings_in_is_not_looked_at_again() -> None:
    state = {"pipeline_input": "{{ steps.a.output }}", "steps": {"a": "secret"}}
    template = Template(["{{ pipeline_input }}", "<{pipeline_input}>"], STEPS, Problems())
    assert template.render(Scope(state, {})) == ["{{ steps.a.output }}", "<{{ steps.a.output }}>"]


@pytest.mark.parametrize(
    "text",
    ["{{ x.y }}", "{{ }}", "{{ parameters.{{ a.n }} }}", "{{ steps.a.n }}", "{{ a..n }}", "{steps.zz.output}",
     "{{ a.__class__.__mro__ }}{{ 1 + 1 }}", "{{ " + ".".join("a" * 40) + " }}"],
)  # fmt: skip
def test_what_is_no_reference_is_refused_where_it_is_defined(text: str) -> None:
    with pytest.raises(hf.InvalidFlowError):
        rendered(text)


def test_attributes_are_never_looked_up() -> None:
    with pytest.raises(hf.UnresolvedError, match="has no '__class__'"):
        rendered("{{ a.n.__class__ }}")


def test_a_text_does_not_grow_without_bounds() -> None:
    state = {"pipeline_input": "x" * 100_000, "steps": {}}
    template = Template("{pipeline_input}" * 101, STEPS, Problems())
    with pytest.raises(hf.UnresolvedError, match="a text of more than"):
        template.render(Scope(state, {}))


@given(st.text(alphabet="{} .asteps1_", max_size=200))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    problems = Problems()
    template = Template(text, STEPS, problems)
    if not problems:
        with contextlib.suppress(hf.UnresolvedError):
            template.render(SCOPE)
