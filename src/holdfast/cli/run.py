"""`holdfast run`: start a flow."""

from functools import partial

import click

from holdfast.cli import _flows, _options
from holdfast.cli._claims import Allowed, allowing
from holdfast.cli._execution import execute
from holdfast.cli._session import Session, as_command
from holdfast.errors import RunExistsError
from holdfast.seams import new_id
from holdfast.views import continuing
from holdfast.views.runs import of_id


@as_command(
    "holdfast run jobs.nightly:etl --input day=2026-01-31",
    "holdfast run jobs/nightly.py:etl --run-id nightly-31 --input-json @inputs.json",
    "holdfast run pipelines/shout.yaml@jobs.shout:functions --input-json '\"hello\"'",
    "holdfast run jobs.nightly:etl --json | jq 'select(.event == \"RunCompleted\").result'",
)
@click.argument("flow", metavar="MODULE:FLOW")
@_options.inputs
@_options.belongs_to
@allowing
def command(
    session: Session,
    flow: str,
    pairs: tuple[str, ...],
    document: str | None,
    run_id: str | None,
    thread: str | None,
    owner: str | None,
    labels: tuple[str, ...],
    allowed: Allowed,
) -> None:
    """Start a flow (a workflow, graph or pipeline) and follow it to its end.

    Modules are looked for in the current directory first. A pipeline in a file is named
    FILE.yaml@MODULE:NAME, where NAME is a dict of the functions that it may use. A pipeline with
    its own checkpointer is kept there, unless --store names another store. Events, and what steps
    print, go to standard error and the result to standard output, as JSON; with --json events and
    result are JSON lines on standard output. Steps may claim files in the current directory; for
    others, and for hosts and databases, allow it as for `holdfast verify`, or give the flow a
    verifier. Exits with 1 if the run fails, with 5 if it pauses.
    """
    wanted = _flows.load(flow)
    session.adopt(wanted.store)
    call = _flows.call_from(wanted, flow, pairs, document)
    told = _options.parse_labels(labels)
    name = new_id() if run_id is None else run_id
    if thread is None and wanted.threaded:
        thread = name
    again = partial(session.commands.resume, name, [flow])
    try:
        execute(
            session,
            lambda engine: engine.stream(
                call, run_id=name, thread_id=thread, owner=owner, labels=told
            ),
            name,
            again,
            allowed,
        )
    except RunExistsError:
        with session.opened() as cp:
            way = continuing.way_on(session.commands, cp, of_id(cp, name), again)
        raise RunExistsError(name, f"choose another id, or {way}") from None
