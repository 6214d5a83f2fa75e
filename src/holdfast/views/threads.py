"""LangGraph's threads: their checkpoints, the values of their channels, and what they wait for."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import Checkpoint, RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec import readable
from holdfast.errors import CheckpointCorruptedError
from holdfast.integrations.langgraph import layout, plain
from holdfast.integrations.langgraph.forking import fork_thread
from holdfast.kernel import compose
from holdfast.kernel.pages import pass_by
from holdfast.kernel.reader import all_runs
from holdfast.model import Entry, Kind, checkpoint_id
from holdfast.operations.diff import Diff, diff_values
from holdfast.operations.timeline import Moment
from holdfast.store import RunFilter
from holdfast.views.errors import NotFoundError, RefusedError

FLOW: Final = layout.FLOW

_INTERRUPT: Final = "__interrupt__"


class Forked(NamedTuple):
    """A new thread: its run, its newest checkpoint, and the one that it begins with."""

    run_id: str
    checkpoint_id: str | None
    origin: str


def is_subgraph(run: RunInfo) -> bool:
    """Whether a run is the namespace of a subgraph, by its id."""
    return run.flow == FLOW and bool((layout.thread_and_ns(run.run_id) or ("", ""))[1])


def refuse(run: RunInfo) -> None:
    """Raise for a thread of LangGraph's: only its graph can continue it."""
    if run.flow != FLOW:
        return
    found = layout.thread_and_ns(run.run_id)
    thread = run.run_id if found is None else found[0]
    config = {"configurable": {"thread_id": thread}}
    raise RefusedError(
        f"{run.run_id} is a thread of LangGraph's, and `holdfast show` says what it "
        "waits for; answer it with graph.invoke(Command(resume=...), config), or continue it with "
        f"graph.invoke(None, config), where config = {config!r}"
    )


def newest(cp: SyncCheckpointer, run: str) -> str | None:
    """The id of a thread's newest checkpoint; behind it may be the writes of its tasks."""
    branch = cp.core.journals.branch(run, damage=pass_by)
    found = (entry.seq for entry in branch if entry.kind == Kind.CHECKPOINT)
    return next((checkpoint_id(run, seq) for seq in found), None)


def at(cp: SyncCheckpointer, place: str) -> str:
    """The id of a thread's checkpoint, as it was given. Raises if only writes are there."""
    run, _, seq = place.rpartition("@")
    entry = cp.core.journals.entry(run, int(seq))
    note = None if entry is None else layout.note_of(entry)
    if isinstance(note, layout.WritesNote):
        raise NotFoundError(
            f"{place} has what a task wrote, and is no checkpoint; "
            "give the seq of one that `holdfast show` calls input, loop, update or fork"
        )
    return place


def fork(cp: SyncCheckpointer, run: str, place: str | None, thread: str | None) -> Forked:
    """Begin a thread from another one, or from a checkpoint of it."""
    seq = None
    if place is not None:
        run, _, number = at(cp, place).rpartition("@")
        seq = int(number)
    name = compose.given_or_new(cp.core, thread)
    origin = fork_thread(cp.core, run, name, seq=seq)
    target = layout.run_id(name)
    return Forked(target, newest(cp, target), origin)


class Ahead(NamedTuple):
    """A subgraph of a thread whose state is newer than the checkpoint that was gone back to."""

    run_id: str
    seq: int | None  # of the checkpoint that was its newest then; None: there was none

    @property
    def command(self) -> str:
        """What puts it where it was."""
        run = shlex.quote(self.run_id)
        if self.seq is None:
            return f"holdfast forget {run}"
        return f"holdfast rollback {run} {self.seq}"


def ahead(cp: SyncCheckpointer, place: str) -> list[Ahead]:
    """The subgraphs that continue from what they saved after this checkpoint of their thread.

    A subgraph that LangGraph begins anew with each task counts only as part of the tasks of this
    checkpoint, which are the ones to be executed again.
    """
    run, _, seq = place.rpartition("@")
    entry = cp.core.journals.entry(run, int(seq))
    note = None if entry is None else layout.note_of(entry)
    if note is None:
        return []
    then = note.of if isinstance(note, layout.WritesNote) else note.id
    within = RunFilter(flow=FLOW, prefix=f"{run}{layout.BETWEEN}")
    found: list[Ahead] = []
    for head in all_runs(cp.store, within):
        saved = _checkpoints(cp, head.run)
        newest = next(saved, None)
        if newest is None or newest[1].id <= then:
            continue
        _, _, ns = head.run.partition(layout.BETWEEN)
        if ":" not in ns or newest[1].metadata.get("parents", {}).get("") == then:
            earlier = (seq for seq, note in saved if note.id <= then)
            found.append(Ahead(head.run, next(earlier, None)))
    return found


