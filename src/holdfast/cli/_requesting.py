"""Asking something of a run, whoever carries it out."""

from holdfast.cli import _show
from holdfast.cli._session import Session, find_run
from holdfast.engine.people import requests


def request(session: Session, run: str, action: str, reason: str) -> None:
    """Ask a run to pause or to cancel, and say what it is doing now."""
    with session.opened() as cp:
        run_id = find_run(cp, run).run_id
        cp.core.drive(requests.request(cp.core, run_id, action, reason))
        now = cp.run(run_id)
    status = "deleted" if now is None else now.status
    said = f"{_show.clean(run_id)} was asked to {action}, and is {status}"
    session.show({"run_id": run_id, "asked": action, "status": status}, lambda: _show.say(said))
