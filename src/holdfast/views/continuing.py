"""Who continues a run that waits to be continued."""

from typing import Final

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta
from holdfast.engine.working.listing import list_workers
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import OF_CHILD
from holdfast.project import project_settings
from holdfast.views import threads
from holdfast.views.commands import PLACEHOLDER, Commands

_LONGEST_SOURCE: Final = 500  # characters


def has_worker(cp: SyncCheckpointer, run_id: str) -> bool:
    """Whether a living worker executes the flow of this run, or of the one that began it."""
    root = cp.run(run_id.partition(OF_CHILD)[0])
    return root is not None and any(
        root.flow in worker.flows for worker in list_workers(cp.core) if worker.state != "dead"
    )


def source_of(cp: SyncCheckpointer, run_id: str) -> str | None:
    """The MODULE:NAME that `holdfast run` started a run by, if it did. Only to be shown."""
    try:
        opening = cp.core.journals.opening(run_id)
        source = None if opening is None else Meta(opening).source
    except CheckpointCorruptedError:
        return None
    return source[:_LONGEST_SOURCE] if source else None


def then(commands: Commands, cp: SyncCheckpointer, info: RunInfo, run_id: str) -> str:
    """What to say behind what was done: how to continue `run_id`, a run of the same flow as `info`.

    Nothing where only the reader's own program can: checkpoints without a flow, and LangGraph's.
    """
    if info.flow is None or info.flow == threads.FLOW:
        return ""
    return f"; continue with: {commands.resume(run_id, source=source_of(cp, info.run_id))}"


def worker_command(commands: Commands, given: str | None = None) -> str:
    """The command that starts a worker.

    The flow is to be named, unless somebody named it here (`given`) or the project does.
    """
    return commands.line("worker", None, *flow_options(given))


def flow_options(given: str | None) -> list[str]:
    """The option that names a flow: as somebody `given` it here, never as a store has it."""
    if given is not None:
        return [f"--flow={given}"]
    return [] if project_settings()[1].get("flows", []) else [f"--flow={PLACEHOLDER}"]
