"""`holdfast pause`: ask a run to pause."""

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _options, _show
from holdfast.cli._outcome import draw_advice
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.engine.people import requests
from holdfast.model import Status
from holdfast.views import threads
from holdfast.views.next_steps import to_cancel
from holdfast.views.rescue import Advice
from holdfast.views.runs import doing


@as_command(
    "holdfast pause nightly-31", "holdfast pause nightly-31 --reason 'maintenance' --by ann"
)
@run_argument()
@_options.reason
@_options.by
def command(session: Session, run: str, reason: str, by: str | None) -> None:
    """Ask RUN to stop after its running steps. Resume it later.

    The process that executes it stops when it records its next step; this command does not wait.
    """
    request(session, run, "pause", reason, by)


def request(session: Session, run: str, action: str, reason: str, by: str | None) -> None:
    """Ask a run to pause or to cancel, and print its status now."""
    with session.opened() as cp:
        info = find_run(cp, run)
        threads.refuse(info)
        run_id = info.run_id
        cp.core.drive(requests.request(cp.core, run_id, action, reason, by=by))
        now = cp.run(run_id)
        then = None if action != "cancel" or now is None else _then(session, cp, now)
    status = "deleted" if now is None else now.status
    text = f"{run_id} was asked to {action}, and is {status}"

    def draw() -> None:
        _show.say(text)
        draw_advice(then)

    session.show({"run_id": run_id, "asked": action, "status": status}, draw)


def _then(session: Session, cp: SyncCheckpointer, info: RunInfo) -> Advice | None:
    """What completes a request to cancel, if the process that executes the run does not."""
    word = doing(cp, info)[0]
    if word in (Status.RUNNING, Status.CANCELLED):
        return None
    return to_cancel(session.commands, cp, info)
