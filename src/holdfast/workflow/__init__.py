"""Workflows: functions whose steps are recorded, and resumed where they stopped.

    import holdfast as hf
    from holdfast.workflow import step, workflow

    @step(retry=3)
    def write(topic: str) -> str: ...

    @workflow
    async def report(topic: str) -> str:
        return await write(topic)

    text = hf.Engine("sqlite:///runs.db").run_sync(report("kelp"), run_id="r-1")

Here: steps and what combines them, `@workflow`, and the interpreter that replays a flow's code.
Not here: executing, retrying and recording steps, and the engine that users call
(`holdfast.engine`), and the events of a run (`holdfast.events`).
"""

from holdfast.engine.options import Strategy as CheckpointStrategy
from holdfast.engine.people.questions import FAIL, Approval, Question
from holdfast.engine.retry import Retry
from holdfast.workflow.combinators import approve, ask, branch, for_each, parallel, read_run, sleep
from holdfast.workflow.commands import command
from holdfast.workflow.decorator import step
from holdfast.workflow.flow import Flow, Workflow, workflow
from holdfast.workflow.step import Step, Validation

__all__ = [
    "FAIL",
    "Approval",
    "CheckpointStrategy",
    "Flow",
    "Question",
    "Retry",
    "Step",
    "Validation",
    "Workflow",
    "approve",
    "ask",
    "branch",
    "command",
    "for_each",
    "parallel",
    "read_run",
    "sleep",
    "step",
    "workflow",
]
