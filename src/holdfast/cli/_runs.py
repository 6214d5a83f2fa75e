"""Runs and checkpoints as they are named on the command line."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

import click

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show
from holdfast.cli._session import Session, shown_commands
from holdfast.codec import envelope
from holdfast.codec.wrapping import SIGNED
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError, HoldfastError
from holdfast.errors.base import did_you_mean
from holdfast.kernel.reader import all_runs
from holdfast.model import CARRY_STATE, OF_CHILD, checkpoint_id
from holdfast.operations.children import parent_run
from holdfast.operations.listing import info_of
from holdfast.store import RunFilter
from holdfast.views.errors import NotFoundError

_CANDIDATES: Final = 10
_DIGITS: Final = 18  # of a seq
_COMPLETED: Final = 500  # runs that a shell is given to choose from


def run_argument(
    name: str = "run", *, required: bool = True, nargs: int = 1
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """An argument that is the id of a run, or the beginning of one; shells complete it."""
    return click.argument(name, required=required, nargs=nargs, shell_complete=_completions)


def _completions(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The runs that may be meant; none where the store can't be looked at."""
    try:
        with Session(ctx.params.get("store"), False).opened() as cp:
            runs = cp.runs(prefix=incomplete, limit=_COMPLETED)
            return [run.run_id for run in _outermost(cp, runs) if run.run_id.isprintable()]
    except (HoldfastError, click.ClickException, OSError):
        return []


def find_run(cp: SyncCheckpointer, text: str, *, threads: bool = False) -> RunInfo:
    """The run of this id, or the one run whose id begins with it.

    Child runs and subgraphs don't make their parent ambiguous. With `threads`, if there is no such
    run, it is the newest run of the thread of that id. Of a checkpoint, given as RUN@SEQ, it is
    said which command takes one.
    """
    info, seq = run_or_checkpoint(cp, text, threads=threads)
    if seq is not None:
        raise click.UsageError(_takes_a_run(cp, info.run_id, seq))
    return info


def run_or_checkpoint(
    cp: SyncCheckpointer, text: str, *, threads: bool = False
) -> tuple[RunInfo, str | None]:
    """As `find_run`; or the run and the seq of a checkpoint that is given as RUN@SEQ."""
    run, _, seq = text.rpartition("@")
    names_one = bool(run) and seq.isascii() and seq.isdigit() and len(seq) <= _DIGITS
    if names_one and cp.run(text) is None and (exact := cp.run(run)) is not None:
        return exact, seq  # rather than a run whose id only begins like that
    info = _find(cp, text, threads)
    if info is not None:
        return info, None
    if names_one:
        info = _find(cp, run, threads)
        if info is not None:
            return info, seq
    lead = _by_step(run, seq) if run and cp.run(run) is not None else _meant(cp, text)
    raise NotFoundError(f"there is no run {text!r} in {_show.clean(cp.store.url)}{lead}")


def named_checkpoint(cp: SyncCheckpointer, run: str, *where: str | None) -> tuple[RunInfo, str]:
    """The run, and which of its checkpoints is meant: given as RUN WHERE, or as RUN@SEQ."""
    info, seq = run_or_checkpoint(cp, run)
    given = [one for one in (seq, *where) if one is not None]
    if len(given) != 1:
        raise click.UsageError(
            f"name one checkpoint of {_show.clean(info.run_id)}: its seq, or a step"
        )
    return info, given[0]


def _by_step(run: str, step: str) -> str:
    """How a checkpoint is named by its step, where RUN@STEP was given."""
    name = click.get_current_context().command.name
    ways = {"show": ["--at", step], "fork": ["--at", step], "rollback": [], "diff": []}
    told = "; behind the @ is a seq"
    if name is None or name not in ways:
        return told
    way = shown_commands().line(name, run, *ways[name], places=[] if ways[name] else [step])
    return f"{told}; by its step: {way}{' B' if name == 'diff' else ''}"


