"""`holdfast import`: runs from files."""

import shlex
from pathlib import Path
from typing import Final

import click

from holdfast.cli import _show
from holdfast.cli._exits import FailedError
from holdfast.cli._progress import progress
from holdfast.cli._session import Session, as_command
from holdfast.operations.transfer import runs_in

_SQLITE: Final = b"SQLite format 3\0"


@as_command(
    "holdfast import nightly-31.jsonl",
    "holdfast import backup/*.jsonl --store postgresql://db/runs",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
def command(session: Session, files: tuple[str, ...]) -> None:
    """Add the runs in FILES that `holdfast export` wrote.

    A file that is incomplete or changed is refused before anything of it is written. Entries that
    the store already has are skipped; a different run with the same id is an error.
    """
    for file in files:
        if _is_store(file):
            name = _show.clean(shlex.quote(file))
            raise click.UsageError(f"{name} is a store: use holdfast copy {name} TARGET")
    try:
        names = [name for file in files for name in runs_in(file)]  # before there is a store
        with session.opened(new=True) as cp, progress("importing", len(files)) as advance:
            before = {name: cp.run(name) for name in names}
            for file in files:
                cp.import_runs(file)
                advance()
            new = [name for name, run in before.items() if cp.run(name) != run]
    except ValueError as error:
        raise FailedError(_show.clean(str(error))) from error
    session.show(
        [{"run_id": name, "new": name in new} for name in before],
        lambda: _show.say(f"{_show.plural(len(before), 'run')} imported, {len(new):,} of them new"),
    )


def _is_store(path: str) -> bool:
    """Whether a file is a SQLite database."""
    with Path(path).open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE
