"""Definitions: what they may say, and what is told about those that can't run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.pipeline import HumanInputStep, Pipeline, Registry, Step, definition_schema
from holdfast.pipeline.conditions import ABOUT_PRESENCE, OPERATORS
from tests.effort import examples
from tests.pipeline.flows import line, path, run, when


def work(data: Any) -> Any:
    return data


def good(state: dict[str, Any], least: int = 0) -> bool:
    return len(state["steps"]) >= least


class Upper(Step):
    def run(self, data: Any) -> Any:
        return str(data).upper()


REGISTRY = Registry({"work": work, "good": good, "Upper": Upper})
VALIDATOR = jsonschema.Draft202012Validator(definition_schema())

FULL: dict[str, Any] = {
    "name": "full",
    "version": "2",
    "description": "All there is",
    "parameters": {"least": 3},
    "steps": [
        {
            "id": "fetch",
            "name": "Fetch it",
            "description": "From far away",
            "function": "work",
            "inputs": {"n": "{{ parameters.least }}"},
            "retry": {"attempts": 2, "backoff": 0.5, "longest": 9, "jitter": 0.1},
            "timeout": 5,
            "inline": True,
            "continue_on_error": True,
            "fallback": "work",
            "checkpoint": False,
        },
        {"id": "left", "class": "Upper", "config": {"a": 1}},
        {"id": "right", "function": "work", "inputs": [{"name": "x", "source": "{{ fetch.n }}"}]},
        {
            "id": "review",
            "type": "human_input",
            "prompt": "Publish {steps.fetch.output.n}?",
            "schema": {"type": "object", "required": ["approved"]},
            "assignees": ["ann"],
            "deadline": 3600,
            "default": {"approved": False},
            "show": {"n": "{steps.fetch.output.n}"},
        },
        {"id": "pick", "type": "human_input", "prompt": "Which?", "choices": ["a", "b"]},
    ],
    "flow": {
        "start_at": "fetch",
        "paths": [
            path("fetch", ["left", "right"], when("fetch.n", "exists")),
            path("fetch", "end_with_failure"),
            path("left", "review"),
            path("right", "review"),
            path("review", "pick", when("review.approved", "equals", True, default=False)),
            path("review", "fetch", {"type": "function", "config": {"function": "good"}}),
            path(
                "review",
                "end",
                {
                    "type": "parameter",
                    "config": {"parameter": "least", "operator": "<", "value": 3},
                },
            ),
            path("review", "end_with_success"),
            path("pick", "end"),
        ],
    },
    "loop_config": {"max_iterations": 7, "iteration_delay_seconds": 0.5},
}


def problems(definition: Any, registry: Any = REGISTRY) -> str:
    with pytest.raises(hf.InvalidFlowError) as caught:
        Pipeline.from_dict(definition, registry=registry)
    return str(caught.value)


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    definition: dict[str, Any] = json.loads(json.dumps(FULL))
    change(definition)
    return definition


def test_a_definition_comes_back_as_it_was_given() -> None:
    pipeline = Pipeline.from_dict(FULL, registry=REGISTRY)
    told = pipeline.to_dict()
    again = Pipeline.from_dict(json.loads(pipeline.to_json()), registry=REGISTRY)
    assert again.to_dict() == told
    assert told["flow"]["paths"][1:] == FULL["flow"]["paths"][1:]
    assert told["steps"][0] == FULL["steps"][0]
    assert told["steps"][3:] == FULL["steps"][3:]
    assert told["loop_config"] == FULL["loop_config"]
    assert told["description"] == FULL["description"]
    VALIDATOR.validate(told)


def test_a_pipeline_made_in_python_is_exported_by_the_names_of_what_it_runs() -> None:
    pipeline = Pipeline(
        [Upper("up"), {"id": "it", "function": work}, HumanInputStep("ask", "Now?", bool)],
        line("up", "it", "ask"),
    )
    told = pipeline.to_dict()
    assert [step.get("class") or step.get("function") for step in told["steps"]] == [
        f"{__name__}:Upper", f"{__name__}:work", None,
    ]  # fmt: skip
    with pytest.raises(hf.InvalidFlowError, match="may not be imported"):
        Pipeline.from_dict(told)
    allowed = Registry(imports=["tests.pipeline"])
    assert run(Pipeline.from_dict(told | {"steps": told["steps"][:2], "flow": line("up", "it")},
               registry=allowed).run("hi")) == {"up": "HI", "it": "HI"}  # fmt: skip


@pytest.mark.parametrize("wrong", [{"retyr": 3}, {"retry": 3, "type": "human_input"}])
def test_a_key_that_is_not_known_is_reported_once(wrong: dict[str, Any]) -> None:
    step = {"id": "a", "prompt": "Well?"} if "type" in wrong else {"id": "a", "function": "work"}
    with pytest.raises(hf.InvalidFlowError) as refused:
        Pipeline([{**step, **wrong}], line("a"), registry=REGISTRY)
    (problem,) = refused.value.problems
    assert problem.startswith("steps[0].ret")
    assert "is not known here" in problem


def test_what_has_no_name_can_not_be_exported() -> None:
    pipeline = Pipeline([{"id": "a", "function": lambda data: data}], line("a"))
    with pytest.raises(ValueError, match="register it"):
        pipeline.to_dict()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("steps"), "steps: must be a list of at least one step"),
        (lambda d: d.pop("flow"), "flow: must be a mapping"),
        (lambda d: d.update(stpes=[]), "stpes: is not known here; did you mean 'steps'?"),
        (lambda d: d.update(name="\n"), "name: "),
        (lambda d: d.update(version=[]), "version: "),
        (lambda d: d.update(parameters=3), "parameters: "),
        (lambda d: d["flow"].update(start_at="fetsh"), "flow.start_at: 'fetsh' is not a known step; did you mean 'fetch'?"),
        (lambda d: d["flow"]["paths"].append(3), "flow.paths[9]: must be a mapping"),
        (lambda d: d["flow"]["paths"][2].update(to="revue"), "flow.paths[2].to: 'revue' is not a step; did you mean 'review'?"),
        (lambda d: d["flow"]["paths"][2].update(to="End"), "did you mean 'end'?"),
        (lambda d: d["flow"]["paths"][2].update(to=[]), "flow.paths[2].to: must name at least one"),
        (lambda d: d["flow"]["paths"][2].update(to=["pick", "end"]), "can't begin with an end"),
        (lambda d: d["flow"]["paths"][2].update({"from": "lefd"}), "'lefd' is not a known step; did you mean 'left'?"),
        (lambda d: d["flow"]["paths"][2].update(form="a"), "flow.paths[2].form: is not known here; did you mean 'from'?"),
        (lambda d: d["flow"]["paths"][0]["condition"].update(type="expresion"), "is not a known condition; did you mean 'expression'?"),
        (lambda d: d["flow"]["paths"][0]["condition"]["config"].update(operator="existss"), "is not a known operator; did you mean 'exists'?"),
        (lambda d: d["flow"]["paths"][0]["condition"]["config"].update(source="fetsh.n"), "'fetsh' is not a step; did you mean 'fetch'?"),
        (lambda d: d["flow"]["paths"][4]["condition"]["config"].pop("value"), "'equals' needs a value"),
        (lambda d: d["flow"]["paths"][4]["condition"]["config"].update(operator="regex", value="("), "can't be used as a pattern"),
        (lambda d: d["flow"]["paths"][5]["condition"]["config"].update(function="goood"), "did you mean 'good'?"),
        (lambda d: d["flow"]["paths"][5]["condition"]["config"].update(function="os.system"), "may not be imported"),
        (lambda d: d["flow"]["paths"].insert(2, path("left", "pick")), "is never tried"),
        (lambda d: d["flow"]["paths"].pop(), "no path leaves 'pick'"),
        (lambda d: d["flow"]["paths"][2].update(to="left"), "no way from 'left' to an end"),
        (lambda d: d["steps"].append({"id": "lost", "function": "work"}), "'lost' can't be reached"),
        (lambda d: d["steps"].append({"id": "left", "function": "work"}), "there is a step 'left' already"),
        (lambda d: d["steps"].append("left"), "steps[5]: must be a Step, or a mapping with an id"),
        (lambda d: d["steps"].append({"function": "work"}), "steps[5]: has no id"),
        (lambda d: d["steps"].append({"id": "x"}), "steps[5]: needs either a function or a class"),
        (lambda d: d["steps"].append({"id": "x", "type": "humaninput"}), "did you mean 'human_input'?"),
        (lambda d: d["steps"][0].update(id="a.b"), "steps[0].id: must be letters"),
        (lambda d: d["steps"][0].update(id="end"), "steps[0].id: can't be 'end'"),
        (lambda d: d["steps"][0].update(function="wrok"), "steps[0].function: nothing is registered as 'wrok'; did you mean 'work'?"),
        (lambda d: d["steps"][0].update(retries=3), "steps[0].retries: is not known here; did you mean 'retry'?"),
        (lambda d: d["steps"][0].update(retry=0), "steps[0].retry: attempts must be 1 or more"),
        (lambda d: d["steps"][0].update(retry={"attemps": 2}), "steps[0].retry: has no 'attemps'"),
        (lambda d: d["steps"][0].update(retry="often"), "steps[0].retry: must be a number of attempts"),
        (lambda d: d["steps"][0].update(timeout="1s"), "steps[0].timeout: must be a number of seconds"),
        (lambda d: d["steps"][0].update(timeout=0), "steps[0].timeout: must be a number"),
        (lambda d: d["steps"][0].update(checkpoint="no"), "steps[0].checkpoint: must be true or false"),
        (lambda d: d["steps"][0].update(inputs="{{ steps.lefft.output }}"), "steps[0].inputs: in '{{ steps.lefft.output }}': 'lefft' is not a step; did you mean 'left'?"),
        (lambda d: d["steps"][0].update(inputs=["{{ x }}"]), "steps[0].inputs[0]: "),
        (lambda d: d["steps"][1].update({"class": "work"}), "is not a subclass of Step"),
        (lambda d: d["steps"][3].update(prompt=" "), "steps[3]: a question needs a prompt"),
        (lambda d: d["steps"][3].update(function="work"), "steps[3].function: is not known here"),
        (lambda d: d["steps"][3].update(default=3), "steps[3]: the default"),
        (lambda d: d.update(loop_config={"max_iteration": 3}), "did you mean 'max_iterations'?"),
        (lambda d: d.update(loop_config={"max_iterations": 0}), "loop_config.max_iterations: must be"),
    ],
)  # fmt: skip
def test_a_problem_is_reported_with_its_place_and_the_nearest_name(
    change: Callable[[dict[str, Any]], object], words: str
) -> None:
    assert words in problems(changed(change))


def test_all_problems_are_reported_at_once() -> None:
    definition = changed(lambda d: (d["flow"].update(start_at="x"), d["steps"][0].update(retry=0)))
    told = problems(definition)
    assert "start_at" in told
    assert "retry" in told
    assert told.startswith("pipeline 'full' can't run: ")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["steps"][0].update(function="wrok"),
        lambda d: d["steps"][2].update(inputs="{{ steps.nowhere.output.x }} and more"),
        lambda d: d["steps"][0].update(type="tusk"),
        lambda d: d["steps"][3].update(prompt=" "),
        lambda d: d["flow"]["paths"][0]["condition"].update(type="expresion"),
        lambda d: d["flow"]["paths"][0].update(condition="fetch.n > 3"),
        lambda d: d["flow"]["paths"][0]["condition"]["config"].update(source="fetsh.n"),
        lambda d: d["flow"]["paths"][0]["condition"]["config"].update(operator="~"),
        lambda d: d["flow"]["paths"][5]["condition"]["config"].update(function="goood"),
        lambda d: d.update(steps={"a": 1}),
    ],
)  # fmt: skip
def test_one_mistake_is_one_problem(change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(hf.InvalidFlowError) as caught:
        Pipeline.from_dict(changed(change), registry=REGISTRY)
    assert len(caught.value.problems) == 1


def test_branches_that_may_both_come_to_a_step_without_joining_there_are_refused() -> None:
    steps = [{"id": name, "function": work} for name in "abcj"]
    flow = {"start_at": "a", "paths": [
        path("a", ["b", "c"]), path("b", "j", when("a", "exists")), path("b", "a"),
        path("c", "j"), path("j", "end"),
    ]}  # fmt: skip
    with pytest.raises(hf.InvalidFlowError, match="'a' leads to 'b', 'c' side by side"):
        Pipeline(steps, flow)


# --- files

YAML = """\
name: shout
steps:
  - id: up
    class: Upper
  - id: count
    function: work
