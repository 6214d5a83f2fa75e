"""The examples of the IA Modules design, with only their import lines changed."""

from __future__ import annotations

from typing import Final

BASIC: Final = """
from holdfast.pipeline import Pipeline
from holdfast.documents.iamodules import PostgresCheckpointer

# Create checkpointer
checkpointer = PostgresCheckpointer(
    connection_string="postgresql://localhost/ia_modules"
)


# Create pipeline with checkpointing
pipeline = Pipeline(
    steps=steps,
    flow=flow,
    checkpointer=checkpointer
)

# Run with thread ID
result = await pipeline.run(
    data={'input': 'Hello'},
    thread_id='user-123'  # Checkpoints scoped to this thread
)
"""

RESUME: Final = """
try:
    result = await pipeline.run(
        data={'input': 'Hello'},
        thread_id='user-123'
    )
except Exception as e:
    print(f"Pipeline failed: {e}")

    # Later... resume from last checkpoint
    result = await pipeline.resume(thread_id='user-123')
    print(f"Resumed and completed: {result}")
"""

HUMAN: Final = """
# Start pipeline
result = await pipeline.run(
    data={'document': 'Draft content...'},
    thread_id='review-123'
)

# Pipeline pauses at HumanInputStep
# Show UI to user, wait for approval...

# Days later... resume after approval
result = await pipeline.resume(
    thread_id='review-123',
    from_step='publish_step'  # Skip to specific step
)
"""

HISTORY: Final = """
# List all checkpoints for a thread
checkpoints = await checkpointer.list_checkpoints(
    thread_id='user-123',
    limit=10
)

for cp in checkpoints:
    print(f"Step: {cp.step_id} at {cp.timestamp}")
    print(f"State size: {cp.get_state_size()} bytes")

# Load specific checkpoint
old_checkpoint = await checkpointer.load_checkpoint(
    thread_id='user-123',
    checkpoint_id=checkpoints[5].checkpoint_id
)

# Resume from that checkpoint
result = await pipeline.resume_from_checkpoint(old_checkpoint)
"""

CLEANUP: Final = """
# Delete checkpoints older than 7 days
from datetime import timedelta

deleted = await checkpointer.delete_checkpoints(
    thread_id='user-123',
    before=datetime.now() - timedelta(days=7)
)
print(f"Deleted {deleted} old checkpoints")

# Or keep only latest 5
deleted = await checkpointer.delete_checkpoints(
    thread_id='user-123',
    keep_latest=5
)
"""
