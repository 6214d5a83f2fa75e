"""`holdfast export`: runs to files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import click

from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show
from holdfast.cli._options import option
from holdfast.cli._progress import progress
from holdfast.cli._runs import every_run, find_run, run_argument, with_children
from holdfast.cli._session import Session, as_command
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import verdict_journal
from holdfast.operations.private_files import make_directories
from holdfast.operations.retention import archive_name
from holdfast.operations.subjects import heads_of, subject
from holdfast.views import words

Form = Literal["jsonl", "json", "parquet", "duckdb"]
_TABLES: Final = ("parquet", "duckdb")


@as_command(
    "holdfast export nightly-31",
    "holdfast export --all --to backup.jsonl",
    "holdfast export --owner ann --to ann.jsonl",
    "holdfast export --thread chat-7 --to chat-7/ --format json",
    "holdfast export --all --to checkpoints.parquet",
)
@run_argument("runs", required=False, nargs=-1)
@option("--all", "All runs of the store.", to="every")
@option("--thread ID", "All runs of this thread.", to="thread_id")
@option("--owner ID", "All runs of this owner.")
@option(
    "--to PATH", "A directory for one file per run, or a file for all.", to="target", default="./"
)
@option(
    "--opened",
    "With --owner or --thread and one file: what is encrypted is in the clear there, too.",
)
@option(
    "--format",
    "A JSON document per line, an array of them, or a table of checkpoints for other tools. "
    "By default, what PATH ends in, or jsonl.",
    to="form",
    type=click.Choice(["jsonl", "json", "parquet", "duckdb"]),
)
def command(
    session: Session,
    runs: tuple[str, ...],
    every: bool,
    thread_id: str | None,
    owner: str | None,
    target: str,
    opened: bool,
    form: Form | None,
) -> None:
    """Write runs, with their whole history and their child runs, to files.

    If PATH ends in / or is a directory, each run gets its own file; otherwise one file has them
    all. `holdfast import` reads either. One file with all of an owner or thread ends with a list of
    its runs, so that none can be missing unnoticed. A file is written completely or not at all, and
    has a checksum. What is damaged is left out, and named; the command then exits with 1. Tables
    (parquet and duckdb) can't be imported; they need the extra `duckdb`.
    """
    if sum((bool(runs), every, thread_id is not None, owner is not None)) != 1:
        raise click.UsageError("say which runs: RUN..., --thread, --owner or --all")
    to = Path(target)
    into = target.endswith("/") or to.is_dir()
    form = form or _form_of(to)
    if not into and (form in _TABLES or _form_of(to) in _TABLES) and form != _form_of(to):
        raise click.UsageError(
            f"--format {form} does not fit {target!r}; omit it, or name a file that ends in .{form}"
        )
    if opened and (into or form in _TABLES or (thread_id is None and owner is None)):
        raise click.UsageError("--opened is for --owner or --thread, and one file: --to FILE.jsonl")
    one_file = not into and (thread_id is not None or owner is not None)
    with session.opened() as cp:
        if one_file and (form == "jsonl" or form == "json"):
            _write_all_of(session, cp, to, form, thread_id, owner, opened=opened)
            return
        chosen = [find_run(cp, run) for run in runs] or every_run(cp, thread_id, owner)
        names = list(with_children(cp, chosen))
        files = {}
        damage: list[CheckpointCorruptedError] = []
        with progress("exporting", len(names)) as advance:
            if into and names:
                make_directories(to)
                for name in names:
                    file = to / Path(archive_name(name)).with_suffix(f".{form}").name
                    damage += _write(cp, [name], file, form, advance)
                    files[name] = str(file)
            elif names:
                damage += _write(cp, names, to, form, advance)
                files = dict.fromkeys(names, str(to))
    _tell(session, files, target, damage)


def _write_all_of(
    session: Session,
    cp: SyncCheckpointer,
    to: Path,
    form: Literal["jsonl", "json"],
    thread_id: str | None,
    owner: str | None,
    *,
    opened: bool,
) -> None:
    """Write all runs of an owner or thread to one file that lists them."""
    damage: list[CheckpointCorruptedError] = []
    names: list[str] = []
    of, value = subject(owner, thread_id, None)
    with progress("exporting", len(heads_of(cp.core, of, value))) as advance:

        def written(name: str) -> None:
            names.append(name)
            advance()

        try:
            cp.export_data(
                to, owner=owner, thread_id=thread_id, form=form, opened=opened, progress=written
            )
        except CheckpointCorruptedError as error:
            if not error.lost:
                raise
            damage.append(error)
    _tell(session, dict.fromkeys(names, str(to)), str(to), damage)


def _tell(
    session: Session, files: dict[str, str], target: str, damage: list[CheckpointCorruptedError]
) -> None:
    """Say what was written, by run. Raises the first error for what is damaged, and lacks."""
    lost = _show.lost_in(damage)
    document = [
        {"run_id": name, "file": file, "lost": [at for at in lost if _run_of(at) == name]}
        for name, file in files.items()
    ]
    where = next(iter(files.values())) if len(set(files.values())) == 1 else target
    text = f"{words.plural(len(files), 'run')} written to {_show.clean(where)}"
    text = text if files or Path(target).is_file() else "no runs"
    session.show(document, lambda: _show.say(text + _show.without(lost)))
    if damage:
        raise damage[0]


def _form_of(path: Path) -> Form:
    """What a file is by its name."""
    forms: dict[str, Form] = {".json": "json", ".parquet": "parquet", ".duckdb": "duckdb"}
    return forms.get(path.suffix, "jsonl")


def _write(
    cp: SyncCheckpointer, names: Sequence[str], file: Path, form: Form, advance: Callable[[], None]
) -> list[CheckpointCorruptedError]:
    """Write a file; returns the error for what it lacks because that is damaged."""
    try:
        if form == "parquet" or form == "duckdb":
            cp.export_checkpoints(file, run_ids=names, progress=lambda _: advance())
        else:
            cp.export_runs(names, file, form=form, progress=lambda _: advance())
    except CheckpointCorruptedError as error:
        if not error.lost:
            raise
        return [error]
    return []


def _run_of(place: str) -> str:
    return place.rpartition("@")[0].removeprefix(verdict_journal(""))
