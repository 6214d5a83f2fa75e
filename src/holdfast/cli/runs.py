"""`holdfast runs`: the runs of a store."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from heapq import nlargest
from itertools import count
from operator import attrgetter
from typing import Final

import click

from holdfast.checkpoint import RunInfo, run_info
from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show
from holdfast.cli._options import at_most, option, parse_labels
from holdfast.cli._runs import doing
from holdfast.cli._session import Session, as_command
from holdfast.store import RunFilter

_STATUSES: Final = ("open", "submitted", "running", "paused", "failed", "cancelled", "completed")
_LISTED: Final = 50


@as_command(
    "holdfast runs",
    "holdfast runs --status paused --flow nightly",
    "holdfast runs --label team=ops",
    "holdfast runs --json | jq -r .run_id",
)
@click.argument("prefix", default="")
@option("--status", "Only runs with this status.", type=click.Choice(_STATUSES))
@option("--flow NAME", "Only runs of this flow.")
@option("--thread ID", "Only runs of this thread.", to="thread_id")
@option("--owner ID", "Only runs of this owner.")
@option("--label NAME=VALUE", "Only runs with this label.", to="labels", multiple=True)
@option("--children", "List child runs, too.")
@at_most(_LISTED)
def command(
    session: Session,
    prefix: str,
    status: str | None,
    flow: str | None,
    thread_id: str | None,
    owner: str | None,
    labels: tuple[str, ...],
    children: bool,
    limit: int | None,
) -> None:
    """List runs, those saved last first: all, or those whose id begins with PREFIX.

    A running run is shown as `orphaned` if its process is dead or has left it, and as `answered` if
    it waited for an answer that it has now: `holdfast recover` resumes both, and so do workers.
    CONTINUES says when workers continue a run that was submitted, sleeps or waits for an answer
    until a deadline. With --json, all of them, one object per line; `status` is then the recorded
    status, beside `holder`, `orphaned`, `answered` and `due`.
    """
    with session.opened() as cp:
        runs: Iterator[RunInfo]
        if labels:
            wanted = tuple(f"{name}={value}" for name, value in parse_labels(labels).items())
            runs = _labelled(
                cp, RunFilter(status, flow, thread_id, owner, None, prefix, (), wanted)
            )
        else:
            runs = cp.iter_runs(
                prefix=prefix, status=status, flow=flow, thread_id=thread_id, owner=owner
            )
        found = (run for run in runs if children or cp.parent_of(run.run_id) is None)
        counter = count()
        counted = (run for run, _ in zip(found, counter, strict=False))
        shown = _newest(counted, session.most(limit, _LISTED))
        if session.json:
            for run in shown:
                click.echo(_show.to_json(run._asdict() | doing(cp, run)[1]))
            return
        known = [doing(cp, run) for run in shown]
    if not shown:
        _show.say("no runs")
        return
    threads = any(run.thread_id for run in shown)
    waits = any(facts.get("due") for _, facts in known)
    _show.table(
        (
            *("RUN", "STATUS"),
            *(["CONTINUES"] if waits else []),
            *(["THREAD"] if threads else []),
            *("FLOW", "STEP", "SEQ", "SAVED"),
        ),
        [
            (
                run.run_id,
                _show.word(word),
                *([_continues(facts.get("due"))] if waits else []),
                *([run.thread_id] if threads else []),
                run.flow,
                run.step,
                run.seq,
                _show.ago(run.updated_at),
            )
            for run, (word, facts) in zip(shown, known, strict=True)
        ],
        right=("SEQ",),
    )
    _show.say_if_cut(len(shown), next(counter), "newest first")


def _labelled(cp: SyncCheckpointer, where: RunFilter) -> Iterator[RunInfo]:
    """The runs that match, which only the index can say."""
    page = cp.store.listed(where)
    while page:
        yield from (run_info(head) for _, head in page)

        page = cp.store.listed(where, before=page[-1][0].position)


def _continues(due: datetime | None) -> str:
    """When workers continue a run."""
    return "now" if due is not None and due <= datetime.now(UTC) else _show.moment(due)


def _newest(runs: Iterable[RunInfo], most: int | None) -> list[RunInfo]:
    """The runs that were saved last, by their clocks: of a million, no more than `most` are kept."""
    saved = attrgetter("updated_at")
    return sorted(runs, key=saved, reverse=True) if most is None else nlargest(most, runs, saved)
