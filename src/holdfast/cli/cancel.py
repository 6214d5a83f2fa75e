"""`holdfast cancel`: ask a run to cancel."""

from holdfast.cli import _options
from holdfast.cli._runs import run_argument
from holdfast.cli._session import Session, as_command
from holdfast.cli.pause import request


@as_command("holdfast cancel nightly-31", "holdfast cancel nightly-31 --reason 'wrong day'")
@run_argument()
@_options.reason
@_options.by
def command(session: Session, run: str, reason: str, by: str | None) -> None:
    """Cancel RUN: undo the steps that can be undone, and end it.

    If no process executes the run and nothing has to be undone, it is cancelled at once.
    Otherwise the process that executes it cancels it when it records its next step; this command
    does not wait. If no process executes it, a worker or `holdfast resume` undoes its steps, and
    its questions are void.
    """
    request(session, run, "cancel", reason, by)
