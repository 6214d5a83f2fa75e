"""Large states, field by field: the same bytes and values as whole, and nothing is shared."""

from __future__ import annotations

import copy
import datetime as dt
import random
from dataclasses import dataclass, field
from typing import Any, TypedDict
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.codec import apart, values
from holdfast.codec.apart import Apart
from holdfast.codec.revive import revive
from holdfast.codec.secrets import Secret
from holdfast.errors import ReviveError
from tests.effort import EFFORT, examples
from tests.strategies import same
from tests.strategies import values as any_values

SMALL = patch.multiple(apart, _LEAST=0, _WORTH=0, _FEW=3)


@dataclass
class Message:
    text: str
    tags: list[str] = field(default_factory=list)


@dataclass
class Chat:
    messages: list[Message] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, list[int]] = field(default_factory=dict)
    title: str = ""
    turn: int = 0


class Row(TypedDict, total=False):
    items: list[Any]
    n: int


def first() -> Apart:
    return Apart(bytes(100_000), {})


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
    ),
    max_leaves=12,
)


@given(
    st.lists(
        st.dictionaries(st.text(max_size=4), any_values(max_leaves=6), max_size=18), max_size=4
    )
)
@settings(max_examples=examples(50) if EFFORT > 1 else 12)  # large ones
def test_fields_together_are_the_encoding_of_the_whole_state(states: list[dict[str, Any]]) -> None:
    with SMALL:
        known = first()
        for state in states:
            made = known.followed_by(state)
            if made is None:
                continue
            assert made.encoding == values.encode(state)
            revived = made.revived(dict, values.decode)
            assert same(revived, values.decode(values.encode(state)))
            known = made


@given(
    st.dictionaries(st.sampled_from("abc"), plain, min_size=1),
    st.lists(st.tuples(st.sampled_from("abcd"), plain, st.booleans()), max_size=8),
)
def test_no_step_sees_what_another_did_to_its_state(
    state: dict[str, Any], steps: list[tuple[str, Any, bool]]
) -> None:
    """Each is given what was recorded, and changes neither that nor what others were given."""
    with SMALL:
        known = first().followed_by(state)
        assert known is not None
        handed_out: list[tuple[Any, Any]] = []
        for name, value, in_place in steps:
            given_state = known.revived(dict, values.decode)
            expected = values.decode(known.encoding)
            assert same(given_state, expected)
            changed = given_state.get(name)
            if in_place and type(changed) is list:
                changed.append(value)
                expected[name].append(value)
            elif in_place and type(changed) is dict:
                changed["new"] = value
                expected[name]["new"] = value
            elif not in_place and name != "d":
                given_state[name] = value
                expected[name] = value
            followed = known.followed_by(given_state)
            assert followed is not None
            assert followed.encoding == values.encode(expected)
            known = followed
            handed_out.append((given_state, copy.deepcopy(given_state)))
            _spoil(known.revived(dict, values.decode))
        for kept, as_it_was in handed_out:
            assert same(kept, as_it_was)


def _spoil(value: Any) -> None:
    """Change all of it that can be changed."""
    if type(value) is dict:
        for item in value.values():
            _spoil(item)
        value["spoilt"] = True
    elif type(value) is list:
        for item in value:
            _spoil(item)
        value.append("spoilt")


@given(st.integers(0, 2**32), st.lists(st.integers(0, 6), max_size=12))
def test_typed_states_are_revived_as_whole_ones_are(seed: int, changes: list[int]) -> None:
    rng = random.Random(seed)
    chat = Chat(
        [Message("a"), Message("b", ["x"])], [{"k": [1]}, {"k": 2}, {"k": 3}], {"n": [1]}, "t"
    )
    with SMALL:
        known: Any = first().followed_by(chat)
        for change in changes:
            chat = known.revived(Chat, values.decode)
            assert chat == revive(values.decode(known.encoding), Chat)
            if change == 1:
                chat.messages[rng.randrange(2)].tags.append("y")
            elif change == 2:
                chat.rows[0]["k"] = rng.random()
            elif change == 3:
                chat.notes.setdefault("m", []).append(rng.randrange(9))
            elif change == 4:
                chat.title += "!"
            elif change == 5:
                chat.rows.append({"k": rng.randrange(9)})
            expected = values.encode(copy.deepcopy(chat))
            known = known.followed_by(chat)
            assert known.encoding == expected