def _checkpoints(cp: SyncCheckpointer, run: str) -> Iterator[tuple[int, layout.CheckpointNote]]:
    """The checkpoints that led to the state of a run, newest first, with their seqs."""
    for entry in cp.core.journals.branch(run, damage=pass_by):
        note = layout.note_of(entry)
        if isinstance(note, layout.CheckpointNote):
            yield entry.seq, note


def diff(cp: SyncCheckpointer, a: str, b: str) -> Diff | None:
    """How the channels at one checkpoint differ from those at another; None if they have none."""
    states = [cp.load(checkpoint_id=at(cp, place)) for place in (a, b)]
    old, new = (None if state is None else channels_of(state) for state in states)
    return None if old is None or new is None else diff_values(old, new, a, b)


def channels_of(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """The values of a thread's channels in JSON's form; None for a state of anything else."""
    if checkpoint.flow != FLOW:
        return None
    try:
        found = plain.channel_values(checkpoint.state)
        return {name: readable.to_json(value) for name, value in found.items()}
    except ValueError:
        return None


def interrupts(cp: SyncCheckpointer, checkpoint: Checkpoint) -> list[Any]:
    """What the tasks of a thread's checkpoint ask for, in JSON's form."""
    mine = layout.note_of(checkpoint.entry)
    if not isinstance(mine, layout.CheckpointNote):
        return []
    asked: list[Any] = []
    for entry in _written(cp, checkpoint, mine):
        try:
            wrote = plain.writes(cp.core.journals.value(entry.run, entry.seq))
        except (CheckpointCorruptedError, ValueError):
            continue
        asked += [readable.to_json(value) for channel, value in wrote if channel == _INTERRUPT]
    return [
        _asked(one) for value in asked for one in (value if isinstance(value, list) else [value])
    ]


def _written(
    cp: SyncCheckpointer, checkpoint: Checkpoint, mine: layout.CheckpointNote
) -> list[Entry]:
    """The entries with what the tasks of a checkpoint wrote, oldest first."""
    journals, run = cp.core.journals, checkpoint.run_id
    found: dict[int, Entry] = {}
    early = set(mine.early)
    for entry in journals.entries(run, after=checkpoint.seq, damage=pass_by):
        try:
            note = layout.note_of(entry, metadata=False)
        except CheckpointCorruptedError:
            continue
        if isinstance(note, layout.WritesNote) and note.of == mine.id:
            found[entry.seq] = entry
            early.update(note.also)
    for seq in early - found.keys():
        try:
            before = journals.entry(run, seq)
        except CheckpointCorruptedError:
            continue
        if before is not None and before.kind == Kind.RESULT:
            found[seq] = before
    return [found[seq] for seq in sorted(found)]


def _asked(interrupt: Any) -> Any:
    """What an interrupt was raised with."""
    match interrupt:
        case {"langgraph.types.Interrupt": {"value": value}}:
            return value
    return interrupt


def with_words(cp: SyncCheckpointer, run: str, moments: Sequence[Moment]) -> list[Moment]:
    """The moments of a thread, with what LangGraph says of each."""
    if not moments:
        return []
    wanted = {moment.seq for moment in moments}
    told: dict[int, str] = {}
    after = moments[0].seq - 1
    for entry in cp.core.journals.entries(run, after=after, damage=pass_by):
        if entry.seq in wanted:
            try:
                told[entry.seq] = _told(layout.note_of(entry))
            except CheckpointCorruptedError:
                continue
    return [m._replace(step=told.get(m.seq) or m.step) for m in moments]


def _told(note: layout.CheckpointNote | layout.WritesNote | None) -> str:
    if isinstance(note, layout.CheckpointNote):
        return f"{note.metadata.get('source', '')} {note.metadata.get('step', '')}".strip()
    if isinstance(note, layout.WritesNote):
        node = note.path.rpartition(", ")[2].strip("~")
        return f"writes of {node}" if node and not node.isdigit() else "writes of a task"
    return ""
