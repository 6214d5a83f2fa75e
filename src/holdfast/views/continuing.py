"""Who continues a run that waits to be continued."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta
from holdfast.engine.resume.activity import is_for_workers
from holdfast.engine.working.listing import list_workers
from holdfast.errors import CheckpointCorruptedError, KeyMissingError
from holdfast.model import OF_CHILD, Status
from holdfast.operations.children import root_of
from holdfast.project import project_settings
from holdfast.views import threads
from holdfast.views.commands import PLACEHOLDER, Commands, meaning
from holdfast.views.rescue import Advice
from holdfast.views.runs import doing

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


def or_again(source: str | None) -> str:
    """What to say before the command that continues a run: the same is done by the program that
    began it, if it was one, and not `holdfast run`."""
    return "" if source else "start your program again, or "


def outermost(cp: SyncCheckpointer, info: RunInfo) -> RunInfo:
    """The run that is to be continued: of a child run, the one that it belongs to in the end."""
    with suppress(CheckpointCorruptedError, KeyMissingError):  # nobody can tell
        root = root_of(cp.core, info.run_id)
        if root is not None and root.run != info.run_id:
            return cp.run(root.run) or info
    return info


def after_an_answer(commands: Commands, cp: SyncCheckpointer, info: RunInfo) -> Advice | None:
    """How to continue a run that was answered, or the one it is a child of; None if a worker does."""
    info = outermost(cp, info)
    if has_worker(cp, info.run_id):
        return None
    if is_for_workers(cp.core, info.run_id):
        worker = worker_command(commands)
        why = "no worker is alive to continue it; start one:"
        return Advice(why, worker, meaning(worker, info.flow))
    source = source_of(cp, info.run_id)
    resume = commands.resume(info.run_id, source=source)
    return Advice(f"{or_again(source)}continue with:", resume, meaning(resume, info.flow, source))


def way_on(
    commands: Commands, cp: SyncCheckpointer, info: RunInfo, again: Callable[..., str]
) -> str:
    """What can be done with a run that exists, where somebody wanted to start it.

    `again` is the command that continues it, by `name`: resume or retry.
    """
    if info.status in (Status.COMPLETED, Status.CANCELLED):
        return f"look at it with: {commands.line('show', info.run_id)}"
    facts = doing(cp, info)[1]
    if info.status == Status.RUNNING and not (facts.get("orphaned") or facts.get("answered")):
        return f"watch it with: {commands.line('watch', info.run_id)}"
    failed = info.status == Status.FAILED
    return f"continue it with: {again(name='retry') if failed else again()}"


def then(commands: Commands, cp: SyncCheckpointer, info: RunInfo, run_id: str) -> Advice | None:
    """How to continue `run_id`, a run of the same flow as `info`.

    None where only the reader's own program can: checkpoints without a flow, and LangGraph's.
    """
    if info.flow is None or info.flow == threads.FLOW:
        return None
    source = source_of(cp, info.run_id)
    resume = commands.resume(run_id, source=source)
    return Advice("continue with:", resume, meaning(resume, info.flow, source))


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
