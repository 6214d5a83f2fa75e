"""The two checkpointers offer the same operations, each with its own signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

import holdfast as hf

OPERATIONS = sorted(
    name
    for name, value in vars(hf.Checkpointer).items()
    if inspect.isfunction(value) and not name.startswith("_") and name != "close"
)


def test_both_checkpointers_have_every_operation() -> None:
    assert {"save", "load", "runs", "children", "fork", "verify", "copy_to"} <= set(OPERATIONS)
    assert set(OPERATIONS) <= vars(hf.SyncCheckpointer).keys()


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_says_what_it_takes_and_returns_and_what_it_does(name: str) -> None:
    awaited, blocking = getattr(hf.Checkpointer, name), getattr(hf.SyncCheckpointer, name)
    takes, returns = inspect.signature(blocking).parameters, _returns(blocking)
    assert next(iter(takes)) == "self"
    assert takes == inspect.signature(awaited).parameters
    assert not {one.kind for one in takes.values()} & {one.VAR_KEYWORD for one in takes.values()}
    assert "Op[" not in returns
    assert "Pages[" not in returns
    if returns.startswith("Iterator["):
        assert _returns(awaited) == f"Async{returns}"
    elif name == "watch":  # it returns at once; what it returns is awaited
        assert (_returns(awaited), returns) == ("Changes", "SyncChanges")
    else:
        assert inspect.iscoroutinefunction(awaited)
        assert _returns(awaited) == returns
    assert not inspect.iscoroutinefunction(blocking)
    assert (blocking.__doc__ or "").rstrip().endswith(".")


def test_the_signature_of_save_is_the_one_that_is_documented() -> None:
    signature = inspect.signature(hf.SyncCheckpointer.save)
    assert list(signature.parameters)[:4] == ["self", "run_id", "state", "step"]
    assert signature.return_annotation == "Checkpoint"


def _returns(method: Callable[..., object]) -> str:
    return str(inspect.signature(method).return_annotation)
