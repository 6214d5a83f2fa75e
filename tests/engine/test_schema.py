"""Answers are anyone's, and schemas a flow author's: checking one against the other never hangs."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.people.fitting import MAX_CHECKS, check_schema, problems_with
from holdfast.engine.people.patterns import pattern
from holdfast.engine.people.schema import schema_of, schema_of_fields


@dataclass
class Line:
    sku: str
    size: Literal["s", "l"]
    parts: list[Line] | None = None  # of the same kind


@dataclass
class Order:
    lines: list[Line]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 2.5]) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
NUMBERS = st.sampled_from([-1, 0, 0.5, 2])
COUNTS = st.integers(0, 3)


def _schemas() -> st.SearchStrategy[Any]:
    types = st.sampled_from(
        ["null", "boolean", "integer", "number", "string", "array", "object", ["string", "null"]]
    )

    def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        several = st.lists(inner, min_size=1, max_size=3)
        by_name = st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
        return st.fixed_dictionaries(
            {},
            optional={
                "type": types, "enum": st.lists(VALUES, min_size=1, max_size=3), "const": VALUES,
                "minimum": NUMBERS, "maximum": NUMBERS, "exclusiveMinimum": NUMBERS,
                "exclusiveMaximum": NUMBERS, "minLength": COUNTS, "maxLength": COUNTS,
                "minItems": COUNTS, "maxItems": COUNTS, "items": inner, "properties": by_name,
                "pattern": st.sampled_from(["^a", "b$", "a+b", "^(a|b)*$", "aa|b{2}"]),
                "required": st.lists(st.sampled_from("xyz"), unique=True, max_size=2),
                "additionalProperties": st.booleans() | inner, "anyOf": several, "oneOf": several,
                "allOf": several, "not": inner, "title": st.just("words"),
                "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"]),
            },
        ).map(lambda schema: dict(list(schema.items())[:4]))  # fmt: skip

    return st.recursive(st.just({}) | st.booleans() | types.map(lambda t: {"type": t}), grown)


@given(
    schema=_schemas().filter(lambda schema: isinstance(schema, dict)),
    value=VALUES,
    a=st.sampled_from([{}, {"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}]),
)
def test_a_schema_means_here_what_it_means_elsewhere(
    schema: dict[str, Any], value: Any, a: dict[str, Any]
) -> None:
    schema = {**schema, "$defs": {"a": a, "b": {"not": {"$ref": "#/$defs/a"}}}}
    check_schema(schema)
    fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (problems_with(value, schema) == "") is fits, problems_with(value, schema)


PIECES = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", r"\s", r"\b", r"[a-c\d]", ""]),
    lambda inner: st.one_of(
        st.builds("({})".format, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])),
    ),
    max_leaves=6,
)  # fmt: skip


@given(
    body=PIECES,
    edges=st.tuples(st.booleans(), st.booleans()),
    flags=st.sampled_from(["", "(?i)", "(?s)"]),
    text=st.text("abAB1 é\n", max_size=8),
)
def test_a_pattern_finds_what_python_finds(
    body: str, edges: tuple[bool, bool], flags: str, text: str
) -> None:
    source = flags + ("^" if edges[0] else "") + body
    ours, pythons = source + ("$" if edges[1] else ""), source + (r"\Z" if edges[1] else "")
    found = re.search(pythons, text, re.ASCII)  # RE2's classes are those of ASCII
    assert pattern(ours).found_in(text) is (found is not None)


@pytest.mark.parametrize(
    "hostile", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "a*a*a*a*a*a*b", "(a?){40}a{40}$", "((a*)*)*b"]
)
def test_a_pattern_that_would_hang_elsewhere_is_through_at_once(hostile: str) -> None:
    schema = {"pattern": hostile}
    check_schema(schema)
    assert problems_with("a" * 5000 + "!", schema) != ""


@pytest.mark.parametrize(
    "refused",
    [r"(a)\1", "(?=a)", "(?<!a)b", "((a{99}){99}){99}", "(", "a" * 2000, "(?>a)", "\ud800"],
)
def test_a_pattern_that_can_not_be_bounded_is_refused_when_it_is_asked_for(refused: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        check_schema({"type": "string", "pattern": refused})


def test_a_pattern_costs_what_its_ways_and_classes_do() -> None:
    many = "".join(map(chr, range(0x4E00, 0x5100, 2)))
    with pytest.raises(ValueError, match="too large"):
        pattern(f"[{many}]{{900}}b")
    assert pattern(f"(?:[{many}]{{9}}){{9}}b").longest < pattern("a{9}b").longest / 10
    assert not pattern("^.$").found_in("\ud800\ud800")  # no text that could be written anywhere


def test_many_texts_cost_what_one_long_text_does() -> None:
    schema = {"items": {"pattern": "^(a|b|ab)*$"}}
    assert problems_with(["ab" * 100] * 200, schema) == ""
    assert "too large" in problems_with(["ab" * 5000] * 20_000, schema)


def _bounded(value: Any, schema: dict[str, Any]) -> str:
    """What is wrong with the value, found within seconds also on a busy machine."""
    check_schema(schema)
    start = time.process_time()
    wrong = problems_with(value, schema)
    assert time.process_time() - start < 10
    return wrong


def test_no_answer_and_no_schema_makes_checking_endless() -> None:
    twice = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)}
    assert "too large" in _bounded(1, {"$ref": "#/$defs/a0", "$defs": {**twice, "a60": {}}})
    loop = {"$ref": "#/$defs/x", "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}]}}}
    assert "too large" in _bounded(1, loop)
    tree = {"properties": {"x": {"$ref": "#/$defs/t"}}}
    both = {"$ref": "#/$defs/t", "$defs": {"t": {"oneOf": [tree, {**tree, "required": ["y"]}]}}}
    value: Any = {}
    for _ in range(60):
        value = {"x": value}
    assert "too large" in _bounded(value, both)
    for _ in range(50_000):
        value = {"x": value}
    assert "too deep" in _bounded(value, both)
    assert "too large" in _bounded([{"a": n} for n in range(20_000)], {"uniqueItems": True})
    assert _bounded([str(n) for n in range(20_000)], {"uniqueItems": True}) == ""


def test_what_alternatives_object_to_is_paid_for() -> None:
    """Each objection is made, and shows all of the value, though another alternative fits."""
    names = [f"n{n}" for n in range(5000)]
    several: dict[str, Any] = {"anyOf": [{"required": names}, {"minProperties": 0}]}
    assert "too large" in _bounded([{}] * 300, {"items": several})
    assert _bounded([{}] * 3, {"items": several}) == ""
    wide = {"items": {"anyOf": [{"allOf": [{"type": "string"}]}] * 20 + [{}]}}
    assert "too large" in _bounded([[list(range(10_000))]] * 1000, wide)
    known = {"items": {"minProperties": 1, "properties": {name: {} for name in names}}}
    assert "too large" in _bounded([{"n1": 1}] * 5000, known)
    assert _bounded([{"n1": 1}] * 50, known) == ""


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (10**400, {"multipleOf": 0.1}),
        (float("inf"), {"multipleOf": 0.1}),
        (float("nan"), {"multipleOf": 0.1}),
        (10**5000, {"maximum": 5, "multipleOf": 1}),
        ([10**5000], {"items": {"type": "string", "minLength": 1}, "uniqueItems": True}),
        (1, {"enum": [10**5000]}),
    ],
    ids=lambda _: "number",
)
def test_numbers_too_large_to_divide_or_to_print_do_not_fit(
    value: Any, schema: dict[str, Any]
) -> None:
    check_schema(schema)
    assert problems_with(value, schema).startswith("the answer")


def test_a_schema_that_takes_too_long_to_read_is_refused() -> None:
    for keyword in ("items", "not"):
        nested: dict[str, Any] = {}
        for _ in range(3000):
            nested = {keyword: nested}
        with pytest.raises(ValueError, match="schema is too large"):
            check_schema(nested)
    with pytest.raises(ValueError, match="schema is too large"):
        check_schema({"allOf": [{"type": "string"}] * 20_000})


def test_nothing_is_ever_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(*_: object) -> None:
        raise AssertionError("a reference was followed")

    monkeypatch.setattr("urllib.request.urlopen", fetched)
    monkeypatch.setattr("socket.create_connection", fetched)
    for ref in ("http://127.0.0.1:1/x", "file:///etc/passwd", "x.json", "//host/x", "#x", "#"):
        for schema in ({"$ref": ref}, {"not": {"$ref": ref}}, {"not": {"$dynamicRef": ref}}):
            with pytest.raises(ValueError, match=r"\$defs"):
                check_schema(schema)
        assert problems_with(1, {"not": {"not": {"$id": ref}}}) == ""
    with pytest.raises(ValueError, match="schema"):
        check_schema({"not": {"$id": "http://127.0.0.1:1/"}})
    with pytest.raises(ValueError, match="propertyNames"):
        check_schema({"patternProperties": {"^(a+)+$": {}}})
    instead = {"propertyNames": {"pattern": "^a"}, "additionalProperties": {"type": "integer"}}
    check_schema(instead)
    assert problems_with({"a1": 1}, instead) == ""
    assert "must match" in problems_with({"b": 1}, instead)


PLAIN = {
    "title": "An order",
    "type": "object",
    "properties": {
        "size": {"enum": ["s", "l"], "x-drawn-as": "buttons"},
        "not": {"type": "integer", "minimum": 1},
        "pattern": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
    },
    "required": ["size"],
}


@pytest.mark.parametrize("missing", ["jsonschema", "re2"])
def test_without_the_extra_only_plain_schemas_are_known(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    pattern.cache_clear()
    check_schema(PLAIN)
    assert problems_with({"size": "s", "not": 1, "pattern": None}, PLAIN) == ""
    assert "must be at least 1" in problems_with({"size": "s", "not": 0}, PLAIN)
    with pytest.raises(ValueError, match=r"pip install .*\[schema\]'"):
        check_schema({"properties": {"a": {"pattern": "^a"}}})


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"type": "text"},
        {"enum": "ab"},
        {"required": [1]},
        {"minimum": "1"},
        {"minLength": -1},
        {"anyOf": []},
        {"properties": {"a": 1}},
        {"items": {"type": "txt"}},
        {"$ref": "#/$defs/nope", "$defs": {}},
        {"$ref": "#/$defs/nope", "$defs": []},
        {"$ref": 5},
        {"properties": {"a": {}, "b": {"$ref": "#/properties/a"}}},
    ],
)
def test_a_schema_that_is_none_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"schema"):
        check_schema(wrong)


def test_huge_and_deep_values_are_refused_instead_of_checked_for_ever() -> None:
    numbers = {"type": "array", "items": {"type": "integer"}}
    assert "too large" in problems_with([1] * (MAX_CHECKS + 1), numbers)
    endless = {"anyOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"not": {"$ref": "#/$defs/x"}}}}
    assert "too large" in problems_with(1, endless)
    value: Any = 1
    for _ in range(200):
        value = [value]
    nested = {"$ref": "#/$defs/n", "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}}
    assert "too deep" in problems_with(value, nested)
    assert problems_with(float("nan"), {"type": "number", "minimum": 0}) != ""


def test_the_schema_of_nested_types_is_checked_to_the_bottom() -> None:
    schema = schema_of(Order)
    check_schema(schema)
    assert problems_with({"lines": [{"sku": "a", "size": "s"}]}, schema) == ""
    assert "lines[1].size" in problems_with(
        {"lines": [{"sku": "a", "size": "s"}, {"sku": "b", "size": "m"}]}, schema
    )


class Sku(pydantic.BaseModel):
    code: str


class Item(pydantic.BaseModel):
    sku: Sku
    with_it: list[Item] = []


@dataclass
class Basket:
    items: list[Item]


@pytest.mark.parametrize("kind", [Item, list[Item], Item | None, Basket])
def test_what_models_refer_to_is_found_wherever_they_stand(kind: Any) -> None:
    schema = schema_of(kind)
    check_schema(schema)
    item = {"sku": {"code": "a"}, "with_it": [{"sku": {"code": 7}}]}
    value = {list[Item]: [item], Basket: {"items": [item]}}.get(kind, item)
    assert "code must be of type string" in problems_with(value, schema)
    assert "code must be of type string" in problems_with(
        {"x": value}, schema_of_fields({"x": kind})
    )
