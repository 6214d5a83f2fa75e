"""`holdfast forget`: delete all that is kept of an owner, a thread or a run."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import click

from holdfast.cli import _show
from holdfast.cli._options import dry_run, option
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.errors import HoldfastError
from holdfast.operations.forget_record import unfinished
from holdfast.operations.receipts import Receipt
from holdfast.views import words
from holdfast.views.errors import NotFoundError

_ACTIVE: Final = ("running", "paused", "submitted")


@as_command(
    "holdfast forget --owner ann --dry-run",
    "holdfast forget --owner ann --export ann.jsonl --receipt ann-receipt.json --yes",
    "holdfast forget --thread chat-7 --yes",
    "holdfast forget nightly-31 --dry-run",
)
@run_argument(required=False)
@option("--owner ID", "Delete the runs of this owner.")
@option("--thread ID", "Delete the runs of this thread.", to="thread_id")
@option(
    "--export FILE",
    "Export the runs to this file first.",
    to="archive",
    type=click.Path(dir_okay=False),
)
@option(
    "--receipt FILE", "Write the receipt to this file, as JSON.", type=click.Path(dir_okay=False)
)
@option("--by NAME", "Who does it; the receipt says so.")
@option("--force", "Delete live and paused runs, too.")
@dry_run
@option("--yes", "Do not ask for confirmation.")
def command(
    session: Session,
    run: str | None,
    owner: str | None,
    thread_id: str | None,
    archive: str | None,
    receipt: str | None,
    by: str | None,
    force: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete RUN, or every run of an owner or a thread, with their child runs and verdicts.

    A LangGraph thread goes with all of its subgraphs, by --thread or as RUN.

    The receipt lists each run, with the digest of its last entry and of the tombstone that takes
    its place. A tombstone keeps only the id, and the receipt a hash of it. `holdfast verify
    --receipt` proves later that all of this is still deleted. If one of the runs is live or paused,
    nothing is deleted without --force. If it is interrupted, do it again: the rest is deleted, and
    the receipt covers all. The id of RUN must be given in full.
    """
    if [run, owner, thread_id].count(None) != 2:
        raise click.UsageError("say what goes: RUN, --owner or --thread")
    with session.opened() as cp:
        forget = partial(cp.forget, run_id=run, owner=owner, thread_id=thread_id)
        doomed = forget(force=force or dry_run, dry_run=True)
        if run is not None and not doomed.runs and unfinished(cp.core, "run", run) is None:
            if "@" in run:
                find_run(cp, run)  # if it is a checkpoint, the error says so
            raise NotFoundError(f"there is no run {run!r} in {_show.clean(cp.store.url)}")
        if doomed.runs and not dry_run and not yes:
            session.confirm(f"Delete {words.plural(len(doomed.runs), 'run')} permanently?")
        work = partial(forget, archive=archive, by=by, force=force)
        done = doomed if dry_run else _delete(work, receipt)
    refused = [run.run_id for run in done.runs if dry_run and not force and run.status in _ACTIVE]
    document = _plan(done, refused) if dry_run else done.to_dict()
    whose = f"owner {owner!r}" if thread_id is None else f"thread {thread_id!r}"
    session.show(document, lambda: _draw(done, refused, whose, dry_run=dry_run))


def _delete(forget: Callable[[], Receipt], path: str | None) -> Receipt:
    """Delete the runs, and write the receipt; also that of what an error left half done."""
    try:
        done = forget()
    except HoldfastError as error:
        halfway: Receipt | None = getattr(error, "receipt", None)
        if halfway is not None and halfway.runs and path is not None:
            halfway.save(path)
        raise
    if path is not None:
        done.save(path)
    return done


def _draw(done: Receipt, refused: list[str], whose: str, *, dry_run: bool) -> None:
    if done.runs:
        rows = [
            (run.run_id, run.status, run.checkpoints, run.digest[:16], run.tombstone[:16])
            for run in done.runs
        ]
        _show.table(
            ("RUN", "WAS", "CHECKPOINTS", "DIGEST", "TOMBSTONE"), rows, right=("CHECKPOINTS",)
        )
    verb = "would be deleted" if dry_run else "deleted"
    runs = words.plural(len(done.runs), "run")
    _show.say(f"{runs} {verb}" + (f"; receipt {done.id}" if done.id else ""))
    if not done.runs:
        _show.say(f"there is no run of the {whose} in this store", "yellow")
    if refused:
        live = words.plural(len(refused), "run")
        _show.say(f"{live} live or paused: needs --force", "yellow")


def _plan(receipt: Receipt, refused: list[str]) -> dict[str, Any]:
    """What a dry run says: no receipt, so runs are named."""
    names = ("run_id", "status", "checkpoints", "entries", "digest")
    runs = [{name: getattr(run, name) for name in names} for run in receipt.runs]
    return {"dry_run": True, "runs": runs, "refused": refused}
