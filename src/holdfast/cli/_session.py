"""What every command has: its common options, the store, and ids that may be shortened."""

import functools
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

import click

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show
from holdfast.cli._exits import NotFoundError
from holdfast.engine.door import StoreLike, open_checkpointer
from holdfast.engine.resume.holders import standing
from holdfast.errors import CheckpointCorruptedError, HoldfastError
from holdfast.model import checkpoint_id
from holdfast.urls import default_url, local_path, masked

_CANDIDATES: Final = 10
_PAGE: Final = 500
_MASK: Final = "***"  # what a URL shows of its secrets


class Command(click.Command):
    """A command whose help ends with examples."""

    examples: tuple[str, ...] = ()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, as they are typed."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def as_command(*, examples: Sequence[str]) -> Callable[[Callable[..., None]], Command]:
    """Make a command of a function, whose first argument is the `Session`; named like its module."""

    def make(fn: Callable[..., None]) -> Command:
        @functools.wraps(fn)
        def run(store: str | None, as_json: bool, **arguments: Any) -> None:
            fn(Session(store, as_json), **arguments)

        made = click.command(fn.__module__.rpartition(".")[2].rstrip("_"), cls=Command)(run)
        made.params += _common_options()
        made.examples = tuple(examples)
        return made

    return make


class Session:
    """One call of a command."""

    def __init__(self, store: str | None, as_json: bool) -> None:
        self.where = store
        self.own: StoreLike = None  # what a flow brought along
        self.json = as_json

    @property
    def url(self) -> str:
        """The store that is meant."""
        return self.where or default_url()

    def adopt(self, own: StoreLike) -> None:
        """Use the store that a flow brings along, unless another was named."""
        if own is None or self.where is not None:
            return
        self.own = own
        if isinstance(own, str | os.PathLike):
            self.where = os.fspath(own)
        else:
            self.where = open_checkpointer(own).checkpointer.store.url

    @contextmanager
    def opened(self, *, new: bool = False, **options: Any) -> Iterator[SyncCheckpointer]:
        """The store, open. One that is not there is an error, unless it may be `new`."""
        if not new:
            self.require_store()
        store: Any = self.url
        if self.own is not None and not isinstance(self.own, str | os.PathLike):
            from holdfast.engine.door import open_checkpointer

            store = open_checkpointer(self.own).checkpointer.store
        with SyncCheckpointer(store, **options) as checkpointer:
            if not new and not checkpointer.store.exists():
                raise _no_store(checkpointer.store.url)
            yield checkpointer

    def require_store(self) -> None:
        """Looking must not create anything. Raises where there is no such file or directory."""
        path = local_path(self.url)
        if path is not None and not path.exists():
            raise _no_store(str(path))

    def show(self, document: Any, draw: Callable[[], None]) -> None:
        """Print the document as JSON if that was asked for, else draw it."""
        if self.json:
            _show.print_json(document)
        else:
            draw()

    def command(self, name: str, *arguments: str) -> str:
        """A command on the same store, as it is typed. No secret of its URL is shown for that."""
        where, note = [], ""
        if self.where is not None and self.where != default_url():
            shown = masked(self.where)
            if _MASK in shown:
                note = "  # with --store as before, or HOLDFAST_STORE set to it"
            else:
                where = [f"--store={shown}"]
        return _show.clean(shlex.join(["holdfast", name, *arguments, *where]) + note)

    @property
    def interactive(self) -> bool:
        """Whether a person can be asked."""
        return not self.json and sys.stdin.isatty() and sys.stdout.isatty()


def _no_store(where: str) -> NotFoundError:
    return NotFoundError(
        f"there is no store at {_show.clean(where)}; name one with --store, or save something first"
    )


def run_argument(
    name: str = "run", *, required: bool = True, nargs: int = 1
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """An argument that is the id of a run, or the beginning of one; shells complete it."""
    return click.argument(name, required=required, nargs=nargs, shell_complete=_complete)


def _complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The runs that may be meant; none where the store can't be looked at."""
    try:
        with Session(ctx.params.get("store"), False).opened() as cp:
            runs = cp.runs(prefix=incomplete, limit=_PAGE)
    except (HoldfastError, click.ClickException, OSError):
        return []
    names = {run.run_id for run in runs if run.run_id.isprintable()}
    return sorted(name for name in names if name.partition("//")[0] not in names - {name})


def find_run(cp: SyncCheckpointer, text: str, *, threads: bool = False) -> RunInfo:
    """The run of this id, or the one run whose id begins with it.

    Runs within runs don't make their parent ambiguous. With `threads`, where there is no such run
    it is the newest one of the thread of that id.
    """
    exact = cp.run(text)
    if exact is not None:
        return exact
    found: list[RunInfo] = []
    matches = (
        run
        for run in all_runs(cp, prefix=text)
        if not (found and run.run_id.startswith(f"{found[0].run_id}//"))
    )
    for run in islice(matches, _CANDIDATES + 1):
        found.append(run)  # noqa: PERF402 - the generator looks at what was found so far
    if not found and threads and (members := cp.thread(text)):
        return members[0]
    if not found:
        raise NotFoundError(f"there is no run {text!r} in {_show.clean(cp.store.url)}")
    if len(found) > 1:
        names = [_show.clean(run.run_id) for run in found[:_CANDIDATES]]
        more = ["…"] if len(found) > _CANDIDATES else []
        listed = "".join(f"\n  {name}" for name in [*names, *more])
        raise click.UsageError(f"{text!r} could be any of these runs; give more of the id:{listed}")
    return found[0]


def doing(cp: SyncCheckpointer, run: RunInfo) -> tuple[str, dict[str, Any]]:
    """What a run is really doing, in a word, and what JSON says about who carries it out."""
    try:
        found = standing(cp.core, run)
    except CheckpointCorruptedError:  # whoever looks closer is told
        return run.status, {}
    word = "orphaned" if found.orphaned else "answered" if found.answered else run.status
    return word, found._asdict()


def find_place(cp: SyncCheckpointer, run: str, where: str) -> str:
    """The id of a checkpoint, given by seq, as RUN@SEQ, or by the step it was saved after."""
    if where.isascii() and where.isdigit() and len(where) <= 18:
        return checkpoint_id(run, int(where))
    other, _, seq = where.rpartition("@")
    if other and seq.isascii() and seq.isdigit() and len(seq) <= 18:
        return checkpoint_id(find_run(cp, other).run_id, int(seq))
    newest = cp.list_checkpoints(run, step=where, limit=1)
    if not newest:
        raise NotFoundError(
            f"run {run!r} has no checkpoint {where!r}; give a seq, RUN@SEQ or the name of a step"
        )
    return newest[0].checkpoint_id


def all_runs(cp: SyncCheckpointer, **where: Any) -> Iterator[RunInfo]:
    """Every run that matches, page by page."""
    after = ""
    while page := cp.runs(after=after, limit=_PAGE, **where):
        yield from page
        after = page[-1].run_id


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(["--store"], metavar="URL", help="The store, by URL or path."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON instead of tables."),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            callback=_debug,
            help="Show where errors come from.",
        ),
    ]


def _debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta["holdfast.debug"] = value
