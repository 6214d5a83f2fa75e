"""`holdfast copy`: runs from one store to another."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import click

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show
from holdfast.cli._options import option
from holdfast.cli._progress import progress
from holdfast.cli._runs import find_run, with_children
from holdfast.cli._session import Session, as_command
from holdfast.errors import CheckpointCorruptedError, CopyRefusedError
from holdfast.urls import local_path, masked
from holdfast.views import words
from holdfast.views.runs import doing
from holdfast.views.spreading import number_of_runs

_DONE: Final = {"new": "new", "updated": "brought up to date", "unchanged": "unchanged"}


@as_command(
    "holdfast copy sqlite:///runs.db postgresql://db/runs",
    "holdfast copy backup.db --run nightly-31",
)
@click.argument("stores", nargs=-1, required=True, metavar="[SOURCE] TARGET")
@option("--run RUN", "Only this run and its child runs.", to="runs", multiple=True)
def command(session: Session, stores: tuple[str, ...], runs: tuple[str, ...]) -> None:
    """Copy runs, with their whole history, to another store.

    SOURCE is the usual store unless it is given. Every entry is checked, and read back. Entries
    that the target already has are checked and skipped: to finish an interrupted copy, start it
    again. Runs that were deleted in the source stay in the target. A run of the target that may
    have continued there, or that is a different run with the same id, is not changed: all others
    are copied, then the command fails and names these.

    A run that a living process executes is copied as it is now, and named: copy it again when it
    has ended, before anything continues the copy. Your own tables are not copied.
    """
    if len(stores) > 2:
        raise click.UsageError("give [SOURCE] TARGET; name single runs with --run")
    if len(stores) == 2:
        if session.where is not None:
            raise click.UsageError("the source is given twice: as SOURCE and with --store")
        session.where = stores[0]
    if _place(session.url) == _place(stores[-1]):
        raise click.UsageError("SOURCE and TARGET are the same store")
    with session.opened() as cp:
        found = with_children(cp, [find_run(cp, run) for run in runs]) if runs else None
        workers = _workers(cp, found)
        made = _copy(session, cp, stores[-1], found)
        workers |= _workers(cp, found)
    document = {
        "runs": len(made.runs),
        **{what: made.done[what] for what in _DONE},
        "refused": made.refused.run_ids if made.refused else (),
        "lost": _show.lost_in(made.damage),
        "live": {name: workers[name] for name in made.runs if name in workers},
        "target": masked(stores[-1]),
    }
    session.show(document, lambda: _draw(document))
    for error in (made.refused, *made.damage):
        if error is not None:
            raise error


class _Copied(NamedTuple):
    """What was copied, and what not."""

    runs: list[str]
    done: Counter[str]  # how many are new, were updated or are unchanged
    refused: CopyRefusedError | None
    damage: list[CheckpointCorruptedError]


def _copy(
    session: Session, cp: SyncCheckpointer, target: str, wanted: Collection[str] | None
) -> _Copied:
    """Copy these runs, or all. What the target refuses, or what is damaged, is in the result."""
    copied: list[str] = []
    refused: CopyRefusedError | None = None
    damage: list[CheckpointCorruptedError] = []
    total = number_of_runs(cp) if wanted is None else len(wanted)
    with (
        _told_if_interrupted(copied, total),
        progress("copying", total) as advance,
        SyncCheckpointer(target, **session.keys.opened()) as there,
    ):

        def note(run: str) -> None:
            copied.append(run)
            advance()

        try:
            before = _those_there(there, wanted)
            cp.copy_to(there.store, wanted, progress=note)
        except CopyRefusedError as error:
            refused = error
        except CheckpointCorruptedError as error:
            if not error.lost:
                raise
            damage = [error]
        done = Counter(_done(there, name, before.get(name)) for name in copied)
    return _Copied(copied, done, refused, damage)


def _place(url: str) -> object:
    path = local_path(url)
    return url if path is None else path.resolve()


@contextmanager
def _told_if_interrupted(copied: Sequence[str], total: int) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        whole = words.plural(total, "run")
        _show.say(f"{len(copied):,} of {whole} copied; start it again to finish it", err=True)
        raise


def _those_there(
    there: SyncCheckpointer, wanted: Collection[str] | None
) -> dict[str, RunInfo | None]:
    """What the target has of these runs, or of all that it has: most often there is nothing yet."""
    if wanted is None:
        return {run.run_id: run for run in there.iter_runs()}
    return {name: there.run(name) for name in wanted}


def _done(there: SyncCheckpointer, name: str, before: RunInfo | None) -> str:
    if before is None:
        return "new"
    return "unchanged" if before == there.run(name) else "updated"


def _workers(cp: SyncCheckpointer, wanted: Collection[str] | None) -> dict[str, str]:
    """The processes that execute these runs, or any; child runs are executed by their parents'."""
    found = {}
    for run in cp.iter_runs(status="running"):
        if (wanted is None or run.run_id in wanted) and cp.parent_of(run.run_id) is None:
            word, facts = doing(cp, run)
            if word == run.status and facts.get("holder"):
                found[run.run_id] = facts["holder"]
    return found


def _draw(document: dict[str, Any]) -> None:
    message = f"{words.plural(document['runs'], 'run')} copied to {_show.clean(document['target'])}"
    parts = [f"{document[what]:,} {word}" for what, word in _DONE.items() if document[what]]
    text = f"{message}: {', '.join(parts)}" if parts else message
    _show.say(text + _show.without(document["lost"]))
    live = document["live"]
    if live:
        are, they_have = ("is", "it has") if len(live) == 1 else ("are", "they have")
        by = _show.clean(", ".join(sorted(set(live.values()))))
        _show.say(
            f"{words.plural(len(live), 'run')} {are} being executed by {by}; "
            f"copy again when {they_have} ended",
            "yellow",
            err=True,
        )
