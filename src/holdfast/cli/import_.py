"""`holdfast import`: runs from files, and threads from LangGraph's databases."""

import shlex
from pathlib import Path
from typing import Any, Final

import click

from holdfast.cli import _show
from holdfast.cli._exits import FailedError
from holdfast.cli._options import option
from holdfast.cli._progress import progress
from holdfast.cli._session import Session, as_command
from holdfast.integrations.langgraph.databases import postgres, sqlite
from holdfast.integrations.langgraph.databases.rows import Opener
from holdfast.integrations.langgraph.importing import Imported, check_threads, import_threads
from holdfast.operations.transfer import runs_in
from holdfast.urls import local_path
from holdfast.views import words

_SQLITE: Final = b"SQLite format 3\0"
_NAMED: Final = 10  # threads that an error names
_DATABASES: Final[dict[str, Opener]] = {
    "langgraph-sqlite": sqlite.opened,
    "langgraph-postgres": postgres.opened,
}


@as_command(
    "holdfast import nightly-31.jsonl",
    "holdfast import backup/*.jsonl --store postgresql://db/runs",
    "holdfast import --from langgraph-sqlite checkpoints.sqlite",
    "holdfast import --from langgraph-postgres postgresql://db/agents --thread 7 --thread 8",
)
@click.argument("files", nargs=-1, required=True)
@option(
    "--from KIND",
    "A database of LangGraph's savers: langgraph-sqlite (a file) or langgraph-postgres (a URL).",
    to="kind",
    type=click.Choice(list(_DATABASES)),
)
@option("--thread ID", "With --from: only this thread.", to="threads", multiple=True)
def command(
    session: Session, files: tuple[str, ...], kind: str | None, threads: tuple[str, ...]
) -> None:
    """Add the runs in FILES that `holdfast export` wrote, or the threads of LangGraph's databases.

    A file that is incomplete or changed is refused before anything of it is written. Entries that
    the store already has are skipped; a different run with the same id is an error.

    With --from, FILES are databases, which are only read. Every thread is taken over with its whole
    history: a graph continues it on HoldfastSaver. Tables of an unknown layout, pickled and
    encrypted values, and what LangGraph can't have written are refused before anything is written.
    """
    if kind is not None:
        for where in files:
            _refuse_as_target(session, where)
        _import_threads(session, _DATABASES[kind], files, threads)
        return
    if threads:
        raise click.UsageError("--thread is for --from")
    for file in files:
        click.Path(exists=True, dir_okay=False).convert(file, None, None)
        if _is_store(file):
            name = _show.clean(shlex.quote(file))
            raise click.UsageError(
                f"{name} is a database: if it is a store, use holdfast copy {name} TARGET; if it is "
                "LangGraph's, use --from langgraph-sqlite"
            )
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
        lambda: _show.say(f"{words.plural(len(before), 'run')} imported, {len(new):,} of them new"),
    )


def _import_threads(
    session: Session, opened: Opener, databases: tuple[str, ...], threads: tuple[str, ...]
) -> None:
    found: list[Imported] = []
    try:
        for where in databases:
            with opened(where) as source:
                count = source.count(threads)
                with progress("checking", count) as advance:  # before there is a store
                    check_threads(source, threads, progress=advance)
                with session.opened(new=True) as cp, progress("importing", count) as advance:
                    found += import_threads(cp.core, source, threads, progress=advance)
    except ValueError as error:
        raise FailedError(_show.clean(f"{error}{_before(found)}")) from error
    missing = sorted(set(threads) - {one.thread_id for one in found})
    session.show([_document(one) for one in found], lambda: _draw(found))
    if missing:
        raise FailedError(f"there is no thread {_show.clean(', '.join(map(repr, missing)))}")


def _refuse_as_target(session: Session, where: str) -> None:
    """Raise if a file is both the database and the store that it is to be imported into."""
    target = local_path(session.url)
    if target is not None and target.resolve() == sqlite.path_of(where).resolve():
        raise click.UsageError(
            f"{_show.clean(where)} is both the database to import and the store; name "
            "another store with --store, which is made if it is not there"
        )


def _before(found: list[Imported]) -> str:
    """Which threads were imported before an error."""
    names = list(dict.fromkeys(one.thread_id for one in found))
    if not names:
        return ""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"; imported before that: {', '.join(map(repr, names[:_NAMED]))}{more}"


def _document(one: Imported) -> dict[str, Any]:
    return one._asdict() | {"new": one.new > 0}


def _draw(found: list[Imported]) -> None:
    count = len({one.thread_id for one in found})
    new = sum(one.new_checkpoints for one in found)
    checkpoints = sum(one.checkpoints for one in found)
    _show.say(
        f"{words.plural(count, 'thread')} imported with {words.plural(checkpoints, 'checkpoint')}, "
        f"{new:,} of them new"
    )


def _is_store(path: str) -> bool:
    """Whether a file is a SQLite database."""
    with Path(path).open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE
