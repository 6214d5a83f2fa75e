"""`holdfast cancel`: ask a run to cancel."""

import click

from holdfast.cli._requesting import request
from holdfast.cli._session import Session, as_command, run_argument


@as_command(
    examples=("holdfast cancel nightly-31", "holdfast cancel nightly-31 --reason 'wrong day'")
)
@run_argument()
@click.option("--reason", default="", metavar="TEXT", help="Why; it is kept in the run's history.")
def command(session: Session, run: str, reason: str) -> None:
    """Cancel RUN: what it has to undo is undone, and it is over.

    A run that nobody carries out, and that has nothing to undo, is cancelled at once. Otherwise
    its worker hears of it when it records its next step; this command does not wait for it. One
    with something to undo and no worker is undone when it is resumed.
    """
    request(session, run, "cancel", reason)
