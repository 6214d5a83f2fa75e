"""A pipeline as data again, and as a picture."""

from __future__ import annotations

from typing import Any

from holdfast.engine.walking.drawing import Arrow, Picture
from holdfast.pipeline.pipeline_plan import NO_LOOP, Path, PipelinePlan
from holdfast.pipeline.registry import Registry


def definition_of(plan: PipelinePlan, registry: Registry) -> dict[str, Any]:
    """The definition that makes this plan. Raises `ValueError` for a function without a name."""
    ways = [way for ways in plan.paths.values() for way in ways]
    limits = {key: value for key, value in plan.loop._asdict().items() if value is not None}
    definition: dict[str, Any] = {
        "name": plan.flow,
        "version": plan.version,
        "description": plan.description,
        "parameters": dict(plan.parameters),
        "steps": [step.to_dict(registry) for step in plan.steps.values()],
        "flow": {"start_at": plan.entry, "paths": [_path(way, registry) for way in ways]},
        "loop_config": None if plan.loop == NO_LOOP else limits,
    }
    return {key: value for key, value in definition.items() if value}


def _path(way: Path, registry: Registry) -> dict[str, Any]:
    to = way.targets[0] if len(way.targets) == 1 else list(way.targets)
    path: dict[str, Any] = {"from": way.source, "to": to}
    return path | ({"condition": way.condition.to_dict(registry)} if way.condition.words else {})


def picture_of(plan: PipelinePlan) -> Picture:
    """What is drawn of a pipeline: its steps, with the conditions on its arrows."""
    used = [end for end in plan.ends if any(end in to for to in plan.edges.values())]
    arrows = [
        Arrow(way.source, target, way.condition.words, decided=len(ways) > 1)
        for ways in plan.paths.values()
        for way in ways
        for target in way.targets
    ]
    return Picture(plan.entry, plan.nodes, [(end, end) for end in used], arrows)
