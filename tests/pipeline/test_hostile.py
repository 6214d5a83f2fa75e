"""Definitions that want to hurt: huge, deep, cyclic, or just nonsense. Each is refused, in time."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.pipeline import Pipeline
from tests.pipeline.flows import line, path, run, when


async def work(data: Any) -> Any:
    return data


def steps(count: int, **settings: Any) -> list[dict[str, Any]]:
    return [{"id": f"s{n}", "function": work, **settings} for n in range(count)]


def refused(*args: Any, **options: Any) -> str:
    with pytest.raises(hf.InvalidFlowError) as caught:
        Pipeline(*args, **options)
    assert len(str(caught.value)) < 20_000
    return str(caught.value)


def test_the_largest_pipeline_runs_and_a_larger_one_is_refused() -> None:
    names = [f"s{n}" for n in range(1000)]
    assert len(run(Pipeline(steps(1000), line(*names)).run(1))) == 1000
    assert "at most 1,000" in refused(steps(1001), line(*names))
    many = {"start_at": "s0", "paths": [path("s0", "end")] * 5001}
    assert "at most 5,000" in refused(steps(1), many)


def test_a_tangle_of_paths_is_looked_through_in_time() -> None:
    dice = random.Random(7)
    count = 400
    always = when("pipeline_input", "equals", 1)
    paths = [
        path(f"s{n}", f"s{dice.randrange(count)}", always) for n in range(count) for _ in range(4)
    ]
    paths += [path(f"s{n}", f"s{n + 1}") for n in range(count - 1)]
    flow = {"start_at": "s0", "paths": [*paths, path(f"s{count - 1}", "end")]}
    assert Pipeline(steps(count), flow).mermaid().count("-.->") == len(paths) + 1
    forks = [path(f"s{n}", [f"s{n + 1}", f"s{n + 2}"], always) for n in range(count - 2)]
    flow = {"start_at": "s0", "paths": [*forks, *paths[-count + 1 :], path(f"s{count - 1}", "end")]}
    assert "side by side" in refused(steps(count), flow)


def test_data_that_holds_itself_is_refused() -> None:
    inputs: dict[str, Any] = {}
    inputs["itself"] = inputs
    assert "nested more than 32 deep" in refused(steps(1, inputs=inputs), line("s0"))
    value: list[Any] = []
    value.append(value)
    paths = [path("s0", "end", when("s0", "in", value))]
    assert "nested more than 32 deep" in refused(steps(1), {"start_at": "s0", "paths": paths})


def test_a_hostile_pattern_does_not_hang() -> None:
    for pattern, words in [("(a+)+$", None), ("(a|aa)*b", None), ("a{9999}{9999}", "pattern"), ("(?<=a)b", "pattern"),
                           (r"(a)\1", "pattern"), ("x" * 5000, "pattern"), ("(" * 500 + ")" * 500, None)]:  # fmt: skip
        paths = [path("s0", "end_with_failure", when("s0", "regex", pattern)), path("s0", "end")]
        flow = {"start_at": "s0", "paths": paths}
        try:
            pipeline = Pipeline(steps(1), flow)
        except hf.InvalidFlowError as error:
            assert words is None or words in str(error)
            continue
        assert words is None
        assert run(pipeline.run("a" * 300 + "!")).status in ("completed", "failed")


def test_a_text_too_long_for_a_pattern_is_an_error_and_not_a_guess() -> None:
    paths = [path("s0", "end", when("s0", "regex", "(a+)+$")), path("s0", "end_with_failure")]
    with pytest.raises(hf.UnresolvedError, match="longer than"):
        run(Pipeline(steps(1), {"start_at": "s0", "paths": paths}).run("a" * 1_000_000))


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a.b", "../x", "{x}", "a\n", "a" * 101, "end", "steps", "parameters", "a>b", "a#2", "a!fallback", "-", None, 3, [], {}],
)  # fmt: skip
def test_ids_that_could_be_taken_for_something_else_are_refused(name: Any) -> None:
    assert "id" in refused([{"id": name, "function": work}], line("a"))


NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["s0", "end", "always", "expression", "function", "{{ x }}", "{steps.s0.output}"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["id", "function", "class", "type", "config", "from", "to", "condition", "source",
                         "operator", "value", "start_at", "paths", "retry", "inputs", "prompt", "schema"]),
        inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


@given(NONSENSE, NONSENSE, NONSENSE)
@settings(max_examples=150, deadline=None)
def test_nonsense_is_refused_in_words(some: Any, more: Any, loop: Any) -> None:
    for definition in (
        some,
        {"steps": some, "flow": more, "loop_config": loop},
        {"steps": [{"id": "s0", "function": "work", "inputs": some, "retry": more}], "flow": loop},
        {
            "steps": [{"id": "s0", "function": "work"}],
            "flow": {"start_at": "s0", "paths": [{"from": "s0", "to": some, "condition": more}]},
        },
        {
            "steps": [{"id": "s0", "type": "human_input", "prompt": "?", "schema": some, "choices": more,
                       "deadline": loop}],
            "flow": line("s0"),
        },
    ):  # fmt: skip
        try:
            Pipeline.from_dict(definition, registry={"work": work})
        except hf.InvalidFlowError as error:
            assert str(error)
