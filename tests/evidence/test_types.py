"""A type of evidence is one module: what it admits, what a claim is about, how it is checked."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.meta import OBSERVED
from holdfast.errors import InvalidEvidenceError
from holdfast.evidence import (
    Evidence,
    EvidencePack,
    EvidenceType,
    EvidenceVerifier,
    Policy,
    VerificationStatus,
    checks,
    register_type,
)
from holdfast.evidence.trust.checking import Checker
from holdfast.manager import CheckpointManager

MODULE = '''
"""queue_length: a queue, a directory of messages, has at most so many of them."""

import sys
from pathlib import Path

from holdfast.evidence import failed, register_type, verified
from holdfast.evidence.checks.fields import Fields


def admit(evidence, policy):
    fields = Fields(evidence, "queue", "most")
    return fields.required("queue", str), fields.required("most", int)


def subject(evidence):
    return evidence.expected["queue"]


def check(evidence, context):
    queue, most = admit(evidence, context.policy)
    found = len(list(Path(queue).iterdir()))
    return verified() if found <= most else failed(f"{queue} has {found} messages, not {most}")


register_type("queue_length", sys.modules[__name__])
'''


@pytest.fixture(autouse=True)
def queue_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "queue_length.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(checks, "_registered", {})
    yield importlib.import_module("queue_length")
    del sys.modules["queue_length"]


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    (tmp_path / "mail").mkdir()
    return tmp_path / "mail"


def at_most(mail: Path, most: Any) -> Evidence:
    return Evidence("queue_length", "the mail went out", {"queue": mail, "most": most})


def test_a_module_adds_a_type_of_evidence(mail: Path) -> None:
    verifier = EvidenceVerifier()
    assert verifier.verify_evidence(at_most(mail, 0))
    (mail / "1").touch()
    claim = at_most(mail, 0)
    assert not verifier.verify_evidence(claim)
    assert claim.verification_status is VerificationStatus.FAILED
    assert "has 1 messages, not 0" in str(claim)


def test_a_malformed_claim_of_an_added_type_is_refused_before_it_is_saved(mail: Path) -> None:
    verifier = EvidenceVerifier()
    verifier.refuse_unverifiable(EvidencePack([at_most(mail, 1)]))
    with pytest.raises(InvalidEvidenceError, match="most must be int"):
        verifier.refuse_unverifiable(EvidencePack([at_most(mail, "1")]))
    with pytest.raises(InvalidEvidenceError, match="register_type"):
        verifier.refuse_unverifiable(EvidencePack([Evidence("queue_size", "q", {})]))


def test_a_later_claim_of_an_added_type_supersedes_an_earlier_one_also_in_a_fork(
    mail: Path,
) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        manager = CheckpointManager(cp, auto_verify=False)
        for n in range(3):
            step = manager.begin_step("task", "iteration_end", {"n": n})
            manager.commit_step(step, EvidencePack([at_most(mail, n)]))
        (mail / "1").touch()
        (mail / "2").touch()
        newest = manager.get_last_verified_checkpoint("task")
        assert newest is not None
        assert newest.state == {"n": 2}
        cp.fork("task", run_id="fork")
        (entry,) = cp.core.journals.branch("fork")
        assert "inherited" not in entry.meta, "the newest claim supersedes the others"
        assert Checker(cp.core, EvidenceVerifier()).check(entry).holds
        (mail / "3").touch()
        assert not Checker(cp.core, EvidenceVerifier()).check(entry).holds


@pytest.mark.parametrize("recorded", [None, [], [7, None], {"subjects": ["0" * 32]}, "x"])
def test_what_is_recorded_beside_a_claim_never_changes_it(mail: Path, recorded: Any) -> None:
    pack = EvidencePack([at_most(mail, 0)]).to_dict() | {OBSERVED: recorded}
    assert EvidencePack.from_dict(pack) == EvidencePack([at_most(mail, 0)])
    assert EvidencePack.from_dict(pack).evidence_list[0].subject == f"custom:{mail}"


def test_an_added_type_can_not_supersede_claims_of_a_built_in_type() -> None:
    class Path:
        def admit(self, evidence: Evidence, policy: Policy) -> None: ...

        def subject(self, evidence: Evidence) -> str:
            return "path:/a"

        def check(self, evidence: Evidence, context: Any) -> bool:
            return True

    register_type("paths", Path())
    assert Evidence("paths", "a", {}).subject == "custom:path:/a"
    for name in ("file_sha256", ""):
        with pytest.raises(ValueError, match="choose a name of your own"):
            register_type(name, Path())


def test_a_type_that_can_not_name_a_subject_stands_for_itself(queue_length: ModuleType) -> None:
    claim = Evidence("queue_length", "no queue", {})
    assert claim.subject == f"claim:{claim.digest}"


@pytest.mark.parametrize("name", EvidenceType)
def test_every_built_in_type_is_a_module_with_the_same_functions(name: EvidenceType) -> None:
    module = checks.type_named(name)
    assert module is not None
    for function in ("admit", "subject", "check"):
        assert callable(getattr(module, function))
