"""`holdfast copy`: runs from one store to another."""

from __future__ import annotations

import click

from holdfast.cli import _show
from holdfast.cli._progress import progress
from holdfast.cli._session import Session, all_runs, as_command, find_run


@as_command(
    examples=(
        "holdfast copy sqlite:///runs.db postgresql://db/runs",
        "holdfast copy backup.db --run nightly-31",
    )
)
@click.argument("stores", nargs=-1, required=True, metavar="[SOURCE] TARGET")
@click.option(
    "--run",
    "runs",
    multiple=True,
    metavar="RUN",
    help="Only this run, and the runs within it. May be repeated.",
)
def command(session: Session, stores: tuple[str, ...], runs: tuple[str, ...]) -> None:
    """Copy runs, with their whole history, to another store.

    SOURCE is the usual store unless it is given. Every entry is checked on its way, and read
    back. What the target holds already is checked and left alone, so a copy that was interrupted is
    finished by starting it again. A run that was deleted in the source is left alone in the target. So
    is one that the target may have gone on with by itself, or that is a different one by the same
    id: all others are copied, and then those are an error.
    """
    from holdfast.checkpointer import SyncCheckpointer
    from holdfast.errors import CopyRefusedError
    from holdfast.urls import masked

    if len(stores) > 2:
        raise click.UsageError("give [SOURCE] TARGET; name single runs with --run")
    if len(stores) == 2:
        if session.where is not None:
            raise click.UsageError("the source is given twice: as SOURCE and with --store")
        session.where = stores[0]
    with session.opened() as cp:
        if runs:
            found = [find_run(cp, run).run_id for run in runs]
            within = (child.run_id for name in found for child in cp.within(name))
            names = list(dict.fromkeys([*found, *within]))
        else:
            names = [run.run_id for run in all_runs(cp)]
        copied: list[str] = []
        refused: CopyRefusedError | None = None
        with progress("copying", len(names)) as advance, SyncCheckpointer(stores[-1]) as there:
            before = [there.run(name) for name in names]

            def note(run: str) -> None:
                copied.append(run)
                advance()

            try:
                cp.copy_to(there.store, names if runs else None, progress=note)
            except CopyRefusedError as error:
                refused = error
            new = sum(there.run(name) != run for name, run in zip(names, before, strict=True))
    target = masked(stores[-1])
    session.show(
        {
            "runs": len(copied),
            "new": new,
            "refused": refused.run_ids if refused else (),
            "target": target,
        },
        lambda: _show.say(
            f"{_show.plural(len(copied), 'run')} copied to {_show.clean(target)}, {new:,} of them new"
        ),
    )
    if refused:
        raise refused
