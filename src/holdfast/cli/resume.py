"""`holdfast resume`: continue a run."""

from datetime import timedelta

import click

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _flows, _options, _show
from holdfast.cli._claims import Allowed, allowing
from holdfast.cli._execution import follow
from holdfast.cli._options import option
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.engine.options import Trust
from holdfast.engine.people.resuming import submit_resume
from holdfast.views import continuing, threads
from holdfast.views.commands import led_by, meaning


@as_command(
    "holdfast resume nightly-31",
    "holdfast resume nightly-31 --flow jobs.nightly:etl",
    "holdfast resume nightly-31 --trust stored",
)
@run_argument()
@_options.flows
@allowing
@option(
    "--trust",
    "Check evidence now, use the last verdicts, or check nothing.",
    type=click.Choice(["verify", "stored", "skip"]),
    default="verify",
)
@option(
    "--take-over", "Take the run from a living process: that one stops, and its step runs again."
)
@_options.ask_workers
@option("--submit", "Have a worker continue it, and don't wait.")
@option("--by NAME", "With --submit: who asks for it; it is kept in the run's history.")
def command(
    session: Session,
    run: str,
    flows: tuple[str, ...],
    allowed: Allowed,
    trust: Trust,
    take_over: bool,
    ask_workers: timedelta | None,
    submit: bool,
    by: str | None,
) -> None:
    """Continue RUN where it stopped, and follow it to its end.

    With --submit, a worker continues it, with its own options; this command needs no flow then.

    The claims of its steps about the world are checked first: it continues from the newest
    checkpoint that still verifies. Only files in the current directory are looked at, unless you
    allow more as for `holdfast verify`, or the flow has a verifier of its own. If another process
    executes the run, the command exits with 6. Without --store, the run is also looked for in the
    stores of pipelines that keep their own. Output and exit codes are those of `holdfast run`.
    """
    if by is not None and not submit:
        raise click.UsageError("--by goes with --submit: who resumes a run here is its process")
    session.adopt(_flows.place_of(session, flows, run))
    with session.opened() as cp:
        info = find_run(cp, run)
        threads.refuse(info)
        source = continuing.source_of(cp, info.run_id)
        if submit:
            _submit(session, cp, info, by)
            return
    follow(
        session,
        info,
        source,
        flows,
        allowed,
        trust=trust,
        take_over=take_over,
        ask_workers=None if ask_workers is None else ask_workers.total_seconds(),
    )


def _submit(session: Session, cp: SyncCheckpointer, info: RunInfo, by: str | None) -> None:
    """Ask workers to continue the run, and say whether there are any."""
    session.require_shared()
    run_id = info.run_id
    new = cp.core.drive(submit_resume(cp.core, run_id, by=by))
    told = "a worker continues it" if new else "a worker continues it already; nothing was changed"
    if not continuing.has_worker(cp, run_id):
        worker = continuing.worker_command(session.commands)
        told += led_by("; none is alive, start one:", worker, meaning(worker, info.flow))
    document = {"run_id": run_id, "asked": "resume", "new": new}
    session.show(document, lambda: _show.say(f"{_show.clean(run_id)}: {told}"))
