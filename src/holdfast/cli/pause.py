"""`holdfast pause`: ask a run to pause."""

import click

from holdfast.cli._requesting import request
from holdfast.cli._session import Session, as_command, run_argument


@as_command(
    examples=("holdfast pause nightly-31", "holdfast pause nightly-31 --reason 'maintenance'")
)
@run_argument()
@click.option("--reason", default="", metavar="TEXT", help="Why; it is kept in the run's history.")
def command(session: Session, run: str, reason: str) -> None:
    """Ask RUN to stop after the steps that are under way, to be resumed later.

    Its worker hears of it when it records its next step; this command does not wait for it.
    """
    request(session, run, "pause", reason)
