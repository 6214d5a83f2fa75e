"""`holdfast demo`: what holdfast is for, in a few seconds."""

import os
import shutil
import sys
from io import StringIO
from pathlib import Path

import click

from holdfast.cli import _show
from holdfast.cli._options import option
from holdfast.cli._session import Session, as_command
from holdfast.cli.ui import check_installed, is_installed
from holdfast.cli.ui import command as ui
from holdfast.demo import main
from holdfast.views.commands import Commands


@as_command("holdfast demo", "holdfast demo --ui", "holdfast demo ~/tides", own_store=True)
@click.argument(
    "directory", required=False, type=click.Path(file_okay=False, path_type=Path, resolve_path=True)
)
@option("--ui", "Then look at it in a browser, until Ctrl-C.", to="in_browser")
def command(session: Session, directory: Path | None, in_browser: bool) -> None:
    """Kill a program in the middle of its work, resume it, and delete a file that it made.

    The program and its store are written to DIRECTORY, where you can look at them afterwards, or
    to a temporary directory.
    """
    if session.json:
        _show.print_json(main(directory, StringIO())._asdict())
    elif in_browser:
        check_installed()  # before the demo, not after it
        main(directory, then=_serve)
    else:
        main(directory)
        _say_what_next(directory)


def _say_what_next(directory: Path | None) -> None:
    _show.say()
    _show.say("What next:", "bold")
    program = _program()
    rows = [(f"{program} demo --ui", "the same, then its run in a browser")] * is_installed()
    rows += [
        (f"{program} demo tides", "the same in ./tides, where you can change the program"),
        (f"{program} --help", "all commands"),
    ]
    if directory is not None:
        on = Commands(str(directory / "runs.db"))
        rows = [
            (on.line("show", "tides"), "what it did, and what it claims"),
            (on.line("verify", None, *_roots(directory)), "is all of that still true?"),
            *[(on.line("ui"), "the same in a browser")] * is_installed(),
        ]
        rows = [(line.replace("holdfast", program, 1), told) for line, told in rows]
    _show.table(("", ""), rows, headless=True)


def _roots(directory: Path) -> list[str]:
    """What allows `holdfast verify` to look at the files there: it looks in the current directory."""
    return [] if directory.is_relative_to(Path.cwd()) else [f"--root={directory}"]


def _program() -> str:
    """How this program is called from here: in a clone, its environment may not be on the path."""
    if shutil.which("holdfast") or not Path(sys.argv[0]).is_file():
        return "holdfast"
    return os.path.relpath(sys.argv[0])


def _serve(directory: Path) -> None:
    """Serve the store of the demo to a browser."""
    click.echo()
    context = click.get_current_context()
    context.invoke(ui, store=str(directory / "runs.db"), opens=sys.stdout.isatty())
