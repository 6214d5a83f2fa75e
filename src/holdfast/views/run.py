"""One run: its timeline, its state at a checkpoint, its child runs."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import Checkpoint, RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec import readable
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.operations.children import parent_run
from holdfast.operations.timeline import Moment
from holdfast.operations.verifying import Integrity, Problem
from holdfast.views import runs, threads, voided

_PROVED: Final = 5000  # entries of a run that is read whole, to mark what is damaged


class State(NamedTuple):
    """The state of a run at a checkpoint, in JSON's form. Of a LangGraph thread: its channels."""

    checkpoint: Checkpoint | None
    value: Any
    interrupts: list[Any] | None  # what a LangGraph thread waits for; None for other runs
    damage: str = ""  # why there is no state

    @property
    def checkpoint_id(self) -> str | None:
        """Where it is the state."""
        return None if self.checkpoint is None else self.checkpoint.checkpoint_id


class Shown(NamedTuple):
    """All that `holdfast show` shows of a run."""

    info: RunInfo
    word: str  # its status, for people
    facts: dict[str, Any]  # behind that word
    moments: list[Moment]
    children: list[RunInfo]
    tree: dict[str, list[RunInfo]]  # the same, by parent
    state: State
    integrity: Integrity | None = None  # None where it was not read whole

    @property
    def damage(self) -> str:
        """Why its status or its state is not to be trusted; empty if they are."""
        return self.state.damage or self.info.damage or ""

    def document(self) -> dict[str, Any]:
        """As `holdfast show --json` has it."""
        found = {
            "run": self.info._asdict() | self.facts,
            "timeline": [moment._asdict() for moment in self.moments],
            "children": [child._asdict() for child in self.children],
            "checkpoint_id": self.state.checkpoint_id,
            "state": self.state.value,
            "damage": self.damage or None,
        }
        if self.state.interrupts is not None:
            found["interrupts"] = self.state.interrupts
        return found


def show(
    cp: SyncCheckpointer, info: RunInfo, place: str | None = None, *, most: int | None = None
) -> Shown:
    """A run, with its current state or the one at the checkpoint `place`.

    With `most`, it has at most so many moments, the newest ones. Raises `CheckpointNotFoundError`
    if there is no such checkpoint.
    """
    if most is None:
        moments = cp.timeline(info.run_id)
    else:
        moments = cp.timeline(info.run_id, limit=most, newest_first=True)[::-1]
    state = state_at(cp, info, place)
    integrity = proved(cp, info, suspect=bool(state.damage))
    if integrity is not None:
        moments = marked(moments, integrity.problems)
    children = cp.children(info.run_id)
    tree: dict[str, list[RunInfo]] = {}
    for child in children:
        parent = parent_run(cp.core, child.run_id) or info.run_id
        tree.setdefault(parent, []).append(child)
    word, facts = runs.doing(cp, info)
    moments = in_words(cp, info, moments)
    return Shown(info, word, facts, moments, children, tree, state, integrity)


def proved(cp: SyncCheckpointer, info: RunInfo, *, suspect: bool = False) -> Integrity | None:
    """What checking all of a run found; None if it is long, and nothing is known to be wrong."""
    if info.damage or suspect or info.seq < _PROVED:
        return cp.verify(info.run_id)
    return None


def state_at(cp: SyncCheckpointer, info: RunInfo, place: str | None = None) -> State:
    """The current state of a run, or the one at the checkpoint `place`; damage is reported.

    Raises `CheckpointNotFoundError` if there is no such checkpoint.
    """
    if info.flow == threads.FLOW:
        place = threads.at(cp, place) if place else threads.newest(cp, info.run_id)
    try:
        checkpoint = cp.load(checkpoint_id=place) if place else cp.load(info.run_id)
        if checkpoint is None and place is not None:
            raise CheckpointNotFoundError(info.run_id, place)
        if checkpoint is None:
            return State(None, None, None)
        channels = threads.channels_of(checkpoint)
        if channels is not None:
            return State(checkpoint, channels, threads.interrupts(cp, checkpoint))
        return State(checkpoint, readable.to_json(checkpoint.state), None)
    except CheckpointCorruptedError as error:
        return State(None, None, None, str(error))


def in_words(cp: SyncCheckpointer, info: RunInfo, moments: Sequence[Moment]) -> list[Moment]:
    """The moments of a run; those of a LangGraph thread with what LangGraph says of each.

    Questions that a rollback voided, and their answers, are not current.
    """
    if info.flow == threads.FLOW:
        return threads.with_words(cp, info.run_id, moments)
    return voided.marked(cp, info.run_id, moments)


def marked(moments: Sequence[Moment], problems: Sequence[Problem]) -> list[Moment]:
    """The moments, with what is wrong with those that are damaged."""
    wrong = {problem.seq: f"damaged: {problem.reason}" for problem in problems}
    return [m._replace(note=wrong.get(m.seq, m.note)) for m in moments]
