from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import re
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast import errors
from holdfast.evidence import Evidence, verdicts

TREE = [getattr(errors, name) for name in errors.__all__]


def fields(kind: type[hf.HoldfastError]) -> dict[str, Any]:
    """A value for each argument of the error."""
    return {
        parameter.name: 7 if parameter.annotation in (int, int | None, float) else "text"
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.kind == parameter.POSITIONAL_OR_KEYWORD
    }


def example(kind: type[hf.HoldfastError]) -> hf.HoldfastError:
    return kind(*(fields(kind).values() or ["something happened"]))


@pytest.mark.parametrize("kind", TREE)
def test_every_error_survives_pickling_with_its_fields(kind: type[hf.HoldfastError]) -> None:
    error = example(kind)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert vars(again) == vars(error)
        assert again.args == error.args


@pytest.mark.parametrize("kind", TREE)
def test_the_arguments_of_an_error_are_its_attributes(kind: type[hf.HoldfastError]) -> None:
    given = fields(kind)
    for error in (kind(*given.values()), kind(**given)):
        assert {name: getattr(error, name) for name in given} == given
        assert error.args == tuple(given.values())


@pytest.mark.parametrize(
    "given",
    [
        ((), {}),
        (("run",), {}),
        (("run", 1, 2), {}),
        (("run", 1), {"seq": 2}),
        (("run", 1), {"head": 2}),
    ],
)
def test_an_error_with_other_arguments_than_its_fields_is_a_type_error(
    given: tuple[tuple[Any, ...], dict[str, Any]],
) -> None:
    with pytest.raises(TypeError, match=r"ConflictError (takes|needs)"):
        hf.ConflictError(*given[0], **given[1])


def test_help_shows_the_fields_of_an_error() -> None:
    shown = pydoc.plain(pydoc.render_doc(hf.StepFailedError)).replace("|", "")
    assert (  # Python 3.14 shows an argument a line
        "class StepFailedError(RunError) StepFailedError( step: str, error_type: str, "
        "message: str, attempts: int = 1, trace: str = '', run_id: str = '' )"
        in " ".join(shown.replace("(step", "( step").replace("'')", "'' )").split())
    )


def test_what_is_assigned_later_survives_pickling_too() -> None:
    error = hf.StepFailedError("fetch#2", "ValueError", "no")
    assert (error.name, error.others, error.state) == ("", (), None)
    error.name = "fetch"
    error.state = {"n": 1}
    error.others = (hf.StepFailedError("b", "OSError", "no"),)
    error.add_note("a note")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (again.name, again.state, again.others[0].step) == ("fetch", {"n": 1}, "b")
        assert again.__notes__ == ["a note"]


def test_a_cause_that_is_an_error_of_holdfast_survives_pickling() -> None:
    error = hf.StepFailedError("a", "holdfast.errors.StepTimeoutError", "late")
    error.__cause__ = hf.StepTimeoutError("a", 5)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert isinstance(again.__cause__, hf.StepTimeoutError)
        assert again.__cause__.seconds == 5
    error.__cause__ = type("LocalError", (Exception,), {})()  # can't be pickled
    assert pickle.loads(pickle.dumps(error)).__cause__ is None


@pytest.mark.parametrize("kind", TREE)
def test_errors_are_known_by_the_name_they_are_imported_by(kind: type[hf.HoldfastError]) -> None:
    assert f"{kind.__module__}.{kind.__qualname__}" == f"holdfast.errors.{kind.__name__}"


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


def test_false_claims_and_claims_that_cannot_be_checked_read_differently() -> None:
    false, unknown = _claim(verdicts.failed("gone")), _claim(verdicts.inconclusive("no answer"))
    broken = _claim(verdicts.error("no connection"))
    said = str(hf.VerificationError("r@1", (false,)))
    assert "r@1 does not verify" in said
    assert "Restore what is missing" in said
    assert "trust=" not in said
    said = str(hf.VerificationError("r@1", (unknown, broken)))
    assert "checkpoint r@1 can't be verified" in said
    assert "Put right" not in said
    assert 'trust="stored"' in said
    assert 'trust="skip"' in said
    said = str(hf.VerificationError("r@1", (false, unknown)))
    assert "r@1 does not verify" in said
    assert 'trust="stored"' in said


def test_advice_for_tasks_names_what_a_manager_has() -> None:
    error = hf.VerificationError("r@1", (_claim(verdicts.inconclusive("no answer")),))
    error.of_task = True
    for said in (str(error), str(pickle.loads(pickle.dumps(error)))):
        assert "trust=" not in said
        assert "rollback_to_checkpoint" in said


def test_the_guide_names_every_error() -> None:
    guide = (Path(__file__).parents[1] / "docs/reference/errors.md").read_text()
    drawn = set(re.findall(r"^[│├└─ ]*(\w+(?:Error|Warning))\b", guide, re.MULTILINE))
    assert drawn == set(errors.__all__)
    explained = set(re.findall(r"`(?:hf\.)?(\w+)`", guide))
    branches = {"CheckpointError", "EvidenceError", "RunError"}
    assert set(errors.__all__) - explained == branches
