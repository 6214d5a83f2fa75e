"""`holdfast runs`: the runs of a store."""

from itertools import islice
from typing import Final

import click

from holdfast.cli import _show
from holdfast.cli._options import option
from holdfast.cli._runs import all_runs, doing
from holdfast.cli._session import Session, as_command

_STATUSES: Final = ("open", "running", "paused", "failed", "cancelled", "completed")


@as_command(
    "holdfast runs",
    "holdfast runs --status paused --flow nightly",
    "holdfast runs --json | jq -r .run_id",
)
@click.argument("prefix", default="")
@option("--status", "Only runs with this status.", type=click.Choice(_STATUSES))
@option("--flow NAME", "Only runs of this flow.")
@option("--thread ID", "Only runs of this thread.", to="thread_id")
@option("--owner ID", "Only runs of this owner.")
@option("--children", "List child runs, too.")
@option("--limit", "List at most this many; 0 for all.", default=50, type=click.IntRange(0))
def command(
    session: Session,
    prefix: str,
    status: str | None,
    flow: str | None,
    thread_id: str | None,
    owner: str | None,
    children: bool,
    limit: int,
) -> None:
    """List runs, by id: all, or those whose id begins with PREFIX.

    A running run is shown as `orphaned` if its process is dead, and as `answered` if it waited for
    an answer that it has now: `holdfast recover` resumes both. With --json, one object per line;
    `status` is then the recorded status, beside `holder`, `orphaned` and `answered`.
    """
    with session.opened() as cp:
        where = {"status": status, "flow": flow, "thread_id": thread_id, "owner": owner}
        found = (
            run
            for run in all_runs(cp, prefix=prefix, **where)
            if children or cp.parent_of(run.run_id) is None
        )
        shown = list(islice(found, limit or None))
        more = next(found, None) is not None
        now = [doing(cp, run) for run in shown]
    if session.json:
        for run, (_, facts) in zip(shown, now, strict=True):
            click.echo(_show.to_json(run._asdict() | facts))
        return
    if not shown:
        _show.say("no runs")
        return
    threads = any(run.thread_id for run in shown)
    _show.table(
        ("RUN", "STATUS", *(["THREAD"] if threads else []), "FLOW", "STEP", "SEQ", "SAVED"),
        [
            (
                run.run_id,
                _show.word(word),
                *([run.thread_id] if threads else []),
                run.flow,
                run.step,
                run.seq,
                _show.ago(run.updated_at),
            )
            for run, (word, _) in zip(shown, now, strict=True)
        ],
        right=("SEQ",),
    )
    if more:
        _show.say("… and more; see them with --limit 0, or name a PREFIX", "dim")
