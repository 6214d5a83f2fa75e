from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.codec.readable import dumps, from_json, loads, to_json
from holdfast.codec.values import MAX_DEPTH, decode, encode
from holdfast.errors import SerializeError
from tests.strategies import same, values


class Color(Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    at: Any


@given(values())
@example({"$tuple": [1], "$$": {"$": 2}, "$$$x": 3})
@example({"$map": [[1, 2]]})
@example(["\ud83d\ude00", {"\udfff": "\x00"}])
@example([float("nan"), float("-inf"), -0.0, 2**53, -(2**53), 2**3000])
def test_json_holds_exactly_what_the_packed_form_holds(value: Any) -> None:
    plain = decode(encode(value))
    assert same(from_json(json.loads(json.dumps(to_json(plain)))), plain)
    assert same(from_json(json.loads(json.dumps(to_json(value)))), plain)


@given(values(), st.sampled_from([None, 2]))
def test_text_is_strict_json_in_utf8(value: Any, indent: int | None) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = dumps(value, indent=indent)
    json.loads(text, parse_constant=refuse)
    assert same(loads(text), value)
    assert same(loads(text.encode()), value)


@pytest.mark.parametrize(
    ("value", "tree"),
    [
        ({"a": [1, None, True, "é", 1.5]}, {"a": [1, None, True, "é", 1.5]}),
        ((1, (2,)), {"$tuple": [1, {"$tuple": [2]}]}),
        ({"b", "a"}, {"$set": ["a", "b"]}),
        (frozenset({1}), {"$frozenset": [1]}),
        ({1: "x", None: (2,)}, {"$map": [[1, "x"], [None, {"$tuple": [2]}]]}),
        ({"$tuple": 1, "$$x": 2, "y$": 3}, {"$$tuple": 1, "$$$x": 2, "y$": 3}),
        (float("-inf"), {"$float": "-inf"}),
        (2**53 - 1, 2**53 - 1),
        (2**53, {"$int": "9007199254740992"}),
        (-(2**4000), {"$int": hex(-(2**4000))}),
        (b"\x00\xff", {"$bytes": "AP8="}),
        ("\ud800", {"$str": "7aCA"}),
        (Decimal("-0.50"), {"$decimal": "-0.50"}),
        (complex(1, -0.0), {"$complex": "1.0 -0.0"}),
        (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), {"$datetime": "2026-01-02T00:00:00+00:00"}),
        (dt.date(2026, 1, 2), {"$date": "2026-01-02"}),
        (dt.time(1, 2, fold=1), {"$time": "01:02:00[_fold=1]"}),
        (dt.timedelta(days=-1, seconds=3), {"$timedelta": "P-1DT3.000000S"}),
        (UUID(int=1), {"$uuid": "00000000-0000-0000-0000-000000000001"}),
        (np.array([1], "<i2"), {"$ndarray": {"dtype": "<i2", "shape": [1], "data": "AQA="}}),
        (np.float32(1), {"$numpy": {"dtype": "<f4", "data": "AACAPw=="}}),
        (Point(1, Color.RED), {"x": 1, "at": "red"}),
    ],
)
def test_the_documented_form(value: Any, tree: Any) -> None:
    assert to_json(value) == tree
    assert same(from_json(tree), decode(encode(value)))


def test_what_can_not_be_stored_is_refused_with_its_path() -> None:
    with pytest.raises(SerializeError, match=r"^state\.a\[0\]: function"):
        dumps({"a": [test_the_documented_form]})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nope",
        "NaN",
        "[Infinity]",
        "1e999",
        "1" * 10_000,
        '{"a": 1, "a": 2}',
        '{"$evil": "os.system"}',
        '{"$tuple": [1], "b": 2}',
        '{"$tuple": "ab"}',
        '{"$set": [[1]]}',
        '{"$set": [1, 1]}',
        '{"$map": [[1, 2], [1, 3]]}',
        '{"$map": [[1]]}',
        '{"$map": [[{}, 1]]}',
        '{"$float": "1.5"}',
        '{"$int": "0x' + "f" * 200_000 + '"}',
        '{"$int": 5}',
        '{"$decimal": "x"}',
        '{"$complex": "1"}',
        '{"$datetime": "2026-13-01T00:00:00"}',
        '{"$datetime": "0001-01-01T00:00:00+23:00[Europe/Berlin]"}',
        '{"$datetime": "2026-01-01T00:00:00[../../etc/passwd]"}',
        '{"$timedelta": "P999999999DT99999.000000S"}',
        '{"$uuid": "x"}',
        '{"$bytes": "%%%"}',
        '{"$bytes": [1]}',
        '{"$str": "/w=="}',
        '{"$ndarray": {"dtype": "|O", "shape": [1], "data": ""}}',
        '{"$ndarray": {"dtype": "<f8", "shape": [99999999999], "data": ""}}',
        '{"$ndarray": {"dtype": "<f8", "shape": null, "data": ""}}',
        '{"$ndarray": {"dtype": "<f8", "data": ""}}',
        '{"$numpy": {"dtype": "<f8", "data": 3}}',
        "[" * 100_000,
        "[" * 300 + "]" * 300,
        '{"$tuple":[' * 300 + "]}" * 300,
    ],
)
def test_malformed_text_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        loads(text)


@pytest.mark.parametrize("tree", [{1: 2}, (1,), object(), b"x", float("nan"), {"a": {1}}])
def test_a_tree_that_is_no_json_raises_value_error(tree: Any) -> None:
    with pytest.raises(ValueError, match="not a stored value"):
        from_json(tree)


@given(values(), st.data())
def test_damaged_text_is_read_or_raises_value_error(value: Any, data: st.DataObject) -> None:
    text = dumps(value)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 3))
    damaged = text[:at] + data.draw(st.text('[]{}":,$0eE+-.a \\', max_size=3)) + text[at + cut :]
    with contextlib.suppress(ValueError):
        loads(damaged)


TAGS = [
    *("$tuple", "$set", "$frozenset", "$map", "$float", "$int", "$bytes", "$str", "$decimal"),
    *(
        "$complex",
        "$datetime",
        "$date",
        "$time",
        "$timedelta",
        "$uuid",
        "$ndarray",
        "$numpy",
        "$$x",
    ),
]
json_trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        | st.dictionaries(st.sampled_from(TAGS), inner, max_size=2)
    ),
    max_leaves=10,
)


@given(json_trees)
def test_any_tree_is_read_or_raises_value_error(tree: Any) -> None:
    try:
        value = from_json(tree)
    except ValueError:
        return
    assert same(from_json(to_json(value)), value)


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: {1: v}]
)
def test_whatever_is_deep_enough_to_be_packed_is_readable(wrap: Callable[[Any], Any]) -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    assert same(loads(dumps(value)), value)
