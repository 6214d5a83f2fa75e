from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import holdfast as hf
from holdfast import errors

TREE = [getattr(errors, name) for name in errors.__all__]


def example(kind: type[hf.HoldfastError]) -> hf.HoldfastError:
    parameters = list(inspect.signature(kind).parameters.values())
    given = [
        7 if str(p.annotation) in ("int", "int | None", "float") else "text"
        for p in parameters
        if p.kind == p.POSITIONAL_OR_KEYWORD
    ]
    return kind(*(given or ["something happened"]))


@pytest.mark.parametrize("kind", TREE)
def test_every_error_survives_pickling_with_its_fields(kind: type[hf.HoldfastError]) -> None:
    error = example(kind)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert vars(again) == vars(error)


@pytest.mark.parametrize("kind", TREE)
def test_every_error_stands_in_the_drawn_tree_and_is_exported(kind: type[Exception]) -> None:
    assert f" {kind.__name__} " in f" {errors.__doc__} ".replace("\n", " ")
    assert issubclass(kind, hf.HoldfastError)
    assert getattr(hf, kind.__name__) is kind


def test_errors_are_also_what_python_programs_expect() -> None:
    assert issubclass(hf.CheckpointSaveError, OSError)
    assert issubclass(hf.CheckpointLoadError, OSError)
    assert issubclass(hf.CheckpointNotFoundError, LookupError)
    assert issubclass(hf.CheckpointCorruptedError, ValueError)
    assert issubclass(hf.SerializeError, TypeError)
    assert issubclass(hf.InvalidIdError, ValueError)


def test_a_long_value_is_not_repeated_at_length() -> None:
    assert len(str(hf.InvalidIdError("run_id", "x" * 10_000, "is too long"))) < 120