def _takes_a_run(cp: SyncCheckpointer, run: str, seq: str) -> str:
    """What to do instead, where a checkpoint was named, and a run is wanted."""
    context, commands = click.get_current_context(), shown_commands()
    with suppress(CheckpointCorruptedError):
        entry = cp.core.journals.entry(run, int(seq))
        if entry is None or entry.kind not in CARRY_STATE:
            raise CheckpointNotFoundError(run, checkpoint_id(run, int(seq)))
    show = commands.line("show", f"{run}@{seq}")
    told = f"'{_show.clean(run)}@{seq}' is a checkpoint"
    match context.command.name:
        case "verify" | "export" as name:
            whole = commands.line(name, run)
            return f"{told}; for its whole run: {whole}; to see its state: {show}"
        case "resume" | "retry":
            back = commands.line("rollback", run, places=[seq])
            fork = commands.line("fork", run, "--at", seq)
            return f"{told}; go back to it first: {back}; or begin a new run there: {fork}"
        case "forget":
            return f"{told}; to delete it alone: {commands.line('delete', run, places=[seq])}"
    return f"{told}, and a run is wanted: {_show.clean(run)}; to see the checkpoint: {show}"


def _find(cp: SyncCheckpointer, text: str, threads: bool) -> RunInfo | None:
    exact = cp.run(text)
    if exact is not None:
        return exact
    found = _outermost(cp, cp.iter_runs(prefix=text), _CANDIDATES + 1)
    if not found and threads and (members := cp.thread(text)):
        return members[0]
    if len(found) > 1:
        names = [_show.clean(run.run_id) for run in found[:_CANDIDATES]]
        more = ["…"] if len(found) > _CANDIDATES else []
        listed = "".join(f"\n  {name}" for name in [*names, *more])
        raise click.UsageError(f"{text!r} could be any of these runs; give more of the id:{listed}")
    return found[0] if found else None


def _meant(cp: SyncCheckpointer, text: str) -> str:
    """The end of a sentence about a run that is not there: which one may have been meant."""
    from holdfast.views.runs import meant_by

    return did_you_mean(meant_by(cp, text))


def _outermost(
    cp: SyncCheckpointer, runs: Iterable[RunInfo], most: int | None = None
) -> list[RunInfo]:
    """At most so many of the runs that are no child runs; of child runs alone, the outer ones."""
    from holdfast.views.threads import is_subgraph

    within: list[RunInfo] = []
    found: list[RunInfo] = []
    for run in runs:
        is_within = OF_CHILD in run.run_id or is_subgraph(run)
        (within if is_within else found).append(run)
        if len(found) == most:
            break
    if found:
        return found
    names = {run.run_id for run in within}
    outer = (run for run in within if parent_run(cp.core, run.run_id) not in names)
    return list(islice(outer, most))


def is_signed(session: Session, run: str) -> bool:
    """Whether a run is signed, or is to be: then --sign-key has to sign what is added, too."""
    if session.keys.sign is None or session.keys.trusted:
        return True
    with session.opened(signing=False) as cp:
        head = cp.store.read(find_run(cp, run).run_id, newest_first=True, limit=1)
        return any(envelope.glance(entry).flags & SIGNED for entry in head)


def find_place(cp: SyncCheckpointer, run: str, where: str) -> str:
    """The id of a checkpoint, given by seq, as RUN@SEQ, or by the step it was saved after."""
    from holdfast.views import runs as views  # imports much of the engine

    return views.find_place(cp, run, where, find_run)


def every_run(
    cp: SyncCheckpointer, thread_id: str | None = None, owner: str | None = None
) -> list[RunInfo]:
    """All runs, or those of a thread or owner, ordered by id, as their journals say."""
    where = RunFilter(thread=thread_id, owner=owner)
    return info_of(cp.core, list(all_runs(cp.store, where)))


def with_children(cp: SyncCheckpointer, runs: Sequence[RunInfo]) -> dict[str, RunInfo]:
    """These runs and their child runs, by id."""
    families = ((run, *cp.children(run.run_id)) for run in runs)
    return {run.run_id: run for family in families for run in family}
