"""What errors of the manager advise works."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast as hf
from holdfast.evidence import EvidencePack, file_evidence
from holdfast.manager import CheckpointManager


def committed(manager: CheckpointManager, file: Path) -> str:
    file.write_text(file.name)
    step_id = manager.begin_step("task", "iteration_end", {"file": file.name})
    return manager.commit_step(step_id, EvidencePack([file_evidence(file)])).checkpoint_id


def test_a_checkpoint_that_does_not_verify_is_put_right_or_an_older_one_is_used(
    manager: CheckpointManager, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    older, newer = committed(manager, first), committed(manager, second)
    second.unlink()
    with pytest.raises(hf.VerificationError, match="or go back to an older checkpoint"):
        manager.rollback_to_checkpoint(newer)
    assert manager.rollback_to_checkpoint(older) == {"file": "first"}
    second.write_text("second")
    assert manager.rollback_to_checkpoint(newer) == {"file": "second"}


def test_a_step_that_is_not_known_is_found_among_those_in_flight(
    manager: CheckpointManager, tmp_path: Path
) -> None:
    manager.begin_step("task", "iteration_end", {})
    (tmp_path / "a").touch()
    pack = EvidencePack([file_evidence(tmp_path / "a")])
    with pytest.raises(hf.StepNotFoundError, match=r"look at steps_in_flight\(\)"):
        manager.commit_step("task@7", pack)
    [waiting] = manager.steps_in_flight()
    assert manager.commit_step(waiting.step_id, pack).verified


def test_a_name_of_the_form_of_an_id_is_replaced_by_one_of_your_own(
    manager: CheckpointManager, tmp_path: Path
) -> None:
    step_id = manager.begin_step("task", "iteration_end", {})
    (tmp_path / "a").touch()
    pack = EvidencePack([file_evidence(tmp_path / "a")])
    with pytest.raises(hf.InvalidIdError, match="choose a name of your own"):
        manager.commit_step(step_id, pack, checkpoint_id="task@1")
    assert manager.commit_step(step_id, pack, checkpoint_id="mine").checkpoint_id == "mine"
