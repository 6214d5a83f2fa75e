from __future__ import annotations

import contextlib
import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codec import delta, values


def patched(old: bytes, change: delta.Change, size: int) -> bytes:
    return bytes(delta.apply(bytearray(old), change.splices, size))


@st.composite
def edits(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Two encodings that share much: random splices of a random text."""
    seed = draw(st.binary(min_size=1, max_size=200))
    old = seed * draw(st.integers(1, 60))
    new = bytearray(old)
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(new)))
        new[at : at + draw(st.integers(0, 80))] = draw(st.binary(max_size=80))
    return old, bytes(new)


@given(edits())
def test_a_delta_turns_the_old_encoding_into_the_new_one(pair: tuple[bytes, bytes]) -> None:
    old, new = pair
    change = delta.diff(old, new)
    if change is not None:
        assert patched(old, change, len(new)) == new
        assert len(change.splices) <= len(new) // 2 + 200
        assert 0 <= change.place <= len(old)


@given(st.binary(max_size=500), st.binary(max_size=500))
def test_unrelated_encodings_give_a_delta_that_fits_or_none(old: bytes, new: bytes) -> None:
    change = delta.diff(old, new)
    if change is not None:
        assert patched(old, change, len(new)) == new


def test_an_appended_message_costs_about_its_own_size() -> None:
    chat = {"messages": [f"message number {n} says something" for n in range(2000)], "turn": 2000}
    old = values.encode(chat)
    chat["messages"].append("one more message")  # type: ignore[attr-defined]
    chat["turn"] = 2001
    change = delta.diff(old, values.encode(chat))
    assert change is not None
    assert len(change.splices) < 60


@given(st.binary(max_size=300), st.binary(max_size=60), st.integers(0, 1000))
def test_a_delta_of_hostile_bytes_changes_nothing_or_raises(
    old: bytes, change: bytes, limit: int
) -> None:
    with contextlib.suppress(ValueError):
        assert len(patched(old, delta.Change(change, 0), limit)) == limit


def test_a_delta_can_only_make_a_state_of_its_recorded_size() -> None:
    change = delta.diff(b"a" * 100, b"a" * 100 + b"b" * 50)
    assert change is not None
    with pytest.raises(ValueError, match="recorded size"):
        patched(b"a" * 100, change, 149)
    with pytest.raises(ValueError, match="recorded size"):
        patched(b"a" * 100, change, 151)


def test_states_that_share_nothing_are_given_up_on_before_anything_is_copied() -> None:
    rng = random.Random("different")
    old, new = rng.randbytes(300_000), rng.randbytes(300_000)
    tracemalloc.start()
    try:
        assert delta.diff(old, new) is None
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
