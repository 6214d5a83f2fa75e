"""`holdfast workers`: who executes the runs of a store."""

from typing import Final

import click

from holdfast.cli import _show
from holdfast.cli._drawing import Text
from holdfast.cli._session import Session, as_command
from holdfast.engine.working.listing import WorkerInfo, list_workers
from holdfast.views import words

_LATE: Final = 1.0  # seconds that an event loop may be late before that is worth a word


@as_command("holdfast workers", "holdfast workers --json | jq 'select(.lag > 1)'")
def command(session: Session) -> None:
    """List the processes that execute runs of the store, or wait for some.

    A process of this machine is known to be alive or dead. One of another machine is `unknown`: its
    last beat, by its own clock, says more. NOTE says if its event loop is blocked: a step that
    blocks it keeps all runs of that process waiting; or that it was started with --verify.
    Processes that are no workers, such as `holdfast run`, have no flows. With --json, one object
    per line.
    """
    with session.opened() as cp:
        found = list_workers(cp.core)
    if session.json:
        for worker in found:
            click.echo(_show.to_json(worker._asdict()))
        return
    if not found:
        _show.say("no workers")
        return
    _show.table(
        ("HOST", "PID", "STATE", "FLOWS", "RUNS", "MAX", "LAST BEAT", "NOTE"),
        [
            (
                one.host,
                one.pid,
                _show.word(one.state),
                ", ".join(one.flows),
                one.runs,
                one.at_once or "",
                words.ago(one.seen_at),
                _note(one),
            )
            for one in found
        ],
        right=("PID", "RUNS", "MAX"),
    )


def _note(worker: WorkerInfo) -> Text:
    if worker.state == "dead":
        return _show.cell("its runs are continued by others" if worker.runs else "", "dim")
    if worker.lag >= _LATE:
        return _show.cell(f"its event loop is blocked for {words.span(worker.lag)}", "red")
    if worker.verifies:
        return _show.cell("verifies for others", "dim")
    return Text()
