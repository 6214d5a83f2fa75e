"""`holdfast export`: runs to files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli import _show
from holdfast.cli._choosing import chosen, chosen_by
from holdfast.cli._progress import progress
from holdfast.cli._session import Session, as_command

if TYPE_CHECKING:
    from holdfast.transfer import Form


@as_command(
    examples=(
        "holdfast export nightly-31",
        "holdfast export --all --to backup.jsonl",
        "holdfast export --owner ann --to ann/ --format json",
    )
)
@chosen_by
@click.option(
    "--to",
    "target",
    default="./",
    show_default=True,
    metavar="PATH",
    help="A directory, for one file per run, or a file for all.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "json"]),
    default="jsonl",
    show_default=True,
    help="A JSON document per line, or an array of them.",
)
def command(
    session: Session,
    runs: tuple[str, ...],
    every: bool,
    thread_id: str | None,
    owner: str | None,
    target: str,
    form: Form,
) -> None:
    """Write runs, with their whole history and the runs within them, to files.

    A PATH that ends in / or is a directory gets one file per run; any other is one file for all.
    `holdfast import` reads either. A file appears whole or not at all, and holds a checksum.
    """
    from holdfast.sweeping import archive_name

    to = Path(target)
    with session.opened() as cp:
        names = chosen(cp, runs, every, thread_id, owner)
        if not names:
            _none(session)
            return
        files = {}
        with progress("exporting", len(names)) as advance:
            if target.endswith("/") or to.is_dir():
                to.mkdir(parents=True, exist_ok=True)
                for name in names:
                    file = to / Path(archive_name(name)).with_suffix(f".{form}").name
                    cp.export_runs([name], file, form=form)
                    files[name] = str(file)
                    advance()
            else:
                cp.export_runs(names, to, form=form, progress=lambda _: advance())
                files = dict.fromkeys(names, str(to))
    document = [{"run_id": name, "file": file} for name, file in files.items()]
    where = next(iter(files.values())) if len(set(files.values())) == 1 else target
    session.show(
        document,
        lambda: _show.say(f"{_show.plural(len(files), 'run')} written to {_show.clean(where)}"),
    )


def _none(session: Session) -> None:
    session.show([], lambda: _show.say("no runs"))
