"""Workflows: a generator or `async def` whose steps are recorded, and resumed where they stopped.

from holdfast.workflow import WorkflowEngine, step, workflow

@workflow("report")
def report(topic: str):
    text = yield step("write").python(write, args=(topic,)).retry(3)
    return (yield step("publish").python(publish, args=(text,)))

result = await WorkflowEngine("sqlite:///runs.db").run(report, workflow_id="r-1", topic="kelp")

Here: steps and what combines them, `@workflow`, the interpreter that replays a flow's code, and the
engine class users call. Not here: executing, retrying and recording steps (`holdfast.engine`).
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
    StepCompleted,
    StepFailed,
    StepProgress,
    StepRetrying,
    StepSkipped,
    StepStarted,
)
from holdfast.engine.options import Strategy as CheckpointStrategy
from holdfast.engine.people.questions import FAIL, Approval, Question
from holdfast.engine.retry import Retry
from holdfast.workflow.combinators import approve, ask, branch, for_each, parallel, read_run
from holdfast.workflow.engine import WorkflowEngine
from holdfast.workflow.flow import Flow, Workflow, workflow
from holdfast.workflow.results import StepResult, WorkflowResult
from holdfast.workflow.step import Step, command, step

__all__ = [
    "FAIL",
    "Approval",
    "CheckpointFailed",
    "CheckpointRejected",
    "CheckpointSaved",
    "CheckpointStrategy",
    "Event",
    "Flow",
    "Question",
    "QuestionAsked",
    "Retry",
    "RollbackCompleted",
    "RollbackStarted",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunPaused",
    "RunStarted",
    "Step",
    "StepCompleted",
    "StepFailed",
    "StepProgress",
    "StepResult",
    "StepRetrying",
    "StepSkipped",
    "StepStarted",
    "Workflow",
    "WorkflowEngine",
    "WorkflowResult",
    "approve",
    "ask",
    "branch",
    "command",
    "for_each",
    "parallel",
    "read_run",
    "step",
    "workflow",
]
