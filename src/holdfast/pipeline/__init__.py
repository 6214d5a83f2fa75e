"""Pipelines: steps and the paths between them as data, saved after every step.

from holdfast.pipeline import HumanInputStep, Pipeline, Step

pipeline = Pipeline(
    steps=[Draft("draft"), HumanInputStep("review", prompt="Publish?")],
    flow={
        "start_at": "draft",
        "paths": [{"from": "draft", "to": "review"}, {"from": "review", "to": "end"}],
    },
    checkpointer="sqlite:///runs.db",
)
result = await pipeline.run({"topic": "kelp"}, thread_id="user-123")
result = await pipeline.resume("user-123", answer={"approved": True})

Here: definitions as data and their problems, references, conditions, steps, and runs by thread. Not
here: walking, forking and joining (`holdfast.engine.walking`), which graphs share.
"""

from holdfast.engine.people.questions import Question
from holdfast.engine.retry import Retry
from holdfast.pipeline.definition import definition_schema
from holdfast.pipeline.pipeline import Pipeline
from holdfast.pipeline.registry import Registry, ServiceRegistry
from holdfast.pipeline.results import PipelineResult
from holdfast.pipeline.steps import HumanInputStep, SleepStep, Step

__all__ = [
    "HumanInputStep",
    "Pipeline",
    "PipelineResult",
    "Question",
    "Registry",
    "Retry",
    "ServiceRegistry",
    "SleepStep",
    "Step",
    "definition_schema",
]
