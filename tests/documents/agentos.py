"""The examples of the checkpoint manager's design, with only their import line changed."""

from __future__ import annotations

from typing import Final

BEGIN_STEP: Final = """
step_id = manager.begin_step(
    task_id="task-123",
    checkpoint_type="iteration_start",
    snapshot={"iteration": 1, "state": "planning"}
)
"""

COMMIT_STEP: Final = """
evidence_pack = EvidencePack([
    Evidence(EvidenceType.ARTIFACT_EXISTS, "Log file", {"path": "/tmp/run.log"}),
])

checkpoint = manager.commit_step(step_id, evidence_pack)
"""

ROLLBACK: Final = """
try:
    snapshot = manager.rollback_to_checkpoint(checkpoint_id)
    # Restore state from snapshot
    restore_state(snapshot)
except CheckpointError as e:
    print(f"Rollback failed: {e}")
"""

EXAMPLE_1: Final = """
from holdfast.manager import CheckpointManager, EvidencePack, Evidence, EvidenceType

# Initialize manager
manager = CheckpointManager()

# Begin step
step_id = manager.begin_step(
    task_id="task-123",
    checkpoint_type="tool_executed",
    snapshot={"tool": "bash", "command": "ls -la", "result": "success"}
)

# Create evidence
evidence_pack = EvidencePack([
    Evidence(
        evidence_type=EvidenceType.ARTIFACT_EXISTS,
        description="Log file created",
        expected={"path": "/tmp/run.log"}
    )
])

# Commit checkpoint
checkpoint = manager.commit_step(step_id, evidence_pack)

print(f"Checkpoint created: {checkpoint.checkpoint_id}")
print(f"Verified: {checkpoint.verified}")
"""

EXAMPLE_2: Final = """
# Create comprehensive evidence pack
evidence_pack = EvidencePack([
    # File exists
    Evidence(
        evidence_type=EvidenceType.ARTIFACT_EXISTS,
        description="Output file created",
        expected={"path": "/tmp/output.txt", "type": "file"}
    ),
    # File hash
    Evidence(
        evidence_type=EvidenceType.FILE_SHA256,
        description="Output content verified",
        expected={
            "path": "/tmp/output.txt",
            "sha256": "abc123..."
        }
    ),
    # Command exit
    Evidence(
        evidence_type=EvidenceType.COMMAND_EXIT,
        description="Command succeeded",
        expected={"exit_code": 0}
    ),
    # Database row
    Evidence(
        evidence_type=EvidenceType.DB_ROW,
        description="Task status updated",
        expected={
            "table": "tasks",
            "where": {"task_id": "task-123"},
            "values": {"status": "completed"}
        }
    ),
])

step_id = manager.begin_step("task-123", "iteration_end", {"iteration": 1})
checkpoint = manager.commit_step(step_id, evidence_pack)
"""

EXAMPLE_3: Final = """
# Find last verified checkpoint
last_checkpoint = manager.get_last_verified_checkpoint("task-123")

if last_checkpoint:
    # Rollback to checkpoint
    snapshot = manager.rollback_to_checkpoint(last_checkpoint.checkpoint_id)

    # Restore state
    iteration = snapshot["iteration"]
    state = snapshot["state"]

    print(f"Resuming from iteration {iteration}")
else:
    print("No verified checkpoint found, starting from beginning")
"""

EXAMPLE_4: Final = """
# Allow partial verification (at least 2 out of 3)
evidence_pack = EvidencePack(
    evidence_list=[
        Evidence(EvidenceType.ARTIFACT_EXISTS, "File 1", {"path": "/tmp/f1.txt"}),
        Evidence(EvidenceType.ARTIFACT_EXISTS, "File 2", {"path": "/tmp/f2.txt"}),
        Evidence(EvidenceType.ARTIFACT_EXISTS, "File 3", {"path": "/tmp/f3.txt"}),
    ],
    require_all=False,
    allow_partial=True,
    min_verified=2
)

step_id = manager.begin_step("task-123", "tool_executed", {"result": "partial"})
checkpoint = manager.commit_step(step_id, evidence_pack)

# Check verification summary
summary = checkpoint.evidence_pack.verification_summary()
print(f"Verified: {summary['verified']}/{summary['total']}")
print(f"Is valid: {summary['is_verified']}")
"""

EXAMPLE_5: Final = """
# Create checkpoint without auto-verify
manager = CheckpointManager(auto_verify=False)

step_id = manager.begin_step("task-123", "iteration_start", {"iteration": 1})
checkpoint = manager.commit_step(step_id, evidence_pack)

# Verify later
is_verified = manager.verify_checkpoint(checkpoint.checkpoint_id)

if is_verified:
    print("Checkpoint verified successfully")
else:
    # Check individual evidence
    checkpoint = manager.get_checkpoint(checkpoint.checkpoint_id)
    for evidence in checkpoint.evidence_pack.evidence_list:
        if not evidence.verified:
            print(f"Failed: {evidence.description} - {evidence.verification_error}")
"""

INTEGRATION: Final = """
from holdfast.manager import CheckpointManager

def execute_task_with_checkpoints(task_id: str):
    manager = CheckpointManager()

    # Check for existing checkpoint
    last_checkpoint = manager.get_last_verified_checkpoint(task_id)

    if last_checkpoint:
        # Resume from checkpoint
        snapshot = manager.rollback_to_checkpoint(last_checkpoint.checkpoint_id)
        iteration = snapshot["iteration"] + 1
    else:
        # Start from beginning
        iteration = 1

    # Execute iterations
    while iteration <= max_iterations:
        # Begin step
        step_id = manager.begin_step(
            task_id=task_id,
            checkpoint_type="iteration_start",
            snapshot={"iteration": iteration, "state": get_state()}
        )

        try:
            # Do work
            result = execute_iteration(iteration)

            # Create evidence
            evidence_pack = create_evidence(result)

            # Commit checkpoint
            checkpoint = manager.commit_step(step_id, evidence_pack)

            if not checkpoint.verified:
                raise Exception("Checkpoint verification failed")

            iteration += 1

        except Exception as e:
            # Rollback to last checkpoint
            if last_checkpoint:
                manager.rollback_to_checkpoint(last_checkpoint.checkpoint_id)
            raise
"""
