"""`holdfast watch`: what happens in a run, as it happens."""

import sys
from contextlib import suppress
from typing import Final

import click

from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show
from holdfast.cli._exits import Exit, FailedError
from holdfast.cli._options import option
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.cli.show import painted
from holdfast.operations.timeline import Moment
from holdfast.views import words
from holdfast.views.moments import note
from holdfast.views.runs import doing, nobody

_LOOK: Final = 5.0  # seconds after which to look whether its process is alive
_ENDS: Final = {"completed": Exit.OK, "failed": Exit.FAILED, "cancelled": Exit.FAILED}


@as_command("holdfast watch nightly-31", "holdfast watch nightly-31 --json --interval 0.2")
@run_argument()
@option(
    "--interval SECONDS",
    "How often to read the store.",
    default=0.5,
    type=click.FloatRange(0.05, 3600),
)
def command(session: Session, run: str, interval: float) -> None:
    """Follow RUN, whichever process executes it: its history so far, then each new entry.

    Ends when the run ends, with 1 if it failed or was cancelled, or if its process is dead. Ctrl-C
    stops watching, and does nothing to the run. PostgreSQL and Redis notify of new entries; other
    stores are read every --interval. With --json, one object per line.
    """
    with session.opened() as cp, suppress(KeyboardInterrupt):
        run_id = find_run(cp, run).run_id
        with cp.watch(run_id, every=interval) as changes:
            seen: int | None = None
            while True:
                for moment in cp.timeline(run_id, after=seen):
                    _print(session, moment)
                    seen, status = moment.seq, moment.status
                if status in _ENDS:
                    raise SystemExit(_ENDS[status])
                _refuse_orphan(cp, run_id)
                changes.wait(_LOOK)


def _refuse_orphan(cp: SyncCheckpointer, run_id: str) -> None:
    """Fail if nobody executes the run: nothing will happen to it."""
    info = cp.run(run_id)
    facts = {} if info is None else doing(cp, info)[1]
    if facts.get("orphaned"):
        raise FailedError(f"{nobody(facts['holder'])}; continue it with: holdfast recover")


def _print(session: Session, moment: Moment) -> None:
    if session.json:
        click.echo(_show.to_json(moment._asdict()))
    else:
        took = "" if moment.took is None else f"  {words.span(moment.took)}"
        line = _show.cell(f"{moment.at.astimezone():%H:%M:%S}  {moment.seq:>4}  ", "dim")
        line.add(painted(moment)).add(took)
        if told := str(note(moment)):
            line.add(f"  {_show.clean(told)}", "dim")
        _show.show(line)
    sys.stdout.flush()
