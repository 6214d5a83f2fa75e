"""A pipeline as an engine sees it: where it comes from, and what is run of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from holdfast.engine.blocking import check_options
from holdfast.engine.effects import Call, mark
from holdfast.engine.flow import Wanted
from holdfast.engine.options import Strategy
from holdfast.engine.signatures import shows
from holdfast.engine.walking import time_travel
from holdfast.engine.walking.drawing import Picture
from holdfast.engine.walking.flow import WalkingFlow
from holdfast.kernel.core import Core, Op
from holdfast.pipeline import export, files
from holdfast.pipeline.definition import plan_of
from holdfast.pipeline.going_to import go_to
from holdfast.pipeline.options import PipelineOptions
from holdfast.pipeline.pipeline_plan import PipelinePlan
from holdfast.pipeline.pipeline_program import PipelineProgram
from holdfast.pipeline.registry import registry_of
from holdfast.pipeline.results import PipelineResult
from holdfast.pipeline.steps import Step

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier


class PipelineFlow(WalkingFlow[PipelineResult]):
    """The definition of a pipeline, as code or data gives it, and its calls."""

    @classmethod
    @shows(PipelineOptions)
    def from_dict(cls, definition: Mapping[str, Any], **options: Unpack[PipelineOptions]) -> Self:
        """The pipeline that data describes. It can name only what is in the `registry`."""
        pipeline = cls.__new__(cls)
        cls._define(pipeline, definition, **options)
        return pipeline

    @classmethod
    @shows(PipelineOptions)
    def from_file(cls, path: str | os.PathLike[str], **options: Unpack[PipelineOptions]) -> Self:
        """The pipeline that a `.json`, `.yaml` or `.yml` file describes.

        Raises `InvalidFlowError` that names the file and the lines, and `OSError`.
        """
        read = files.read(path)
        pipeline = cls.__new__(cls)
        cls._define(pipeline, read.data, read, **options)
        return pipeline

    def _define(
        self, given: Any, read: files.Read | None = None, **options: Unpack[PipelineOptions]
    ) -> None:
        check_options("Pipeline", options, PipelineOptions.__annotations__)
        self._registry = registry_of(options.get("registry"))
        migrate, rename = options.get("migrate"), options.get("rename")
        plan = plan_of(given, self._registry, read, migrate=migrate, rename=rename)
        plan.serve(options.get("services"))
        self._plan: PipelinePlan = plan
        self._verifier = options.get("verifier")

    @property
    def steps(self) -> dict[str, Step]:
        """The steps by id."""
        return dict(self._plan.steps)

    def to_dict(self) -> dict[str, Any]:
        """The definition: `from_dict` makes the same pipeline of it, with the same registry.

        Raises `ValueError` for a function that has no name there.
        """
        return export.definition_of(self._plan, self._registry)

    def to_json(self, *, indent: int | None = 2) -> str:
        """`to_dict` as text, for a file that `from_file` reads."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False) + "\n"

    def _picture(self) -> Picture:
        return export.picture_of(self._plan)

    def __call__(self, data: Any = None) -> Call[PipelineResult]:
        """What to run: `engine.run(pipeline(data))`. Awaited in a workflow, it is a child run."""
        return replace(self._call(data), mark=mark("call of", self.name))

    def program(self) -> PipelineProgram:
        """One execution of this pipeline, for the engine."""
        return PipelineProgram(self._plan)

    def inputs_from(self, data: Any) -> dict[str, Any]:
        """The state that a run begins with, from the pipeline's input."""
        return {"pipeline_input": data, "steps": {}}

    def pack(self, result: Any) -> Any:
        """A result, as the parent of a child run records it."""
        return {"steps": dict(result), "run_id": result.run_id, "output": result.output}

    def unpack(self, recorded: Any) -> PipelineResult:
        """The result that `pack` was given."""
        return PipelineResult(
            recorded["steps"],
            run_id=recorded["run_id"],
            status="completed",
            output=recorded["output"],
        )

    def go_back(
        self, core: Core, run_id: str, wanted: Wanted, *, take_over: bool = False
    ) -> Op[None]:
        """Continue with another step: back to one that has run, or forward."""
        if wanted.override is not None or wanted.validate is not None:
            raise ValueError("the state of a pipeline can't be overridden: fork the run instead")
        if wanted.from_step is not None:
            go_on = partial(go_to, core, self.program, self._plan)
            return go_on(run_id, wanted.from_step, take_over=take_over)
        go_back = partial(time_travel.go_back, core, self.program, self._plan)
        return go_back(run_id, wanted, take_over=take_over)

    @property
    def verifier(self) -> EvidenceVerifier | None:
        """What checks the claims of its steps, if not the default verifier."""
        return self._verifier

    @property
    def strategy(self) -> Strategy:
        """After every step, unless some are not to be saved."""
        marks = [step.checkpoint for step in self._plan.steps.values()]
        return Strategy.EVERY_STEP if all(marks) else Strategy.MARKED

    def _call(self, data: Any) -> Call[PipelineResult]:
        return Call(self, self.inputs_from(data))
