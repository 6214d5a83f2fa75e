"""Finding the run of a thread."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.codec.meta import Meta
from holdfast.engine.holding.lease import Holder
from holdfast.engine.holding.observing import active_error, standing_of
from holdfast.errors import CheckpointNotFoundError, ThreadNotFoundError
from holdfast.kernel.core import Core
from holdfast.kernel.threads import members
from holdfast.model import Status, check_id, thread_journal
from holdfast.operations.reading import outages_named


class Newest(NamedTuple):
    """The run of a thread that was begun last."""

    run_id: str | None  # None: there is none, or it was never opened
    seq: int  # of the thread's journal, where the next run goes
    unopened: str | None = None  # the run that was never opened


def look_at(core: Core, thread_id: str, flow: str | None = None) -> Newest:
    """The run of a thread that was begun last, of this flow if given. Blocks.

    A run that died before it was durable is not skipped for an older one: what was asked for last
    did not happen. Raises `RunActiveError` while a living process is about to open it.
    """
    name = thread_journal(check_id("thread_id", thread_id))
    with outages_named(thread_id):
        last = core.journals.head_seq(name)  # first: who opens a run meanwhile moves it
        seq = -1 if last is None else last
        for meta in members(core.journals, thread_id):
            head = core.journals.head(meta.run)
            if head is None:
                found = standing_of(core, Holder.parse(meta.holder), meta.run)
                if found.why is None:
                    raise active_error(meta.run, found)
                return Newest(None, seq, meta.run)
            known = head.status != Status.DELETED and head.thread == thread_id
            if known and flow in (None, head.flow) and not _is_by_hand(core, meta.run):
                return Newest(meta.run, seq)
    return Newest(None, seq)


def _is_by_hand(core: Core, run: str) -> bool:
    """Whether a run holds only what was saved by hand: no flow began it.

    One whose beginning is damaged is not skipped for an older one, either.
    """
    opening = core.journals.opening(run)
    return opening is not None and Meta(opening).inputs_hash is None


def newest_run(core: Core, thread_id: str, flow: str | None = None) -> str:
    """The run of a thread that was begun last, of this flow if given. Blocks.

    Raises `ThreadNotFoundError`, and `CheckpointNotFoundError` if it was never opened.
    """
    found = look_at(core, thread_id, flow)
    if found.run_id is not None:
        return found.run_id
    if found.unopened is not None:
        missing = CheckpointNotFoundError(found.unopened)
        missing.add_note(f"the newest run of thread {thread_id!r} was never begun: run it again")
        raise missing
    head = core.journals.head(thread_id)
    if head is not None and head.status != Status.DELETED:
        raise ThreadNotFoundError(thread_id, of_run=head.thread or "")
    raise ThreadNotFoundError(thread_id)
