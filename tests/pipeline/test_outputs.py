"""A state whose outputs are kept apart is the same state; a step costs the same among many."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.codec import values
from holdfast.engine import events as ev
from holdfast.pipeline import Pipeline
from holdfast.pipeline.outputs import Outputs
from tests.pipeline.flows import follow, line, path, run, when
from tests.strategies import same
from tests.strategies import values as storable


def _begun(given: Any = None) -> Outputs:
    made = Outputs.of({"pipeline_input": given, "steps": {}}, values)
    assert made is not None
    return made


def _added(state: Outputs, name: str, output: Any) -> Outputs:
    made = state.adding(name, output)
    assert made is not None
    return made.settle()


@given(storable(), st.lists(st.tuples(st.sampled_from("abcd"), storable(max_leaves=5)), max_size=8))
def test_it_is_encoded_as_the_whole_state_would_be(
    first: Any, added: list[tuple[str, Any]]
) -> None:
    state, plain = _begun(first), {"pipeline_input": first, "steps": {}}
    for name, output in added:
        state = _added(state, name, output)
        plain["steps"].pop(name, None)
        plain["steps"][name] = output
        assert same(state.value(), values.decode(values.encode(plain)))
        assert list(state.value()["steps"]) == list(plain["steps"])
        assert same(state.output(name), values.decode(values.encode(output)))
    assert same(state.seen["pipeline_input"], values.decode(values.encode(first)))
    assert list(state.seen["steps"]) == list(plain["steps"])


@pytest.mark.parametrize("many", [14, 15, 16, 17, 65_534, 65_535, 65_536])
def test_any_number_of_outputs_has_the_bytes_that_the_codec_writes(many: int) -> None:
    steps: dict[str, Any] = {f"s{n}": n for n in range(many)}
    plain = {"pipeline_input": {"x": 1}, "steps": steps}
    state = Outputs.of(plain, values)
    assert state is not None
    assert state.encoding == values.encode(plain)
    steps["one more"] = [1]
    assert _added(state, "one more", [1]).encoding == values.encode(plain)


def test_an_output_that_nobody_took_over_is_in_no_later_state() -> None:
    state = _added(_begun(), "a", 1)
    refused = state.adding("a", 2)
    assert refused is not None
    assert refused.output("a") == 2
    assert state.output("a") == 1
    assert _added(state, "b", 3).value()["steps"] == {"a": 1, "b": 3}


def test_what_is_looked_at_belongs_to_who_looks() -> None:
    state = _added(_begun([1]), "a", {"items": [1]})
    seen = state.seen
    seen["steps"]["a"]["items"].append(2)
    seen["pipeline_input"].append(2)
    assert seen["steps"]["a"] == {"items": [1, 2]}
    assert state.seen["steps"]["a"] == {"items": [1]}
    assert state.value() == {"pipeline_input": [1], "steps": {"a": {"items": [1]}}}


def test_a_value_that_is_not_in_the_bytes_is_not_kept_apart() -> None:
    assert Outputs.of({"pipeline_input": hf.Secret("s", name="n"), "steps": {}}, values) is None
    assert _begun().adding("a", {"key": hf.Secret("s", name="n")}) is None


def test_a_value_can_be_as_deep_as_in_a_whole_state_and_no_deeper() -> None:
    def nested(depth: int) -> Any:
        made: Any = 0
        for _ in range(depth):
            made = [made]
        return made

    deepest = values.MAX_DEPTH - 3
    while True:
        try:
            values.encode({"pipeline_input": None, "steps": {"a": nested(deepest + 1)}})
        except hf.SerializeError:
            break
        deepest += 1
    assert _added(_begun(), "a", nested(deepest)).value()["steps"]["a"] == nested(deepest)
    with pytest.raises(hf.SerializeError, match=r"state\.steps\.a"):
        _begun().adding("a", nested(deepest + 1))


def test_a_step_encodes_and_decodes_its_own_part_however_many_came_before() -> None:
    sizes: list[int] = []
    plain_pack, plain_unpack = ormsgpack.packb, ormsgpack.unpackb

    def packing(value: Any, **how: Any) -> bytes:
        packed: bytes = plain_pack(value, **how)
        sizes.append(len(packed))
        return packed

    def unpacking(data: bytes, **how: Any) -> Any:
        sizes.append(len(data))
        return plain_unpack(data, **how)

    names = [f"s{n}" for n in range(100)]
    steps = [
        {"id": name, "function": lambda data: data, "inputs": {"x": "{{ steps.s0.output.t }}"}}
        for name in names[1:]
    ]
    first = {"id": "s0", "function": lambda data: {"t": "x" * 100}}
    pipeline = Pipeline([first, *steps], line(*names), checkpointer=hf.Checkpointer("memory://"))
    with patch.object(values, "packb", packing), patch.object(values, "unpackb", unpacking):
        result = run(pipeline.run({}))
    assert result["s99"] == {"x": "x" * 100}
    assert sum(size > 1000 for size in sizes) <= 2  # the result, as the caller gets it
    assert len(sizes) < 5 * len(names)


def test_an_event_of_a_loop_shows_the_output_of_its_own_visit() -> None:
    visits: list[int] = []

    def count(data: Any) -> dict[str, int]:
        visits.append(0)
        return {"n": len(visits)}

    flow = {
        "start_at": "count",
        "paths": [path("count", "count", when("count.n", "less_than", 3)), path("count", "end")],
    }
    pipeline = Pipeline([{"id": "count", "function": count}], flow)
    events = run(follow(pipeline.stream({})))
    shown = [event.value for event in events if isinstance(event, ev.StepCompleted)]
    assert shown == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_all_outputs_can_be_asked_for_at_once() -> None:
    steps = [
        {"id": "a", "function": lambda data: 1},
        {"id": "b", "function": lambda data: 2},
        {"id": "c", "function": lambda data: data, "inputs": {"all": "{{ steps }}"}},
    ]
    result = run(Pipeline(steps, line("a", "b", "c")).run({}))
    assert result["c"] == {"all": {"a": 1, "b": 2}}
    assert type(result["c"]["all"]) is dict
