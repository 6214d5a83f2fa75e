"""Finding the run of a thread."""

from __future__ import annotations

from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointNotFoundError, ThreadNotFoundError
from holdfast.kernel.core import Core
from holdfast.model import Kind, Status, check_id, thread_journal
from holdfast.operations.reading import outages_named


def newest_run(core: Core, thread_id: str, flow: str | None = None) -> str:
    """The run of a thread that was begun last, of this flow if given. Blocks.

    A run that died before it was durable is not skipped for an older one: what was asked for
    last did not happen. Raises `ThreadNotFoundError`, and `CheckpointNotFoundError` for that.
    """
    name = thread_journal(check_id("thread_id", thread_id))
    with outages_named(thread_id):
        for member in core.journals.entries(name, newest_first=True):
            if member.kind != Kind.MEMBER:
                continue
            run_id = Meta(member).run
            head = core.journals.head(run_id)
            if head is None:
                missing = CheckpointNotFoundError(run_id)
                missing.add_note(
                    f"the newest run of thread {thread_id!r} was never begun: run it again"
                )
                raise missing
            known = head.status != Status.DELETED and head.thread == thread_id
            if known and flow in (None, head.flow):
                return run_id
        head = core.journals.head(thread_id)
    if head is not None and head.status != Status.DELETED:
        raise ThreadNotFoundError(thread_id, of_run=head.thread or "")
    raise ThreadNotFoundError(thread_id)
