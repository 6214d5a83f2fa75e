"""Checkpoints of workflows by name: the Maverick contract, as a thin view of a checkpointer.

What an engine recorded is seen here, one checkpoint for every finished step; what is saved here by
hand is an ordinary checkpoint of the run. Where this differs from the contract on purpose,
docs/documents/deviations.md says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, Protocol, TypeVar, Unpack, runtime_checkable

from holdfast import errors
from holdfast.checkpoint import aware, to_datetime
from holdfast.codec.revive import revive
from holdfast.documents.views import CheckpointerView, outages_as, unless_needed
from holdfast.documents.workflow_results import (
    StepResult,
    WorkflowResult,
    name_of,
    result_of,
    steps_in,
)
from holdfast.engine import launch
from holdfast.engine.blocking import check_options
from holdfast.engine.door import Door, StoreLike
from holdfast.engine.flow import Registry
from holdfast.engine.inputs import inputs_hash
from holdfast.engine.launch import Prepared
from holdfast.engine.launcher import Launcher
from holdfast.engine.options import RunOptions
from holdfast.engine.resume.history import History
from holdfast.engine.stream import Stream
from holdfast.errors import CheckpointSaveError, ReviveError
from holdfast.kernel.core import Core
from holdfast.model import Entry, Kind, check_id
from holdfast.operations import deleting, reading, saving
from holdfast.seams import new_id
from holdfast.workflow.flow import Workflow

__all__ = [
    "CheckpointData",
    "CheckpointNotFoundError",
    "CheckpointStore",
    "FileCheckpointStore",
    "MemoryCheckpointStore",
    "StepResult",
    "StoreView",
    "WorkflowEngine",
    "WorkflowResult",
    "compute_inputs_hash",
]

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_PATH: Final = ".holdfast/checkpoints"

compute_inputs_hash = inputs_hash


@dataclass(frozen=True, slots=True)
class CheckpointData:
    """How far a workflow had come: the outcomes of its steps up to one of them."""

    checkpoint_id: str  # the step's name, unique in the run
    workflow_name: str
    inputs_hash: str
    step_results: tuple[StepResult, ...]
    saved_at: datetime  # for people: order is by sequence; a naive one is local time

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_results", tuple(self.step_results))
        if self.saved_at.tzinfo is None:
            object.__setattr__(self, "saved_at", aware(self.saved_at))

    def to_dict(self) -> dict[str, Any]:
        """The contract's JSON form, with the outputs of the steps as they are."""
        return {
            "checkpoint_id": self.checkpoint_id,
            "workflow_name": self.workflow_name,
            "inputs_hash": self.inputs_hash,
            "step_results": [step.to_dict() for step in self.step_results],
            "saved_at": aware(self.saved_at).isoformat().replace("+00:00", "Z"),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CheckpointData:
        """What `to_dict` was called on. Raises `ValueError` that says where anything else differs."""
        if not isinstance(data, Mapping):
            raise ValueError(f"no checkpoint of a workflow: {type(data).__name__}, not an object")
        given = dict(data)
        try:
            if isinstance(given.get("saved_at"), str):
                given["saved_at"] = datetime.fromisoformat(given["saved_at"])
            if isinstance(given.get("step_results"), list):
                given["step_results"] = tuple(given["step_results"])
            return revive(given, cls, root="checkpoint")
        except ReviveError as error:  # behind it comes advice for the author of the type
            reason = f"{error.path}: {error.reason.partition('; ')[0]}"
        except ValueError as error:
            reason = f"checkpoint.saved_at: {error}"
        raise ValueError(f"no checkpoint of a workflow: {reason}")


@runtime_checkable
class CheckpointStore(Protocol):
    """Keeps the checkpoints of workflows, by the workflow's id and a name. Safe to share."""

    async def save(self, workflow_id: str, data: CheckpointData) -> None:
        """Save a checkpoint, durably and whole. The newest of a name wins. Raises `OSError`."""

    async def load(self, workflow_id: str, checkpoint_id: str) -> CheckpointData | None:
        """The newest checkpoint of this name; None if there is none.

        Raises `OSError` when it can't be read, and `ValueError` when it is not what was saved.
        """

    async def load_latest(self, workflow_id: str) -> CheckpointData | None:
        """The checkpoint that was saved last, whatever its clock says. Raises like `load`."""

    async def clear(self, workflow_id: str) -> None:
        """Remove all checkpoints of a workflow, at once. Raises `OSError`."""

    async def list_checkpoints(self, workflow_id: str) -> list[str]:
        """The names that `load` knows, each once, in the order they first appeared."""


class StoreView(CheckpointerView):
    """Any store or checkpointer, sync or async, as a `CheckpointStore`. Opened on first use.

    Saves are as durable as the checkpointer makes them, by default before they return. Every
    method raises `InvalidIdError`, a `ValueError`, for ids that no store could keep.
    """

    def __init__(self, store: StoreLike = None) -> None:
        super().__init__(store)

    async def save(self, workflow_id: str, data: CheckpointData) -> None:
        """Save a checkpoint whole, behind those that are there: of a name, the newest wins."""
        with outages_as(CheckpointSaveError, workflow_id):
            core = self._opened.checkpointer.core
            state, name = data.to_dict(), data.checkpoint_id
            await core.drive_async(saving.save(core, workflow_id, state, step=name))

    async def load(self, workflow_id: str, checkpoint_id: str) -> CheckpointData | None:
        """The newest checkpoint of this name; None if there is none.

        For a step that an engine recorded, it holds every recorded step up to that one.
        """
        return await self._read(_newest, workflow_id, checkpoint_id)

    async def load_latest(self, workflow_id: str) -> CheckpointData | None:
        """The newest checkpoint, by sequence; None if there is none."""
        return await self._read(_newest, workflow_id, None)

    async def clear(self, workflow_id: str, *, force: bool = False) -> None:
        """Remove all checkpoints of a workflow, at once.

        Raises `RunActiveError` for a run that a living process executes, or that is paused,
        unless forced.
        """
        with outages_as(CheckpointSaveError, workflow_id):
            await self._off_loop(_clear, workflow_id, force)

    async def list_checkpoints(self, workflow_id: str) -> list[str]:
        """The names that `load` knows, each once, in the order they first appeared."""
        return await self._read(_names, workflow_id)


class CheckpointNotFoundError(errors.CheckpointNotFoundError):
    """There is no such run, or no such checkpoint in it."""

    @property
    def workflow_id(self) -> str:
        """The run."""
        return self.run_id


class WorkflowEngine(Door):
    """The contract's engine: `hf.Engine` with the workflow and its inputs apart.

    The store is opened on first use.
    """

    def __init__(
        self,
        checkpoint_store: StoreLike | Literal[False] = None,
        **options: Unpack[RunOptions],
    ) -> None:
        check_options("WorkflowEngine", options, RunOptions.__annotations__)
        keeps = checkpoint_store is not False
        super().__init__(checkpoint_store if keeps else "memory://")
        self._launcher = Launcher(Registry(), options, None, keeps=keeps, executors=self._executors)
        self._workflow_id: str | None = None

    @property
    def workflow_id(self) -> str | None:
        """The id of the run that this engine executed last."""
        return self._workflow_id

    def execute(
        self, flow: Workflow[..., Any], /, *, workflow_id: str | None = None, **inputs: Any
    ) -> Stream:
        """Start a run; iterate over the returned stream to execute it and see its events."""
        self._workflow_id = new_id() if workflow_id is None else workflow_id
        start = partial(
            launch.start,
            make=flow.program,
            run_id=self._workflow_id,
            inputs=flow.inputs_from(inputs),
            options=self._launcher.options(flow, {}, listening=True),
        )
        return launch.stream(self._opened, start)

    def resume(self, flow: Workflow[..., Any], /, *, workflow_id: str, **inputs: Any) -> Stream:
        """Resume a run; inputs may be omitted, given ones must be those that it began with.

        Raises `CheckpointNotFoundError` for an unknown run, `InputMismatchError`, and
        `RunFinishedError`.
        """
        self._workflow_id = workflow_id
        given = flow.inputs_from(inputs) if inputs else None
        options = self._launcher.options(flow, {}, listening=True)

        async def resume(core: Core) -> Prepared:
            with _missing_workflows():
                return await launch.resume(core, flow.program, workflow_id, given, options)

        return launch.stream(self._opened, resume)

    def get_result(self, workflow_id: str | None = None) -> WorkflowResult:
        """The result of a run so far: the last one of this engine, or the one of this id. Blocks.

        Raises `CheckpointNotFoundError` for an unknown run.
        """
        run_id = self._workflow_id if workflow_id is None else workflow_id
        if run_id is None:
            raise ValueError("get_result needs a workflow_id: this engine has executed no run yet")
        with _missing_workflows():
            return result_of(self.checkpointer.core, run_id)


@contextmanager
def _missing_workflows() -> Iterator[None]:
    try:
        yield
    except errors.CheckpointNotFoundError as missing:
        raise CheckpointNotFoundError(missing.run_id, missing.checkpoint_id) from None


class FileCheckpointStore(StoreView):
    """Checkpoints as JSON files that people can read, below a directory."""

    def __init__(self, base_path: str | os.PathLike[str] | None = None) -> None:
        path = Path(DEFAULT_PATH if base_path is None else base_path)
        super().__init__(path.absolute().as_uri())


class MemoryCheckpointStore(StoreView):
    """Checkpoints that end with the process, for tests."""

    def __init__(self) -> None:
        super().__init__("memory://")


def _clear(core: Core, run: str, force: bool) -> None:
    deleting.clear_family(core, check_id("run_id", run), unless_needed(core, force))


def _branch(core: Core, run: str) -> Iterator[Entry]:
    """The checkpoints with a name that led to where the run stands, newest first."""
    return (entry for entry in core.journals.branch(check_id("run_id", run)) if entry.step)


def _names(core: Core, run: str) -> list[str]:
    def find() -> list[str]:
        return [name_of(entry) for entry in _branch(core, run)]

    newest_first = core.journals.undisturbed(run, find)
    return list(dict.fromkeys(reversed(newest_first)))


def _newest(core: Core, run: str, name: str | None) -> CheckpointData | None:
    def find() -> Entry | None:
        return next((e for e in _branch(core, run) if name in (None, name_of(e))), None)

    entry = core.journals.undisturbed(run, find)
    if entry is None:
        return None
    if entry.kind == Kind.RESULT:
        return _recorded(core, entry)
    saved = reading.load(core, run, seq=entry.seq)
    return None if saved is None else CheckpointData.from_dict(saved.state)


def _recorded(core: Core, entry: Entry) -> CheckpointData:
    """What an engine's journal says about a step and those before it."""
    history = History(core, entry.run, whole=True)
    return CheckpointData(
        checkpoint_id=name_of(entry),
        workflow_name=history.opening.flow or "",
        inputs_hash=history.meta(history.opening).inputs_hash or "",
        step_results=tuple(steps_in(history, up_to=entry.seq)),
        saved_at=to_datetime(entry.at),
    )
