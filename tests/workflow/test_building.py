"""Steps are values: each method makes another one, and leaves the one it was called on alone."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from holdfast.workflow import step


def add(a: int, b: int = 0) -> int:
    return a + b


def _used(made: Any) -> Any:
    made.use()  # or its mark would say that nobody awaited it
    return made


def test_a_method_leaves_the_step_that_it_is_called_on_alone() -> None:
    first = _used(step("add")).python(add, args=(1,), kwargs={"b": 2})
    before = {**vars(first), "policy": vars(first.policy).copy()}
    first.retry(5).timeout(1.0).checkpoint().inline().outputs("file").when(False).validate(bool)
    first.on_error(lambda error: 0).skip_on_error(1).with_rollback(print).returns(float)
    first.python(print, args=(9,))
    assert {**vars(first), "policy": vars(first.policy)} == before


def test_two_steps_of_one_name_share_no_arguments() -> None:
    given = {"b": 2}
    one = _used(step("add")).python(add, args=[1], kwargs=given)
    other = _used(step("add")).python(add)
    given["b"] = 3
    assert (one.args, dict(one.kwargs)) == ((1,), {"b": 2})
    assert (other.args, dict(other.kwargs)) == ((), {})


def test_a_step_and_its_policy_cant_be_changed_in_place() -> None:
    made = _used(step("add")).python(add).retry(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.policy.timeout = 1.0


def test_a_policy_is_checked_whichever_method_makes_it() -> None:
    made = _used(step("add")).python(add)
    with pytest.raises(ValueError, match="timeout must be"):
        made.timeout(0)
    with pytest.raises(ValueError, match="attempts must be"):
        made.retry(0)

    async def commit(cursor: Any, result: Any) -> None: ...

    with pytest.raises(TypeError, match="can't be async"):
        made.python(add, commit=commit)


def test_a_copy_of_a_step_is_the_same_effect() -> None:
    made = _used(step("add")).python(add, args=([1],)).checkpoint()
    copied = copy.deepcopy(made)
    assert copied.mark is made.mark
    assert copied.args == made.args
    assert copied.args[0] is not made.args[0]
    assert copied.policy == made.policy
