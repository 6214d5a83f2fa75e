"""The events of a run, of whatever flow: what `stream`, a run's handle and listeners are given.

async for event in engine.stream(report("Brest"), run_id="r-1"):
    print(json.dumps(event.to_dict()))
"""

from holdfast.engine.events import (
    CheckpointFailed,
    CheckpointRejected,
    CheckpointSaved,
    QuestionAsked,
    RollbackCompleted,
    RollbackStarted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunStarted,
    RunStopped,
    StepArgumentsChanged,
    StepCompleted,
    StepEvent,
    StepFailed,
    StepOutput,
    StepProgress,
    StepRetrying,
    StepSkipped,
    StepStarted,
)
from holdfast.kernel.events import ClaimChecked, Event, SaveCommitted, SaveFailed

__all__ = [
    "CheckpointFailed",
    "CheckpointRejected",
    "CheckpointSaved",
    "ClaimChecked",
    "Event",
    "QuestionAsked",
    "RollbackCompleted",
    "RollbackStarted",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunPaused",
    "RunStarted",
    "RunStopped",
    "SaveCommitted",
    "SaveFailed",
    "StepArgumentsChanged",
    "StepCompleted",
    "StepEvent",
    "StepFailed",
    "StepOutput",
    "StepProgress",
    "StepRetrying",
    "StepSkipped",
    "StepStarted",
]
