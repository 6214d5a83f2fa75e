"""`holdfast pause`: ask a run to pause."""

from holdfast.cli import _options, _show
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.engine.people import requests
from holdfast.views import threads


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
    status = "deleted" if now is None else now.status
    text = f"{_show.clean(run_id)} was asked to {action}, and is {status}"
    session.show({"run_id": run_id, "asked": action, "status": status}, lambda: _show.say(text))
