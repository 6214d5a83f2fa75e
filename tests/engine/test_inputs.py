"""Inputs that are not the recorded ones: the error says which they are."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.codec import readable
from holdfast.codec.values import decode, encode
from holdfast.engine import inputs
from holdfast.engine.inputs import differences, inputs_hash, readable_hash
from holdfast.graph import END, Graph
from holdfast.pipeline import Pipeline
from holdfast.workflow import ask, workflow
from tests.strategies import values


@dataclass
class Chat:
    messages: list[str] = field(default_factory=list)
    limit: int = 3


@given(values() | st.lists(st.integers(2**53 - 2, 2**53 + 2)) | st.integers(-(2**53) - 1, 2**64))
def test_plain_data_has_the_hash_that_its_tree_has(given_inputs: Any) -> None:
    """Hashes that were stored before there was a short-cut for it still match."""
    with patch.object(readable, "canonical", lambda _: None):
        by_tree = readable_hash(given_inputs)
    assert readable_hash(given_inputs) == by_tree
    assert readable_hash(decode(encode(given_inputs))) == by_tree


def test_hashes_that_older_versions_stored_still_match() -> None:
    plain = {"b": [1, 2.5, None, True, "ü"], "a": {"n": -900719925474099, "t": "x"}}
    assert readable.canonical(encode(plain)) is not None
    assert inputs_hash(plain) == (
        "d1c36e7883344446e8239882a6cfd8a3bdfb712e5d5425c7463c0b1a31df4bb9"
    )
    large = {"n": 9007199254740992, "$a": 1, 2: (3,), "s": {1}}
    assert readable.canonical(encode(large)) is None
    assert inputs_hash(large) == (
        "08905bb61bffb2a7bae958c1de3187ffa3c6d00e82feb4fbe88a0baf29a2a975"
    )


@given(values(), values())
def test_large_inputs_are_equal_where_small_ones_are(one: Any, other: Any) -> None:
    with patch.object(inputs, "LARGE", 0):
        for a, b in ((one, other), (one, decode(encode(one))), (one, _turned(one))):
            assert (inputs_hash(a) == inputs_hash(b)) is (readable_hash(a) == readable_hash(b))


def _turned(value: Any) -> Any:
    """The same with the keys of dicts in another order."""
    if type(value) is list:
        return [*map(_turned, value)]
    if type(value) is dict:
        return {key: _turned(value[key]) for key in reversed(value)}
    return value


LARGE = {"rows": [{"n": n, "text": "x" * 40} for n in range(500)], "more": {"a": 1, "b": (2,)}}


def test_large_inputs_are_hashed_without_a_text_of_them() -> None:
    with patch.object(readable, "canonical", side_effect=AssertionError("it takes long")):
        known = inputs_hash(LARGE)
        assert inputs_hash(_turned(LARGE)) == known
        assert inputs_hash({**LARGE, "more": {"a": True, "b": (2,)}}) != known
        assert inputs_hash({**LARGE, "more": {"a": 1, "b": [2]}}) != known


@pytest.mark.parametrize("where", [False, "memory://"])
def test_large_inputs_are_the_same_after_a_secret_was_revealed(where: Any) -> None:
    @workflow
    async def flow(rows: list[int]) -> int:
        return int(await ask(f"go on with {len(rows)} rows?"))

    rows = list(range(20_000))
    with hf.Engine(where) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(flow(rows), run_id="r")
        secret = hf.Secret("a password of somebody", name="password")
        assert secret.reveal()
        engine.answer_sync("r", 7)
        assert engine.run_sync(flow(rows), run_id="r", resume=True) == 7


def test_a_run_with_large_inputs_of_an_older_version_resumes_with_the_same_ones() -> None:
    """It recorded the hash of their readable form."""

    def fails(state: dict[str, Any]) -> None:
        raise ValueError("no luck")

    app = Graph(dict).add_node("bad", fails).add_edge("bad", END).set_entry("bad").compile()
    store = hf.stores.MemoryStore()
    with (
        patch.object(inputs, "inputs_hash", readable_hash),
        pytest.raises(hf.StepFailedError),
    ):
        app.run_sync(LARGE, store=store, run_id="r")
    with pytest.raises(hf.StepFailedError):
        app.run_sync(_turned(LARGE), store=store, run_id="r", resume=True)
    with pytest.raises(hf.InputMismatchError) as caught:
        app.run_sync({**LARGE, "more": {}}, store=store, run_id="r", resume=True)
    assert caught.value.differences[0] == "more.a was 1 and is not given"


@pytest.mark.parametrize(
    ("recorded", "given", "expected"),
    [
        ({"x": 1}, {"x": 2}, ["x was 1 and is 2"]),
        ({"x": 1}, {"x": True}, ["x was 1 and is True"]),
        ({"x": 1}, {"x": 1.0}, ["x was 1 and is 1.0"]),
        ({"x": (1, 2)}, {"x": [1, 2]}, ["x was (1, 2) and is [1, 2]"]),
        ({"x": [1, 2]}, {"x": [1, 3]}, ["x[1] was 2 and is 3"]),
        ({"x": [1]}, {"x": [1, 3]}, ["x[1] was not given and is 3"]),
        ({"x": {"y": 1}}, {"x": {}}, ["x.y was 1 and is not given"]),
        ({"x": {1, 2}}, {"x": {2, 3}}, ["x was {1, 2} and is {2, 3}"]),
        ({"x": 10**5000}, {"x": 1}, ["x was a long int and is 1"]),
        ("a", "b", ["it was 'a' and is 'b'"]),
        ({"x": "a" * 90}, {"x": ""}, ["x was '" + "a" * 56 + "... and is ''"]),
        ({"x": None}, {"x": b"a" * 90}, ["x was None and is bytes, 90 B"]),
        ({"api_key": "k1"}, {"api_key": "k2"}, ["api_key was *** and is ***"]),
        ({"max_tokens": 1}, {"max_tokens": 2}, ["max_tokens was 1 and is 2"]),
        (
            {"db": "mysql://me:hush@host/db"},
            {"db": None},
            ["db was 'mysql://me:***@host/db' and is None"],
        ),
        (
            {"x": list(range(9))},
            {"x": list("abcdefghi")},
            [f"x[{n}] was {n} and is {c!r}" for n, c in enumerate("abcde")] + ["and 4 more"],
        ),
    ],
)
def test_each_difference_is_named_with_both_values(
    recorded: Any, given: Any, expected: list[str]
) -> None:
    assert differences(recorded, given) == expected


@given(values(), values())
def test_there_is_a_difference_where_the_hashes_differ(one: Any, other: Any) -> None:
    found = differences(decode(encode(one)), other)
    assert bool(found) is (readable_hash(one) != readable_hash(other))
    both = decode(encode({"same": one, "other": one}))
    assert all(
        line.startswith(("other", "and "))
        for line in differences(both, {"same": one, "other": other})
    )


@workflow
def asks(place: str, depth: int = 1) -> Generator[Any, Any, Any]:
    return (yield ask(f"{place}?"))


def test_a_workflow_names_the_input(tmp_path: Any) -> None:
    with hf.Engine(tmp_path / "runs.db") as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(asks(place="Brest"), run_id="r")
        with pytest.raises(hf.InputMismatchError) as caught:
            engine.run_sync(asks(place="Brest", depth=2), run_id="r", resume=True)
    assert caught.value.run_id == "r"
    assert caught.value.differences == ("depth was not given and is 2",)
    assert (
        "run 'r' began with other inputs (depth was not given and is 2); call engine.resume('r'), "
        in str(caught.value)
    )


def test_a_graph_names_the_field_of_its_state(tmp_path: Any) -> None:
    def fails(chat: Chat) -> Chat:
        raise ValueError("no luck")

    app = Graph(Chat).add_node("bad", fails).add_edge("bad", END).set_entry("bad").compile()
    store = tmp_path / "runs.db"
    with pytest.raises(hf.StepFailedError):
        app.run_sync(Chat(["hello"]), store=store, run_id="g")
    with pytest.raises(hf.InputMismatchError) as caught:
        app.run_sync(Chat(["bye"]), store=store, run_id="g", resume=True)
    assert caught.value.differences == ("messages[0] was 'hello' and is 'bye'",)


def test_a_pipeline_names_the_path_in_its_data(tmp_path: Any) -> None:
    def fails(data: Any) -> None:
        raise ValueError("no luck")

    with Pipeline(
        steps=[{"id": "bad", "function": fails}],
        flow={"start_at": "bad", "paths": [{"from": "bad", "to": "end"}]},
        checkpointer=tmp_path / "runs.db",
    ) as pipeline:
        with pytest.raises(hf.StepFailedError):
            pipeline.run_sync({"topic": "kelp", "n": 1}, "t")
        with pytest.raises(
            hf.InputMismatchError, match=re.escape("'kelp' and is 'rock'")
        ) as caught:
            pipeline.run_sync({"topic": "rock", "n": 1}, "t", resume=True)
    assert caught.value.differences == ("pipeline_input.topic was 'kelp' and is 'rock'",)
