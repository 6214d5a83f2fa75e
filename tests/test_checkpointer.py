"""The two checkpointers offer the same operations, each with its own signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pdoc.doc
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


@pytest.mark.filterwarnings("ignore:Error parsing type annotation:UserWarning")
@pytest.mark.parametrize(
    "cls", [hf.Checkpointer, hf.SyncCheckpointer], ids=lambda cls: cls.__name__
)
def test_the_reference_shows_the_signatures_that_help_shows(
    cls: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in OPERATIONS:  # pdoc resolves annotations in place: it gets a copy of its own
        _copy_signature(getattr(cls, name), monkeypatch)
    shown = pdoc.doc.Class("holdfast", cls.__name__, cls, ("holdfast", cls.__name__))
    for name in OPERATIONS:
        method, found = getattr(cls, name), shown.get(name)
        assert isinstance(found, pdoc.doc.Function)
        assert list(found.signature.parameters) == list(inspect.signature(method).parameters)
        assert found.funcdef == ("async def" if inspect.iscoroutinefunction(method) else "def")
        assert method.__qualname__ == f"{cls.__name__}.{name}"


def test_the_signature_of_save_is_the_one_that_is_documented() -> None:
    signature = inspect.signature(hf.SyncCheckpointer.save)
    assert list(signature.parameters)[:4] == ["self", "run_id", "state", "step"]
    assert signature.return_annotation == "Checkpoint"


def _returns(method: Callable[..., object]) -> str:
    return str(inspect.signature(method).return_annotation)


def _copy_signature(method: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    signature = inspect.signature(method)
    copied = signature.replace(parameters=[one.replace() for one in signature.parameters.values()])
    monkeypatch.setattr(method, "__signature__", copied, raising=False)
