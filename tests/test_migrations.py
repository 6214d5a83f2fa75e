"""Migrations by themselves: what they declare, in which order they run, and what they refuse."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf


def test_migrations_run_one_version_at_a_time() -> None:
    orders = hf.Migrations(version=3)

    @orders.state(from_version=2)
    def sum_up(state: dict[str, Any]) -> dict[str, Any]:
        return {"total": sum(state["cents"])}

    @orders.state(from_version=1)
    def in_cents(state: dict[str, Any]) -> dict[str, Any]:
        return {"cents": [round(100 * price) for price in state["prices"]]}

    assert orders.migrate({"prices": [0.5, 2]}, from_version=1) == {"total": 250}
    assert orders.migrate({"cents": [7]}, from_version=2) == {"total": 7}
    assert orders.migrate({"total": 9}, from_version=3) == {"total": 9}
    assert in_cents({"prices": [1]}) == {"cents": [100]}, "it is still a function"


def test_a_version_may_take_states_as_they_are() -> None:
    assert hf.Migrations(3, {1: None, 2: None}).migrate({"n": 1}, from_version=1) == {"n": 1}


def test_a_missing_migration_names_the_versions() -> None:
    with pytest.raises(hf.MigrationError, match="no migration from version 2 to 3") as told:
        hf.Migrations(4, {1: None, 3: None}).migrate({}, from_version=1)
    assert "@migrations.state(from_version=2)" in str(told.value)
    assert isinstance(told.value, hf.FlowChangedError)
    again = pickle.loads(pickle.dumps(told.value))
    assert (again.from_version, again.to_version) == ("1", 4)


def test_a_version_from_the_future_is_refused() -> None:
    with pytest.raises(hf.MigrationError, match=r"of version 5, .* up to 2\. Use the newer code"):
        hf.Migrations(2, {1: None}).migrate({}, from_version=5)


def test_a_migration_that_raises_is_named_with_its_error() -> None:
    def halve(state: dict[str, Any]) -> dict[str, Any]:
        return {"n": state["n"] / state["by"]}

    with pytest.raises(hf.MigrationError, match=r"halve\(\) raised KeyError: 'by'") as told:
        hf.Migrations(2, {1: halve}).migrate({"n": 1}, from_version=1)
    assert isinstance(told.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("made", "why"),
    [(None, "returned nothing"), (object(), "can't be stored"), ([object()], r"\[0\]")],
)
def test_what_can_not_be_a_state_is_refused(made: Any, why: str) -> None:
    with pytest.raises(hf.MigrationError, match=why):
        hf.Migrations(2, {1: lambda state: made}).migrate({}, from_version=1)


@pytest.mark.parametrize(
    ("declare", "error", "words"),
    [
        (lambda m: m.state(from_version=3), ValueError, "not below version 3"),
        (lambda m: m.state(from_version=1)(len), ValueError, "two migrations lead from version 1"),
        (lambda m: m.state(from_version="2"), TypeError, "must be an int"),
        (lambda m: m.state(from_version=True), TypeError, "must be an int"),
        (lambda m: m.state(from_version=-1), ValueError, "0 or more"),
        (lambda m: m.state(from_version=2)("change"), TypeError, "a function of a state"),
        (lambda m: m.state(from_version=2)(_later), TypeError, "a plain def"),
        (lambda m: hf.Migrations("3"), TypeError, "must be an int"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_declared(
    declare: Callable[[hf.Migrations], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        declare(hf.Migrations(3, {1: None}))


async def _later(state: Any) -> Any:
    return state


_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(state=st.dictionaries(st.text(max_size=3), _DATA), first=st.integers(1, 4))
def test_a_state_that_was_saved_in_between_becomes_the_same(
    state: dict[str, Any], first: int
) -> None:
    """Whether a run stops at every version, or skips some: its state is the same in the end."""
    steps: dict[int, Any] = {
        1: lambda old: {**old, "one": (1, 2)},  # a tuple stays one
        2: lambda old: {"all": list(old.items()), "kept": old},
        3: lambda old: {**old, "n": {len(old)}},
        4: None,
    }
    at_once = hf.Migrations(5, steps).migrate(state, from_version=first)
    for version in range(first, 5):
        state = hf.Migrations(version + 1, {version: steps[version]}).migrate(
            state, from_version=version
        )
    assert state == at_once
