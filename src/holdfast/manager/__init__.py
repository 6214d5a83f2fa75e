"""Steps of outside programs: begun, then committed with evidence that is checked before it counts.

    manager = CheckpointManager("sqlite:///registry.db")
    step_id = manager.begin_step("task-123", "tool_executed", {"iteration": 1})
    checkpoint = manager.commit_step(step_id, EvidencePack([file_evidence("run.log")]))

Here: tasks and their steps in the journal. Not here: checking evidence (`holdfast.evidence`), and
executing anything: the caller does the work.
"""

from holdfast.errors import (
    CheckpointError,
    StepConflictError,
    StepNotFoundError,
    VerificationError,
)
from holdfast.evidence import (
    Evidence,
    EvidencePack,
    EvidenceType,
    EvidenceVerifier,
    Policy,
    Standing,
    VerificationStatus,
)
from holdfast.manager.checkpoint_manager import CheckpointManager
from holdfast.manager.task_checkpoint import StepInFlight, TaskCheckpoint
from holdfast.model import CheckpointType

__all__ = [
    "CheckpointError",
    "CheckpointManager",
    "CheckpointType",
    "Evidence",
    "EvidencePack",
    "EvidenceType",
    "EvidenceVerifier",
    "Policy",
    "Standing",
    "StepConflictError",
    "StepInFlight",
    "StepNotFoundError",
    "TaskCheckpoint",
    "VerificationError",
    "VerificationStatus",
]
