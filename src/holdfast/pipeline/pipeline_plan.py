"""A pipeline as it runs: steps, and the paths between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple

from holdfast.engine.walking.plan import END, Plan
from holdfast.errors import ReviveError
from holdfast.pipeline.conditions import Condition
from holdfast.pipeline.problems import Problems
from holdfast.pipeline.references import Template
from holdfast.pipeline.registry import ServiceRegistry
from holdfast.pipeline.steps import Step

FAILURE: Final = "end_with_failure"


class Path(NamedTuple):
    """A way that a run may take after a step, to one step or to several side by side."""

    source: str
    targets: tuple[str, ...]
    condition: Condition


class Loop(NamedTuple):
    """How often and how long a run may repeat the same steps."""

    max_iterations: int = 100
    max_loop_time_seconds: float | None = None
    iteration_delay_seconds: float = 0.0


NO_LOOP: Final = Loop()


@dataclass(frozen=True)
class PipelinePlan(Plan):
    """A pipeline that nobody changes any more."""

    steps: Mapping[str, Step] = field(default_factory=dict)
    inputs: Mapping[str, Template | None] = field(default_factory=dict)
    paths: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    loop: Loop = NO_LOOP
    parameters: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""

    flow_word: ClassVar[str] = "pipeline"
    node_word: ClassVar[str] = "step"
    edge_word: ClassVar[str] = "path"
    making: ClassVar[str] = "Give it"
    branches_have_states: ClassVar[bool] = False

    def fit(self, state: Any) -> None:
        """Raise `ReviveError` unless data is a state: an input, and the outputs of steps by id."""
        if not isinstance(state, dict) or state.keys() != {"pipeline_input", "steps"}:
            raise ReviveError("state", "must be a dict with pipeline_input and steps, and no more")
        if not isinstance(state["steps"], dict):
            raise ReviveError("state.steps", "must be a dict of outputs by step")

    def serve(self, services: ServiceRegistry | Mapping[str, Any] | None) -> None:
        """Let the steps use the services; a step belongs to one set of them."""
        registry = services if isinstance(services, ServiceRegistry) else ServiceRegistry(services)
        problems = Problems()
        for index, step in enumerate(self.steps.values()):
            known = getattr(step, "services", registry)
            if services is not None and known != registry:
                problems.at("steps", index).add(f"{step.id!r} has other services already")
            step.services = known
        problems.settle(f"pipeline {self.flow!r}")

    def ways_on(self, name: str) -> tuple[str, ...]:
        """Where a step leads to, without the ends that a branch may reach before it joins.

        Branches join at the first step that all of them reach which do not end before it.
        """
        return self._ways[name]

    @cached_property
    def _ways(self) -> dict[str, tuple[str, ...]]:
        onward = {
            name: tuple(target for target in self.possible_targets(name) if target in self.nodes)
            for name in self.nodes
        }
        leads: dict[str, list[str]] = {}
        for name, targets in onward.items():
            for target in targets:
                leads.setdefault(target, []).append(name)
        ending: set[str] = set()
        todo = [name for name, targets in onward.items() if not targets]
        while todo:
            name = todo.pop()
            if name not in ending:
                ending.add(name)
                todo += leads.get(name, ())
        # A loop whose only way out is an end must keep it.
        return {
            name: targets if targets and name in ending else (*targets, *self._end_of(name))
            for name, targets in onward.items()
        }

    def _end_of(self, name: str) -> tuple[str, ...]:
        return (END,) if any(t in self.ends for t in self.possible_targets(name)) else ()

    def before_join(self, first: str, join: str) -> set[str]:
        """The steps that a branch may reach before it joins the others."""
        found: set[str] = set()
        todo = [first]
        while todo:
            name = todo.pop()
            if name not in found and name != join and name in self.nodes:
                found.add(name)
                todo += self.possible_targets(name)
        return found
