"""Templates: what they bring in, what they refuse, and how much they may make."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import holdfast as hf
from holdfast.pipeline import HumanInputStep, Pipeline
from tests.pipeline.flows import line, path, run


def first(_: Any) -> dict[str, Any]:
    return {"n": 3, "rows": [1, 2], "a b": "blank"}


def same(data: Any) -> Any:
    return data


def rendered(inputs: Any, data: Any = None, **parameters: Any) -> Any:
    steps = [{"id": "a", "function": first}, {"id": "b", "function": same, "inputs": inputs}]
    return run(Pipeline(steps, line("a", "b"), parameters=parameters).run(data)).output


@pytest.mark.parametrize(
    "text",
    [
        "{ parameters.name }", "{{parameters.name}", "{{ a.n + 1 }}", "{{ a.n | upper }}", "{{ a.rows[0] }}",
        "{a.n}", "{a}", "{ steps.a.output }", "{{ a.n", "{{ a.n } }", "{{{ a.n }}}", "{{}}", "{{ a..n }}",
        "{{ a.n | default(none) }}", "{{ a.n | default() }}", "{{ a.n == 3 }}", "{parameters.x + 1}",
    ],
)  # fmt: skip
def test_what_looks_like_a_reference_and_is_none_is_refused_with_one_finding(text: str) -> None:
    for inputs in (text, {"deep": [f"Hello {text}, and {{{{ a.n }}}}"]}):
        with pytest.raises(hf.InvalidFlowError) as caught:
            rendered(inputs)
        assert len(caught.value.problems) == 1


def test_a_key_that_looks_like_a_template_is_refused() -> None:
    with pytest.raises(hf.InvalidFlowError, match="can't be templates"):
        rendered({"{{ a.n }}": 1})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ a.a b }}", "blank"),
        ("{{{{ a.n }} is {{ a.n }}", "{{ a.n }} is 3"),
        ("{{{{", "{{"),
        ('{"k": {"z": {{ a.n }}}}', '{"k": {"z": 3}}'),
        ('{"steps": {}} {name} {} {0} { x }', '{"steps": {}} {name} {} {0} { x }'),
        ("{{ a.m | default(null) }}", None),
        ('{{ b.x | default("none") }}', "none"),
        ('is {{ b | default("a | b") }}', "is a | b"),
        ("{{ parameters.x.y|default([1, 2]) }}", [1, 2]),
        ("{{ a.n | default(0) }}", 3),
    ],
)
def test_braces_defaults_and_references(text: str, expected: Any) -> None:
    assert rendered(text) == expected


def test_a_list_of_names_and_sources_is_a_mapping_and_other_lists_are_what_they_are() -> None:
    assert rendered([{"name": "x", "source": "{{ a.n }}"}]) == {"x": 3}
    for data in (
        [],
        [{"name": "x"}],
        [{"name": "x", "source": 1, "more": 2}],
        [{"name": 1, "source": 2}],
    ):
        assert rendered(data) == data  # fmt: skip


def test_defaults_are_copied_for_each_step_attempt_and_run() -> None:
    seen: list[int] = []

    def grow(data: Any) -> int:
        data["list"].append(1)
        seen.append(len(data["list"]))
        if len(seen) == 1:
            raise ConnectionError("once")
        return len(data["list"])

    retry = {"attempts": 2, "backoff": 0}
    steps = [
        {"id": name, "function": grow, "inputs": "{{ parameters.o }}", "retry": retry}
        for name in "ab"
    ]
    defaults: dict[str, Any] = {"o": {"list": []}}
    pipeline = Pipeline(steps, line("a", "b"), parameters=defaults)
    defaults["o"]["list"].append("the program's own")
    for _ in range(2):
        assert run(pipeline.run({})) == {"a": 1, "b": 1}
    assert seen == [1] * 5


def test_a_default_within_a_template_is_another_each_time() -> None:
    def grow(data: Any) -> int:
        data.append(1)
        return len(data)

    steps = [{"id": "a", "function": grow, "inputs": "{{ parameters.o | default([]) }}"}]
    pipeline = Pipeline(steps, line("a"))
    assert [run(pipeline.run({})).output for _ in range(2)] == [1, 1]


def test_a_condition_can_not_change_what_others_see() -> None:
    def meddles(state: Any, more: list[int]) -> bool:
        state["steps"]["a"]["n"] = "meddled"
        state["parameters"]["p"].append(1)
        more.append(1)
        return len(more) > 1

    def sees(state: Any) -> bool:
        return bool(state["steps"]["a"]["n"] == "meddled" or state["parameters"]["p"])

    def asks(fn: Any, **parameters: Any) -> dict[str, Any]:
        return {"type": "function", "config": {"function": fn, "parameters": parameters}}

    paths = [path("a", "end_with_failure", asks(meddles, more=[])), path("a", "end_with_failure", asks(sees)),
             path("a", "end")]  # fmt: skip
    flow = {"start_at": "a", "paths": paths}
    pipeline = Pipeline([{"id": "a", "function": first}], flow, parameters={"p": []})
    for _ in range(2):
        assert run(pipeline.run({})).status == "completed"


def test_defaults_that_can_not_be_copied_are_refused() -> None:
    with pytest.raises(hf.InvalidFlowError, match="can be copied for each step"):
        rendered("x", p=threading.Lock())


UNTOLD: list[Any] = [{(1, 2): 3}, 10**5000]


@pytest.mark.parametrize("value", UNTOLD, ids=["a key that is no text", "a huge number"])
def test_a_value_that_can_not_be_written_as_text_fails_its_step(
    value: Any, cp: hf.SyncCheckpointer
) -> None:
    def outcome(**settings: Any) -> Any:
        steps = [
            {"id": "a", "function": lambda _: value},
            {"id": "b", "function": same, "inputs": "n={{ a }}", **settings},
        ]
        return run(Pipeline(steps, line("a", "b"), checkpointer=cp).run({})).output

    def prompt(**settings: Any) -> Any:
        steps = [
            {"id": "a", "function": lambda _: value},
            HumanInputStep("b", "n={{ a }}", **settings),
        ]
        return run(Pipeline(steps, line("a", "b"), checkpointer=cp).run({})).output

    for come_to in (outcome, prompt):
        with pytest.raises(hf.StepFailedError, match="can't be written as text") as caught:
            come_to()
        assert caught.value.is_a(hf.UnresolvedError)
        assert come_to(continue_on_error=True)["step_error"]
        assert come_to(fallback=lambda data, error: error.step) == "b"


def test_a_prompt_that_fails_can_be_mended_and_resumed(cp: hf.SyncCheckpointer) -> None:
    def asking(prompt: str) -> Pipeline:
        return Pipeline([HumanInputStep("ask", prompt)], line("ask"), checkpointer=cp)

    for prompt in ("{{ pipeline_input.name }}", "{{ pipeline_input.empty }}"):
        with pytest.raises(hf.StepFailedError, match="ask"):
            run(asking(prompt).run({"empty": " "}, "t"))
        assert run(asking("Well?").resume("t")).status == "paused"
        assert run(asking("Well?").resume("t", answer=1)).output == 1


def test_all_texts_of_a_template_together_have_a_limit() -> None:
    assert len(rendered(["{{ parameters.big }}!"] * 5, big="x" * 1_000_000)) == 5
    with pytest.raises(hf.StepFailedError, match="makes a text of more than 10,000,000"):
        rendered(["{{ parameters.big }}!"] * 11, big="x" * 1_000_000)
