"""Definitions that want to hurt: huge, deep, cyclic, or just nonsense. Each is refused, in time."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.pipeline import HumanInputStep, Pipeline, Step
from tests.effort import examples
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
    assert "deeper than 50" in refused(steps(1, inputs=inputs), line("s0"))
    value: list[Any] = []
    value.append(value)
    paths = [path("s0", "end", when("s0", "in", value))]
    assert "deeper than 50" in refused(steps(1), {"start_at": "s0", "paths": paths})


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


def test_names_that_are_all_alike_and_all_wrong_are_reported_in_time() -> None:
    dice = random.Random(1)
    names = ["".join(dice.choices("abcdef", k=40)) for _ in range(2000)]
    declared = [{"id": name, "function": work} for name in names[:1000]]
    paths = [path(names[n % 1000], names[1000 + n % 1000]) for n in range(5000)]
    told = refused(declared, {"start_at": names[0], "paths": paths})
    assert "and 4980 problems more" in told
    paths[0] = path(names[0], names[999][:20] + "x" + names[999][20:])
    told = refused(declared, {"start_at": names[0], "paths": paths})
    assert f"did you mean {names[999]!r}?" in told


def test_data_that_holds_the_same_over_and_over_is_refused() -> None:
    data: Any = ["y"]
    for _ in range(12):
        data = [data] * 10
    assert "of over 100,000 parts" in refused(steps(1, inputs=data), line("s0"))
    assert "of over 100,000 parts" in refused([{"id": data, "function": work}], line("s0"))
    assert "of over 100,000 parts" in refused(steps(1), line("s0"), parameters={"a": data})


@pytest.mark.parametrize("number", [2**5000, -(2**5000), 1e300, float("inf"), float("nan")])
def test_numbers_out_of_all_proportion_are_refused(number: float) -> None:
    for setting in ("retry", "timeout"):
        refused(steps(1, **{setting: number}), line("s0"))
        with pytest.raises(ValueError, match="must be"):
            Step("a", **{setting: number})  # type: ignore[arg-type]
    refused(steps(1, retry={"attempts": 2, "backoff": number}), line("s0"))
    for limit in ("max_iterations", "max_loop_time_seconds", "iteration_delay_seconds"):
        refused(steps(1), line("s0"), loop_config={limit: number})
    human = {"id": "s0", "type": "human_input", "prompt": "?", "deadline": number}
    refused([human], line("s0"))
    with pytest.raises(ValueError, match=r"."):
        HumanInputStep("a", "?", deadline=number)
    refused([{"id": number, "function": work}], line("s0"))
    refused(steps(1), line("s0") | {number: 1})
    refused([{"id": "s0", "function": work, number: 1}], line("s0"))


@pytest.mark.parametrize(
    "scalar",
    ["0x" + "f" * 5000, "1" + ":1" * 200_000, "1" + ":1" * 200_000 + ".5", "0b" + "1" * 5000, "1" * 5000,
     "!!int x", "!!bool x", "!!timestamp x", "!!float x", "!!binary x", "2001-99-99"],
)  # fmt: skip
@pytest.mark.parametrize("where", ["version: {}", "parameters: {{n: {}}}", "loop_config: {{max_iterations: {}}}"])  # fmt: skip
def test_a_scalar_that_is_no_value_is_refused_with_its_line(
    scalar: str, where: str, tmp_path: Path
) -> None:
    file = tmp_path / "p.yaml"
    flow = "steps: [{id: s, function: f}]\nflow: {start_at: s, paths: [{from: s, to: end}]}\n"
    file.write_text(flow + where.format(scalar))
    with pytest.raises(hf.InvalidFlowError, match="line 3: "):
        Pipeline.from_file(file, registry={"f": work})


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
@settings(max_examples=examples(60), deadline=None)
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
