"""Who continues a run that waits to be continued."""

from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.working.listing import list_workers
from holdfast.model import OF_CHILD
from holdfast.project import project_settings
from holdfast.views.commands import Commands


def has_worker(cp: SyncCheckpointer, run_id: str) -> bool:
    """Whether a living worker executes the flow of this run, or of the one that began it."""
    root = cp.run(run_id.partition(OF_CHILD)[0])
    return root is not None and any(
        root.flow in worker.flows for worker in list_workers(cp.core) if worker.state != "dead"
    )


def worker_command(commands: Commands) -> str:
    """The command that starts a worker, with the flow to be named unless the project names it."""
    configured = project_settings()[1].get("flows", [])
    return commands.line("worker", None, *([] if configured else ["--flow=MODULE:NAME"]))
