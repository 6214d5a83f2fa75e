"""What to do about a damaged run: a sentence, and a command."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from holdfast.checkpointer import SyncCheckpointer
from holdfast.errors import CheckpointCorruptedError
from holdfast.operations.forking import SAME, branch_off
from holdfast.operations.reading import is_folded
from holdfast.operations.verifying import Integrity
from holdfast.views.commands import Commands, led_by


class Advice(NamedTuple):
    """Why something is to be done, and the command that does it."""

    why: str
    command: str  # empty where that is all
    note: str = ""  # what to know about the command

    def __str__(self) -> str:
        return led_by(self.why, self.command, self.note).rstrip()


def rescue(commands: Commands, cp: SyncCheckpointer, integrity: Integrity) -> Advice:
    """How to continue a damaged run from its newest intact checkpoint. Blocks."""
    run_id = integrity.run_id
    readable = ""
    if is_current_intact(cp, integrity):
        why = "Its current state is intact, and no resume needs what is damaged."
        seqs = [str(problem.seq) for problem in integrity.problems if problem.seq is not None]
        if not seqs:
            return Advice(f"{why} To see it:", commands.line("verify", run_id))
        return Advice(f"{why} To take it away:", commands.line("delete", run_id, places=seqs[:1]))
    with suppress(CheckpointCorruptedError):  # some damage hides the list
        for info in cp.iter_checkpoints(run_id):
            with suppress(CheckpointCorruptedError):
                found = cp.load(run_id, seq=info.seq)
                if found is None:
                    continue
                readable = readable or str(info.seq)
                branch_off(cp.core, run_id, found, SAME, thread=None, owner=found.owner, facts={})
                back = commands.line("rollback", run_id, places=[str(info.seq)])
                why = f"Its newest intact checkpoint is at {info.seq}. To go back to it:"
                return Advice(why, back)
    if readable:
        show = commands.line("show", run_id, "--at", readable, "--full")
        return Advice("It can't be continued. See its newest intact state:", show)
    delete = commands.line("forget", run_id)
    return Advice("None of its states can be read; restore it from a backup, or delete it:", delete)


def is_current_intact(cp: SyncCheckpointer, integrity: Integrity) -> bool:
    """Whether no damaged entry is among those that a resume reads. Blocks."""
    run_id = integrity.run_id
    try:
        if cp.load(run_id) is None:
            return False
        head = cp.core.journals.checked_head(run_id)
        damaged = list[CheckpointCorruptedError]()
        branch = list(cp.core.journals.branch(run_id, damaged.append))
        if damaged and any(map(is_folded, branch)):
            return False  # its state is made of all of them
        needed = {entry.seq for entry in branch} if any(map(is_folded, branch)) else set()
    except CheckpointCorruptedError:
        return False
    needed.update({0, head.seq} if head else {0})
    return needed.isdisjoint(problem.seq for problem in integrity.problems)
