from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.evidence import Evidence, EvidencePack, EvidenceType, file_evidence
from holdfast.manager import CheckpointManager, TaskCheckpoint


def exists(*paths: str | Path, **options: Any) -> EvidencePack:
    """A pack that claims that there is something at each path."""
    claims = [
        Evidence(EvidenceType.ARTIFACT_EXISTS, f"{path} is there", {"path": str(path)})
        for path in paths
    ]
    return EvidencePack(claims, **options)


def unchanged(*paths: str | Path) -> EvidencePack:
    return EvidencePack([file_evidence(path) for path in paths])


def exit_code(code: int = 0) -> EvidencePack:
    return EvidencePack([Evidence(EvidenceType.COMMAND_EXIT, "it ran", {"exit_code": code})])


def step(
    manager: CheckpointManager,
    snapshot: dict[str, Any],
    pack: EvidencePack,
    task: str = "task",
    kind: str = "iteration_end",
    **options: Any,
) -> TaskCheckpoint:
    """A step, begun and committed."""
    return manager.commit_step(manager.begin_step(task, kind, snapshot, **options), pack)


def numbers(checkpoints: list[TaskCheckpoint]) -> list[Any]:
    return [checkpoint.snapshot_data["n"] for checkpoint in checkpoints]
