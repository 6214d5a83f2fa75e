"""The options of pipelines and of their runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from holdfast.engine.door import StoreLike
from holdfast.engine.options import RunOptions
from holdfast.migrations import Migrations
from holdfast.pipeline.registry import Registry, ServiceRegistry

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier


class FlowOptions(TypedDict, total=False):
    """What a program says about a pipeline that no definition can say: see `Pipeline`."""

    registry: Registry | Mapping[str, Callable[..., Any]] | None
    migrate: Migrations | None
    rename: Mapping[str, str] | None
    verifier: EvidenceVerifier | None


class PipelineOptions(FlowOptions, total=False):
    """Options of `from_dict` and `from_file`."""

    services: ServiceRegistry | Mapping[str, Any] | None
    checkpointer: StoreLike


class NewPipelineRun(RunOptions, total=False):
    """Options of a pipeline's own `run` and `stream`."""

    run_id: str | None
    owner: str | None


class ResumePipeline(RunOptions, total=False):
    """Options of a pipeline's own `resume`: which run of the thread, and an answer for it.

    With `owner`, a run that belongs to anybody else raises `NotOwnerError`.
    """

    run_id: str | None
    answer: Any
    question: str | None
    by: str | None
    owner: str | None
