"""`holdfast demo`: what holdfast is for, in a few seconds."""

from io import StringIO
from pathlib import Path

import click

from holdfast.cli import _show
from holdfast.cli._session import Session, as_command
from holdfast.demo import main


@as_command("holdfast demo", "holdfast demo ~/tides")
@click.argument(
    "directory", required=False, type=click.Path(file_okay=False, path_type=Path, resolve_path=True)
)
def command(session: Session, directory: Path | None) -> None:
    """Kill a program in the middle of its work, resume it, and delete a file that it made.

    The program and its store are written to DIRECTORY, where you can look at them afterwards, or
    to a temporary directory. --store is not used.
    """
    if session.json:
        _show.print_json(main(directory, StringIO())._asdict())
    else:
        main(directory)
