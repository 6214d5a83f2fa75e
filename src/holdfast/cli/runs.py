"""`holdfast runs`: the runs of a store."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

import click

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show
from holdfast.cli._options import age, at_most, option, parse_labels
from holdfast.cli._session import Session, as_command
from holdfast.errors.base import did_you_mean, meant
from holdfast.model import Status
from holdfast.operations.listing import proved
from holdfast.store import PAGE
from holdfast.views import words
from holdfast.views.runs import (
    UNDER_WAY,
    document,
    doing,
    is_listed,
    meant_by,
    recorded,
    tells_nothing_apart,
)

_STATUSES: Final = (
    *("open", "submitted", *UNDER_WAY),
    *("paused", "failed", "cancelled", "completed"),
)
_LISTED: Final = 50
_NEAR: Final = 300  # runs whose flows are compared with one that is wrong


@as_command(
    "holdfast runs",
    "holdfast runs --status paused --status failed --since 2h",
    "holdfast runs --flow nightly --label team=blue",
    "holdfast runs --json | jq -r .run_id",
)
@click.argument("prefix", default="")
@option(
    "--status",
    "Only runs with this status: `open` is what a program saves itself.",
    type=click.Choice(_STATUSES),
    multiple=True,
)
@option("--flow NAME", "Only runs of this flow.")
@option("--thread ID", "Only runs of this thread.", to="thread_id")
@option("--owner ID", "Only runs of this owner.")
@option("--label NAME=VALUE", "Only runs with this label.", to="labels", multiple=True)
@option("--since AGE", "Only runs started in the last 90s, 12h, 30d or 8w.", type=age)
@option("--until AGE", "Only runs started longer ago than this.", type=age)
@option("--asking", "Only runs that wait for an answer.")
@option("--children", "List child runs, too.")
@at_most(_LISTED)
def command(
    session: Session,
    prefix: str,
    status: tuple[str, ...],
    flow: str | None,
    thread_id: str | None,
    owner: str | None,
    labels: tuple[str, ...],
    since: timedelta | None,
    until: timedelta | None,
    asking: bool,
    children: bool,
    limit: int | None,
) -> None:
    """List runs, the last started first: all, or those whose id begins with PREFIX.

    A run under way is listed as `orphaned`, not as `running`, if its process is dead or has left
    it, and as `answered` if it waited for an answer that it has now: `holdfast recover` resumes
    both, and so do workers. A run that waits for a child run stays `paused` when the child is
    answered: --children lists the child. A run whose newest entry is not what was written is shown
    as `damaged`. CONTINUES says when workers continue a run that was submitted, sleeps or waits for
    an answer until a deadline. With --json, all of them, one object per line; `status` is then the
    recorded status, beside `holder`, `orphaned`, `answered`, `due` and `damage`.
    """
    now = datetime.now(UTC)
    where: dict[str, Any] = {
        "prefix": prefix,
        "status": recorded(status) or None,
        "flow": flow,
        "thread_id": thread_id,
        "owner": owner,
        "labels": parse_labels(labels),
        "since": None if since is None else now - since,
        "until": None if until is None else now - until,
        "asking": asking,
        "roots": not children,
    }
    most = session.most(limit, _LISTED)
    with session.opened() as cp:
        if session.json and most is None:
            every = _found(cp, status, where)
            while some := proved(cp.core, list(islice(every, PAGE))):
                for run in some:
                    click.echo(_show.to_json(document(cp, run)))
            return
        shown = proved(cp.core, list(_found(cp, status, where, most)))
        known = [doing(cp, run) for run in shown]
        if session.json:
            for run, (_, facts) in zip(shown, known, strict=True):
                click.echo(_show.to_json(run._asdict() | facts))
            return
        counts = _counted(cp, status, where) if len(shown) == most else {}
        none = "" if shown else _none(cp, prefix, flow)
    if not shown:
        _show.say(none)
        return
    _draw(shown, known)
    _show.say_if_cut(len(shown), sum(counts.values()), _order(counts))


def _none(cp: SyncCheckpointer, prefix: str, flow: str | None) -> str:
    """That there are no runs, and what may be meant, if the store seems not to know it."""
    if prefix and not cp.runs(prefix=prefix, limit=1):
        near = meant_by(cp, prefix)
        return f"no runs whose id begins with {prefix!r}{did_you_mean(near)}"
    known = {run.flow for run in cp.runs(limit=_NEAR) if run.flow is not None}
    if flow is None or flow in known:
        return "no runs"
    return f"no runs of flow {flow!r}{meant(flow, sorted(known))}"


def _found(
    cp: SyncCheckpointer, status: Sequence[str], where: dict[str, Any], most: int | None = None
) -> Iterator[RunInfo]:
    """The runs that are shown with one of these statuses: all, or at most so many."""
    if tells_nothing_apart(status):
        yield from cp.iter_runs(**where) if most is None else cp.runs(**where, limit=most)
        return
    yield from islice((run for run in cp.iter_runs(**where) if is_listed(cp, run, status)), most)


def _counted(
    cp: SyncCheckpointer, status: Sequence[str], where: dict[str, Any]
) -> Mapping[str, int]:
    if tells_nothing_apart(status):
        counts = cp.count_runs(**where)
        # Which of these nobody executes is looked up for those that are shown alone.
        return {"under way" if s == Status.RUNNING else s: n for s, n in counts.items()}
    return Counter(doing(cp, run)[0] for run in _found(cp, status, where))


def _draw(shown: Sequence[RunInfo], known: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """A table of runs, with what is known of each."""
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
                words.ago(run.updated_at),
            )
            for run, (word, facts) in zip(shown, known, strict=True)
        ],
        right=("SEQ",),
    )


def _order(counts: Mapping[str, int]) -> str:
    """Which part of a list is shown, and what there is in all of it."""
    every = (f"{n:,} {status}" for status, n in sorted(counts.items()))
    return f"newest first ({', '.join(every)})"


def _continues(due: datetime | None) -> str:
    """When workers continue a run."""
    return "now" if due is not None and due <= datetime.now(UTC) else words.moment(due)
