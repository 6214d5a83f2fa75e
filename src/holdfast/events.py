"""The events of a run, of whatever flow: what `stream` and a run's handle give.

async for event in engine.stream(report("Brest"), run_id="r-1"):
    print(json.dumps(event.to_dict()))
"""

from holdfast.engine.events import (
    CheckpointFailed,
    CheckpointRejected,
    CheckpointSaved,
    Event,
    QuestionAsked,
    RollbackCompleted,
    RollbackStarted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunStarted,
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

__all__ = [
    "CheckpointFailed",
    "CheckpointRejected",
    "CheckpointSaved",
    "Event",
    "QuestionAsked",
    "RollbackCompleted",
    "RollbackStarted",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunPaused",
    "RunStarted",
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