flow:
  start_at: up
  paths:
    - {from: up, to: count}
    - from: count
      to: end
"""


@pytest.mark.parametrize("suffix", ["yaml", "yml", "json"])
def test_a_file_is_a_pipeline(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"shout.{suffix}"
    file.write_text(YAML)
    if suffix == "json":
        file = tmp_path / "shout.json"
        (tmp_path / "shout.yaml").write_text(YAML)
        known = Pipeline.from_file(tmp_path / "shout.yaml", registry=REGISTRY)
        file.write_text(known.to_json())
    pipeline = Pipeline.from_file(file, registry=REGISTRY)
    assert pipeline.name == "shout"
    assert run(pipeline.run("hi")) == {"up": "HI", "count": "HI"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (YAML.replace("to: count", "to: cuont"), "line 10: flow.paths[0].to: 'cuont' is not a step; did you mean 'count'?"),
        (YAML.replace("function: work", "function: wrok"), "line 6: steps[1].function: "),
        (YAML.replace("start_at: up\n", "start_at: up\n  start_at: up\n"), "line 9: the key 'start_at' occurs twice"),
        (YAML.replace("to: end", "to: [end"), "line 13: invalid YAML"),
        (YAML.replace("class: Upper", "class: !!python/name:os.system"), "line 4: invalid YAML"),
        (YAML.replace("name: shout", "name: &a shout\nversion: *a"), "line 2: aliases"),
        ("a: " + "[" * 60 + "]" * 60, "line 1: it is nested more than 50 deep"),
        ("- 1", "line 1: must be a mapping with steps and a flow"),
        ("", "line 1: must be a mapping"),
        ("\x01", "invalid YAML"),
    ],
)  # fmt: skip
def test_errors_in_a_yaml_file_name_it_and_the_line(wrong: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(wrong)
    with pytest.raises(hf.InvalidFlowError) as caught:
        Pipeline.from_file(file, registry=REGISTRY)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ('{\n"steps": [],\n"flow": {\n  "start_at": "x"}}', "line 2: steps: must be a list"),
        ('{\n"name": "a",\n\n"name": "b"}', "line 4: the key 'name' occurs twice"),
        ('{\n"name": }', "line 2: invalid JSON: Expecting value"),
        ('{\n"name" "a"}', "line 2: invalid JSON: Expecting ':' delimiter"),
        ('{"a": 1\n"b": 2}', "line 2: invalid JSON: Expecting ',' delimiter"),
        ('{a: 1}', "line 1: invalid JSON: Expecting property name"),
        ('{\n"abc', "line 2: invalid JSON: Unterminated string"),
        ('[1, 2', "line 1: invalid JSON: Expecting ',' delimiter"),
        ('{} {}', "line 1: invalid JSON: Extra data"),
        ("[" * 60 + "]" * 60, "line 1: it is nested more than 50 deep"),
        ('{"version": NaN}', "line 1: invalid JSON: a number is not finite"),
        ('{"version": 1e999}', "line 1: invalid JSON: a number is not finite"),
        ('"\ud800"', "UTF-8"),
    ],
)  # fmt: skip
def test_errors_in_a_json_file_name_it_and_the_line(wrong: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_bytes(wrong.encode("utf-8", "surrogatepass"))
    with pytest.raises(hf.InvalidFlowError) as caught:
        Pipeline.from_file(file, registry=REGISTRY)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
       | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=20))  # fmt: skip
def test_json_is_read_with_the_line_of_every_part(value: Any) -> None:
    from holdfast.pipeline.files import _json

    for indent in (None, 2):
        lines: dict[Any, int] = {}
        assert _json(text := json.dumps(value, indent=indent), lines) == value
        if indent and isinstance(value, dict | list) and value:  # every part has a line of its own
            first = next(iter(value)) if isinstance(value, dict) else 0
            assert lines[()] == 1
            assert lines[first,] == 2
            assert max(lines.values()) <= text.count("\n") + 1


def test_a_file_that_is_no_definition_is_refused_before_it_is_read(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.write_bytes(b" " * 500_001)
    for file in (tmp_path / "p.toml", large):
        with pytest.raises(hf.InvalidFlowError, match=r"ends in \.json|larger than"):
            Pipeline.from_file(file)
    with pytest.raises(FileNotFoundError):
        Pipeline.from_file(tmp_path / "missing.json")


def test_without_pyyaml_a_yaml_file_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "p.yaml").write_text(YAML)
    with pytest.raises(ImportError, match=r"pip install .*\[yaml\]'"):
        Pipeline.from_file(tmp_path / "p.yaml")


# --- the published schema

VALUES = st.sampled_from(
    [None, True, 0, 1, -1, 1.5, "", "work", "fetch", [], {}, ["left"], {"x": 1}]
)


@given(st.data())
@settings(max_examples=examples(100), deadline=None)
def test_what_runs_fits_the_published_schema(data: st.DataObject) -> None:
    """Whatever is changed about a definition: if it still runs, it still fits."""
    definition = changed(lambda d: None)
    place: Any = definition
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        if data.draw(st.booleans()):
            place[key] = data.draw(VALUES)
        else:
            del place[key]
        break
    try:
        Pipeline.from_dict(definition, registry=REGISTRY)
    except hf.InvalidFlowError:
        return
    VALIDATOR.validate(definition)


def test_the_schema_knows_every_operator_and_refuses_what_is_none() -> None:
    schema = definition_schema()
    assert schema["$defs"]["operator"]["enum"] == [*OPERATORS, *ABOUT_PRESENCE]
    jsonschema.Draft202012Validator.check_schema(schema)
    VALIDATOR.validate(FULL)
    for definition in (
        changed(lambda d: d["flow"]["paths"][0]["condition"]["config"].update(operator="~")),
        changed(lambda d: d["steps"][0].update(retries=2)),
        changed(lambda d: d.pop("flow")),
    ):
        assert not VALIDATOR.is_valid(definition)
