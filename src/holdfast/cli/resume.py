"""`holdfast resume`: go on with a run."""

from collections.abc import Awaitable

import click

from holdfast.cli import _flows, _options
from holdfast.cli._execution import execute
from holdfast.cli._options import option
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.engine.launch import Prepared
from holdfast.engine.options import Trust
from holdfast.kernel.core import Core


@as_command(
    "holdfast resume nightly-31",
    "holdfast resume nightly-31 --flow jobs.nightly:etl",
    "holdfast resume nightly-31 --trust stored",
)
@run_argument()
@_options.flows
@option(
    "--trust",
    "Check evidence now, believe what was found last, or ask for nothing.",
    type=click.Choice(["verify", "stored", "skip"]),
    default="verify",
)
@option("--take-over", "Also from a process that is alive: it stops, and its step runs again.")
def command(
    session: Session, run: str, flows: tuple[str, ...], trust: Trust, take_over: bool
) -> None:
    """Go on with RUN where it stopped, and follow it to its end.

    What its steps claimed about the world is checked first: it goes on from the newest checkpoint
    that still holds. A run that another process of this machine is carrying out is refused (6).
    Without --store, a run that is not in the usual store is looked for where the pipelines among
    the flows keep theirs. Output and exit codes are those of `holdfast run`.
    """
    session.adopt(_flows.place_of(session, flows, run))
    with session.opened() as cp:
        info = find_run(cp, run)
        source = _flows.source_of(cp, info.run_id)
    flow = _flows.find(flows, info.flow, source)
    way_on = _flows.way_on(session, info.run_id, *(flows or (source,)))

    def plan(core: Core) -> Awaitable[Prepared]:
        return flow.resume(core, info.run_id, trust, take_over=take_over)

    execute(session, plan, info.run_id, way_on)