def test_an_unchanged_field_is_not_decoded_again() -> None:
    decoded: list[int] = []

    def decode(data: Any) -> Any:
        decoded.append(len(data))
        return values.decode(data)

    rows = [{"n": n, "text": "x" * 50} for n in range(400)]
    nested = [{"n": n, "words": ["x" * 50]} for n in range(400)]
    state: dict[str, Any] = {"rows": rows, "nested": nested, "text": "y" * 20_000, "n": 0}
    known: Any = first().followed_by(state)
    for _ in range(10):
        state = known.revived(dict, decode)
        state["n"] += 1
        known = known.followed_by(state)
    large = [size for size in decoded if size > 1000]
    assert len(large) == 4 + 1, "nested until it counts as unchanged, and to keep it; the text once"
    assert (state["rows"], state["nested"]) == (rows, nested)


class Offset(dt.tzinfo):
    """Comes back as a fixed offset: bytes name no type."""

    def utcoffset(self, when: object) -> dt.timedelta:
        return dt.timedelta(hours=2)

    def dst(self, when: object) -> None:
        return None

    def tzname(self, when: object) -> str:
        return "two"


def test_what_comes_back_otherwise_than_it_was_is_not_copied() -> None:
    at = dt.datetime(2026, 1, 1, tzinfo=Offset())
    with SMALL:
        known: Any = first().followed_by({"rows": [{"at": at}], "times": [at], "now": {"at": at}})
        for _ in range(5):
            state = known.revived(dict, values.decode)
            found = state["rows"][0]["at"], state["times"][0], state["now"]["at"]
            assert [type(one.tzinfo) for one in found] == [dt.timezone] * 3
            known = known.followed_by(state)


def test_a_state_that_did_not_change_has_the_same_encoding() -> None:
    with SMALL:
        known: Any = first().followed_by({"rows": [[1, 2]] * 9, "n": 0})
        again = known.followed_by(known.revived(dict, values.decode))
    assert again.encoding is known.encoding


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), (0.0, -0.0), ([1], (1,)), ("a", b"a"), ({1: 2}, {"1": 2})],
)
def test_what_is_equal_and_is_stored_otherwise_is_a_change(one: Any, other: Any) -> None:
    with SMALL:
        known: Any = first().followed_by({"x": [one] * 9})
        for _ in range(5):
            known = known.followed_by(known.revived(dict, values.decode)) if known else None
        if known is None:  # keys that are not text are for `values.encode`
            return
        state = known.revived(dict, values.decode)
        state["x"][4] = other
        made = known.followed_by(state)
        assert made is None or made.encoding == values.encode(state)
        assert made is None or made.encoding != known.encoding


@pytest.mark.parametrize(
    "state",
    [
        [1, 2],
        None,
        {1: 2},
        {"a": object()},
        {"a": {2: 3}},
        {"a": Secret("hush", name="s")},
        {"a": "\ud800"},
        {"\ud800": 1},
    ],
)
def test_other_states_are_left_to_the_encoder_of_whole_ones(state: Any) -> None:
    with SMALL:
        assert first().followed_by(state) is None


def test_a_state_may_be_as_deep_as_whole_ones_are_and_no_deeper() -> None:
    deep: Any = 0
    for _ in range(values.MAX_DEPTH - 1):
        deep = [deep]
    with SMALL:
        made = first().followed_by({"a": deep})
        assert made is not None
        assert made.encoding == values.encode({"a": deep})
        assert first().followed_by({"a": [deep]}) is None


def test_many_small_fields_are_not_looked_at_one_by_one() -> None:
    assert Apart(b"", {}).followed_by({"a": 1}) is None
    assert Apart(b"x" * 1024, {}).followed_by({"a": 1, "b": 2}) is not None
    assert Apart(b"x" * 1024, {}).followed_by({"a": 1, "b": 2, "c": 3}) is None


def test_a_field_that_does_not_fit_is_named() -> None:
    with SMALL:
        known = first().followed_by({"items": [1], "n": "no number"})
        assert known is not None
        with pytest.raises(ReviveError, match=r"state\.n"):
            known.revived(Row, values.decode)


@dataclass
class Checked:
    """A dataclass that makes itself, as models do."""

    big: str
    n: int

    @classmethod
    def model_validate(cls, data: dict[str, Any]) -> Checked:
        return cls(**data)

    def model_dump(self) -> dict[str, Any]:
        return {"big": self.big, "n": self.n}


def test_a_dataclass_that_validates_itself_is_given_plain_values() -> None:
    state = Checked("x" * 20_000, 1)
    encoded = first().followed_by(state)
    assert encoded is not None
    assert encoded.revived(Checked, values.decode) == state
