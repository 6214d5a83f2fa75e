"""`holdfast watch`: what happens in a run, as it happens."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import click

from holdfast.cli import _show
from holdfast.cli._exits import Exit
from holdfast.cli._session import Session, as_command, find_run, run_argument
from holdfast.cli.show import what

if TYPE_CHECKING:
    from holdfast.timeline import Moment

_ENDS: Final = {"completed": Exit.OK, "failed": Exit.FAILED, "cancelled": Exit.FAILED}


@as_command(
    examples=("holdfast watch nightly-31", "holdfast watch nightly-31 --json --interval 0.2")
)
@run_argument()
@click.option(
    "--interval",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0.05, 3600),
    metavar="SECONDS",
    help="How often to look.",
)
def command(session: Session, run: str, interval: float) -> None:
    """Follow RUN, whoever carries it out: its history so far, then each moment as it is recorded.

    Ends when the run does, with 1 if it failed or was cancelled; Ctrl-C ends it before that, and
    does nothing to the run. With --json, one object per line.
    """
    with session.opened() as cp:
        info = find_run(cp, run)
        seen: int | None = None
        try:
            while True:
                for moment in cp.timeline(info.run_id, after=seen):
                    _print(session, moment)
                    seen = moment.seq
                    status = moment.status
                if status in _ENDS:
                    raise SystemExit(_ENDS[status])
                time.sleep(interval)
        except KeyboardInterrupt:
            raise SystemExit(Exit.OK) from None


def _print(session: Session, moment: Moment) -> None:
    if session.json:
        click.echo(_show.to_json(moment._asdict()))
    else:
        took = "" if moment.took is None else f"  {_show.span(moment.took)}"
        line = _show.cell(f"{moment.at.astimezone():%H:%M:%S}  {moment.seq:>4}  ", "dim")
        line.append_text(what(moment)).append(took, "none")
        if moment.note:
            line.append(f"  {_show.clean(moment.note)}", "dim")
        _show.console().print(line, soft_wrap=True)
    sys.stdout.flush()
