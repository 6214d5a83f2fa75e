"""`holdfast prune`: delete old checkpoints and old runs."""

from collections import Counter
from datetime import timedelta
from typing import Final

import click

from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show
from holdfast.cli._options import age, configured_retention, dry_run, option
from holdfast.cli._progress import progress
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.operations.retention import Swept
from holdfast.retention import Retention
from holdfast.views import pruning, words
from holdfast.views.spreading import number_of_runs

_NAMED: Final = 5  # runs that are not changed; with --json all of them
_LISTED: Final = 20  # runs that are listed before you are asked


@as_command(
    "holdfast prune --keep-latest 10 --dry-run",
    "holdfast prune nightly-31 --keep-latest 1",
    "holdfast prune --older-than 30d --runs-older-than 52w --archive /backup/holdfast",
    "holdfast prune --flow etl --status completed --runs-older-than 30d --yes",
    "holdfast prune --dry-run",
)
@run_argument(required=False)
@option("--keep-latest N", "Delete all but a run's newest N checkpoints.", type=click.IntRange(1))
@option(
    "--older-than AGE",
    "Delete checkpoints older than this, but never a run's current one.",
    type=age,
)
@option(
    "--runs-older-than AGE",
    "Delete whole runs whose last entry, and that of each of their child runs, is older than this. "
    "Child runs go with their parent.",
    type=age,
)
@option("--owner ID", "Only runs of this owner.")
@option("--thread ID", "Only runs of this thread.", to="thread_id")
@option("--flow NAME", "Only runs of this flow.")
@option(
    "--status",
    "Only runs with this status.",
    multiple=True,
    type=click.Choice(["open", "failed", "cancelled", "completed"]),
)
@option(
    "--archive DIR",
    "First write what is deleted to files there: whole runs for `holdfast import`, "
    "single checkpoints with their states as JSON Lines, for other tools.",
    type=click.Path(file_okay=False),
)
@dry_run
@option("--yes", "Do not ask for confirmation.")
def command(
    session: Session,
    run: str | None,
    keep_latest: int | None,
    older_than: timedelta | None,
    runs_older_than: timedelta | None,
    owner: str | None,
    thread_id: str | None,
    flow: str | None,
    status: tuple[str, ...],
    archive: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete old checkpoints of RUN, or of all runs. Live and paused runs are not changed, nor the
    steps of a failed run, which a resume needs. Threads of LangGraph's are only deleted whole, and
    not while they wait for an answer: single checkpoints are pruned by the saver's `prune`.

    A step's result is deleted with its checkpoint: if a completed run is resumed later, as a claim
    of it is false by then, that step runs again.

    You are shown what would be deleted, and asked. In scripts, give --yes.

    With both --keep-latest and --older-than, only checkpoints that match both are deleted. Child
    runs follow the run that they belong to: --owner, --thread, --flow and --status are about that.
    Without any of these options, the policies under [[tool.holdfast.retention]] in pyproject.toml
    are applied.
    """
    chosen = (owner, thread_id, flow, status or None, archive)
    if keep_latest is None and older_than is None and runs_older_than is None:
        policies = configured_retention() if chosen == (None,) * len(chosen) else []
        if not policies:
            raise click.UsageError(
                "say what to delete: --keep-latest, --older-than or --runs-older-than"
            )
    else:
        policies = [
            Retention(
                keep_latest=keep_latest,
                max_age=older_than,
                run_ttl=runs_older_than,
                owner=owner,
                thread_id=thread_id,
                flow=flow,
                status=status or None,
                archive=archive,
            )
        ]
    with session.opened(retention=policies) as cp:
        if not dry_run and not yes and not _is_wanted(session, cp, run):
            return
        listed = None if session.json or dry_run or run else 0
        swept, counts = _sweep(cp, run, dry_run=dry_run, listed=listed)
    document = pruning.document(swept, dry_run=dry_run)
    session.show(document, lambda: _draw(swept, counts, dry_run=dry_run))


def _is_wanted(session: Session, cp: SyncCheckpointer, run: str | None) -> bool:
    """Show what would be deleted, and ask; False if that is nothing."""
    session.require_terminal()
    would, counts = _sweep(cp, run, dry_run=True, listed=_LISTED)
    _draw(would, counts, dry_run=True)
    if counts["gone"]:
        session.confirm("Delete permanently?")
    return bool(counts["gone"])


def _sweep(
    cp: SyncCheckpointer, run: str | None, *, dry_run: bool, listed: int | None
) -> tuple[list[Swept], Counter[str]]:
    """Apply the policies to a run, or to all: what is to be shown of that, and the numbers.

    Of the runs that are changed that is at most `listed`, with a few of those that are not.
    """
    if run is None:
        total, every = number_of_runs(cp), pruning.sweep_all(cp, dry_run=dry_run)
    else:
        run_id = find_run(cp, run).run_id
        total, every = 1, iter([pruning.sweep(cp, run_id, dry_run=dry_run)])
    swept: list[Swept] = []  # of all others, the numbers will do
    counts: Counter[str] = Counter()
    with progress("pruning", total) as advance:
        for one in every:
            goes = bool(one.checkpoints or one.whole)
            counts.update(gone=goes, refused=bool(one.refused), checkpoints=one.checkpoints)
            if listed is None:
                shown = goes or bool(one.refused)
            elif one.refused:
                shown = counts["refused"] <= _NAMED
            else:
                shown = goes and counts["gone"] <= listed
            if shown:
                swept.append(one)
            advance()
    return swept, counts


def _draw(swept: list[Swept], counts: Counter[str], *, dry_run: bool) -> None:
    rows = [
        (one.run_id, one.checkpoints, "the whole run" if one.whole else "")
        for one in swept
        if one.checkpoints or one.whole
    ]
    if rows:
        _show.table(("RUN", "CHECKPOINTS", ""), rows, right=("CHECKPOINTS",))
        _show.say_if_cut(len(rows), counts["gone"], "ordered by id", option="--dry-run")
    deleted = words.plural(counts["checkpoints"], "checkpoint")
    runs = words.plural(counts["gone"], "run")
    _show.say(f"{deleted} of {runs} {'would be deleted' if dry_run else 'deleted'}")
    for one in [one for one in swept if one.refused][:_NAMED]:
        _show.say(
            f"{_show.clean(one.run_id)} is not changed: {pruning.why_kept(one.refused)}",
            "yellow",
        )
    if counts["refused"] > _NAMED:
        more = words.plural(counts["refused"] - _NAMED, "more run")
        _show.say(f"and {more} for such reasons", "yellow")
