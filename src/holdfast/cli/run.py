"""`holdfast run`: start a flow."""

import click

from holdfast.cli import _flows
from holdfast.cli._execution import execute
from holdfast.cli._options import option
from holdfast.cli._session import Session, as_command
from holdfast.seams import new_id


@as_command(
    "holdfast run jobs.nightly:etl --input day=2026-01-31",
    "holdfast run jobs/nightly.py:etl --run-id nightly-31 --input-json @inputs.json",
    "holdfast run pipelines/shout.yaml@jobs.shout:functions --input-json '\"hello\"'",
    "holdfast run jobs.nightly:etl --json | jq 'select(.event == \"RunCompleted\").result'",
)
@click.argument("flow", metavar="MODULE:FLOW")
@option(
    "--input, -i NAME=VALUE", "An input; JSON if it is JSON, else text.", to="pairs", multiple=True
)
@option(
    "--input-json JSON",
    "All inputs as an object, or the data of a pipeline; @FILE, or - for standard input.",
    to="document",
)
@option("--run-id ID", "The run's id; by default a new one.")
@option("--thread ID", "The thread of the run.")
@option("--owner ID", "The owner of the run.")
def command(
    session: Session,
    flow: str,
    pairs: tuple[str, ...],
    document: str | None,
    run_id: str | None,
    thread: str | None,
    owner: str | None,
) -> None:
    """Start a flow (a workflow, graph or pipeline) and follow it to its end.

    Modules are looked for in the current directory first. A pipeline in a file is named
    FILE.yaml@MODULE:NAME, where NAME is a dict of the functions that it may use. A pipeline with
    its own checkpointer is kept there, unless --store names another store. Events go to standard
    error and the result to standard output, as JSON; with --json both are JSON lines on standard
    output. Exits with 1 if the run fails, with 5 if it pauses.
    """
    wanted = _flows.load(flow)
    session.adopt(wanted.store)
    call = _flows.call_from(wanted, flow, pairs, document)
    name = new_id() if run_id is None else run_id
    if thread is None and wanted.threaded:
        thread = name
    resume_command = _flows.resume_command(session, name, flow)
    execute(
        session,
        lambda engine: engine.stream(call, run_id=name, thread_id=thread, owner=owner),
        name,
        resume_command,
    )
