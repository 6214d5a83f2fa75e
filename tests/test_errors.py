from __future__ import annotations

import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest

import holdfast as hf
from holdfast import errors
from holdfast.evidence import Evidence, verdicts

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


def _claim(verdict: verdicts.Verdict) -> Evidence:
    claim = Evidence("artifact_exists", "there", {"path": "x"})
    claim.judge(verdict._replace(evidence=claim.digest))
    return claim


def test_what_does_not_hold_and_what_cannot_be_told_are_told_apart() -> None:
    false, unknown = _claim(verdicts.failed("gone")), _claim(verdicts.inconclusive("no answer"))
    broken = _claim(verdicts.error("no connection"))
    said = str(hf.VerificationError("r@1", (false,)))
    assert "r@1 does not hold" in said
    assert "Put right what is missing" in said
    assert "trust=" not in said
    said = str(hf.VerificationError("r@1", (unknown, broken)))
    assert "whether checkpoint r@1 holds can't be told" in said
    assert "Put right" not in said
    assert 'trust="stored"' in said
    assert 'trust="skip"' in said
    said = str(hf.VerificationError("r@1", (false, unknown)))
    assert "r@1 does not hold" in said
    assert 'trust="stored"' in said


def test_the_guide_names_every_error() -> None:
    guide = (Path(__file__).parents[1] / "docs/guides/errors.md").read_text()
    drawn = set(re.findall(r"^[│├└─ ]*(\w+Error)\b", guide, re.MULTILINE))
    assert drawn == set(errors.__all__)
    explained = set(re.findall(r"`(?:hf\.)?(\w+)`", guide))
    branches = {"CheckpointError", "EvidenceError", "RunError"}
    assert set(errors.__all__) - explained == branches
