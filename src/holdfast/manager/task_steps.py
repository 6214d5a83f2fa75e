"""Steps in a task's journal: begun, committed once, abandoned, rolled back.

A `begin` entry stores the snapshot. The `checkpoint` that commits it names it by its random id, so
that nothing else can be mistaken for it; so does the `cancel` that abandons it. A rollback to
before a begun step discards it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import CheckpointInfo, to_datetime
from holdfast.codec import readable
from holdfast.codec.meta import IN_FORCE, WORKER, Meta, dump_meta
from holdfast.engine.holding.process import this_process
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    ConflictError,
    InvalidIdError,
    RunMismatchError,
    StepConflictError,
    StepNotFoundError,
)
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.trust.indexing import Index
from holdfast.evidence.trust.storing import evidence_meta, pack_digest, pack_of
from holdfast.kernel import compose
from holdfast.kernel.appending import alias_of, append_if
from holdfast.kernel.compose import rollback_to
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.kernel.entries import is_stub, state_seq
from holdfast.manager.begun_step import BegunStep, abandoned, commit_of, followed, proved, saved
from holdfast.manager.task_checkpoint import StepInFlight
from holdfast.model import (
    CheckpointType,
    Entry,
    Kind,
    Status,
    alias_journal,
    check_id,
    checkpoint_id,
    split_checkpoint_id,
)

_BEGUN: Final = "begun"
"""In the `meta` of what commits or abandons a step: the id of the entry that began it."""


class GoingBack(NamedTuple):
    """Where a task continues with its next step."""

    target: int | None  # None: from the beginning
    seen: int | None  # the current checkpoint when that was decided


class _DoneError(Exception):
    """It was written already."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry


def begin_draft(
    core: Core,
    run: str,
    checkpoint_type: str,
    snapshot: Mapping[str, Any],
    work_item_id: str | None,
    metadata: Mapping[str, Any] | None,
) -> Draft:
    """What begins a step: its snapshot, type and facts. Encodes, and checks everything."""
    for what, given in (("snapshot", snapshot), ("metadata", metadata or {})):
        if not isinstance(given, Mapping):
            raise TypeError(f"{what} must be a dict, not {type(given).__name__}")
    facts: dict[str, Any] = {WORKER: str(this_process())}
    if work_item_id is not None:
        facts["work_item"] = check_id("work_item_id", work_item_id)
    if metadata:
        facts["metadata"] = readable.to_json(dict(metadata), root="metadata")
    return Draft(
        Kind.BEGIN.value,
        Status.OPEN.value,
        compose.encode(core, run, dict(snapshot), root="snapshot"),
        type=known_type(checkpoint_type),
        meta=compose.bounded_meta(facts),
    )


def known_type(given: str) -> str:
    """The type, if it is one of `CheckpointType`."""
    if given not in set(CheckpointType):
        raise ValueError(
            f"checkpoint_type must be one of {', '.join(CheckpointType)}, not {given!r}"
        )
    return str(given)


def begin(core: Core, run: str, draft: Draft, back: GoingBack | None) -> Op[Entry]:
    """Append the beginning of a step, behind a rollback if the task goes back."""

    def decide(head: Entry | None) -> Draft | list[Draft]:
        if back is None and (head is None or head.status == Status.DELETED):
            return draft
        if head is not None and head.flow is not None:
            raise RunMismatchError(run, "flow", head.flow, "the steps of a task")
        if back is None:
            return draft
        moved = head is not None and state_seq(head) != back.seen
        if back.target is not None and back.target == back.seen:
            since = list(core.journals.entries(run, after=back.target, damage=lambda _: None))
            if moved and not all(_leaves_alone(entry, draft) for entry in since):
                raise ConflictError(run, since[-1].seq)
            return [*_abandoning(since, draft), draft]
        if head is not None and moved:
            raise ConflictError(run, head.seq)
        target = None if back.target is None else core.journals.entry(run, back.target)
        if back.target is not None and target is None:
            raise CheckpointNotFoundError(run, checkpoint_id(run, back.target))
        return [rollback_to(target), draft]

    return (yield from append_if(core, run, decide, past_damage=True))


def _abandoning(since: list[Entry], draft: Draft) -> Iterator[Draft]:
    """What abandons the steps of the same work item that were begun and not committed."""
    over = {Meta(entry).begun for entry in since if saved(entry)} | abandoned(since)
    for entry in reversed(followed(since)):
        waits = entry.kind == Kind.BEGIN and entry.entry_id.hex() not in over
        if waits and not _of_others(entry, draft):
            yield _cancel(entry)


def _leaves_alone(entry: Entry, draft: Draft) -> bool:
    """Whether an entry does not change what a step to be begun continues from."""
    if saved(entry):
        return _of_others(entry, draft)
    return entry.kind in (Kind.BEGIN, Kind.CANCEL, Kind.TRIM)


def _of_others(entry: Entry, draft: Draft) -> bool:
    """Whether an entry and a step to be begun belong to different work items of the task."""
    item, other = Meta(entry).work_item, json.loads(draft.meta or "{}").get("work_item")
    return None not in (item, other) and item != other


def _cancel(begun: Entry) -> Draft:
    meta = dump_meta({_BEGUN: begun.entry_id.hex()})
    return Draft(Kind.CANCEL.value, Status.OPEN.value, type=begun.type, meta=meta)


def find(core: Core, step_id: str) -> Entry:
    """The beginning of a step. Raises `StepNotFoundError`. Blocks."""
    try:
        run, seq = split_checkpoint_id(step_id)
    except InvalidIdError:
        raise StepNotFoundError(step_id) from None
    entry = core.journals.entry(run, seq)
    if entry is None or entry.kind != Kind.BEGIN:
        raise StepNotFoundError(step_id)
    return entry


def commit(
    core: Core,
    begun: Entry,
    pack: EvidencePack,
    alias: str | None,
    observe: Callable[[EvidencePack], object],
    index: Index,
) -> Op[tuple[Entry, bool]]:
    """Append the checkpoint of a begun step, once; the one that is there if it was committed.

    Also returns whether it is a new one. `observe` is called with the pack before that is saved,
    to check it. Raises `StepConflictError` if that has other evidence or another alias, if the step was
    abandoned or overtaken, if the task was rolled back to before it, and if the alias is taken.
    """
    step_id = checkpoint_id(begun.run, begun.seq)

    def refuse() -> None:
        step = BegunStep(core, begun)
        if step.commit is not None:
            raise _DoneError(step.commit)
        reason = step.why_not()
        if reason is not None:
            raise StepConflictError(step_id, reason)

    def decide(head: Entry | None) -> Draft:
        refuse()
        current = None if head is None else state_seq(head)
        named = index.names(core, begun.run, current, pack)
        more = {} if named is None else {IN_FORCE: named}
        return draft._replace(meta=dump_meta(facts | more))

    try:
        refuse()  # a step that can't be committed takes no name, and nothing is checked for it
        observe(pack)
        facts = {**Meta(begun).fields, _BEGUN: begun.entry_id.hex(), **evidence_meta(pack)}
        facts.pop(WORKER, None)
        if alias is not None:
            facts["alias"] = alias
        draft = Draft(
            Kind.CHECKPOINT.value,
            Status.OPEN.value,
            core.journals.chain(begun.run, begun.seq, begun).encoding,
            type=begun.type,
        )
        if alias is not None:
            yield from _name(core, alias, step_id)
        return (yield from append_if(core, begun.run, decide)), True
    except _DoneError as already:
        done = CheckpointInfo(already.entry)
        committed = pack_of(done)
        if committed is None or pack_digest(committed) != pack_digest(pack):
            reason = f"it was committed as {done.checkpoint_id} with other evidence"
            raise StepConflictError(step_id, reason) from None
        if alias not in (None, done.meta.alias):
            reason = f"it was committed under another name, as {done.checkpoint_id}"
            raise StepConflictError(step_id, reason) from None
        return already.entry, False


def abandon(core: Core, begun: Entry) -> Op[None]:
    """Abandon a begun step, unless it is abandoned or rolled back already.

    Raises `StepConflictError` if it was committed.
    """

    def decide(head: Entry | None) -> Draft:
        step = BegunStep(core, begun)
        if step.commit is not None:
            reason = f"it was committed as {checkpoint_id(begun.run, step.commit.seq)}"
            raise StepConflictError(checkpoint_id(begun.run, begun.seq), reason)
        if not step.waits:
            raise _DoneError(begun)
        return _cancel(begun)

    try:
        yield from append_if(core, begun.run, decide)
    except _DoneError:
        return


def in_flight(core: Core, run: str) -> list[StepInFlight]:
    """The steps of a task that wait to be committed, oldest first. Reads its whole index. Blocks."""
    entries = proved(core, run)
    over = {Meta(entry).begun for entry in entries if saved(entry)} | abandoned(entries)
    waiting = [entry for entry in followed(entries) if entry.kind == Kind.BEGIN]
    return [_in_flight(core, e) for e in reversed(waiting) if e.entry_id.hex() not in over]


def check_alias(alias: str) -> str:
    """The name, if it can be one. Raises `InvalidIdError`."""
    check_id("checkpoint_id", alias)
    try:
        split_checkpoint_id(alias)
    except InvalidIdError:
        return alias
    raise InvalidIdError("checkpoint_id", alias, "has the form RUN@SEQ; choose a name of your own")


def resolve(core: Core, name: str) -> tuple[str, int] | None:
    """The run and seq of an id, which is RUN@SEQ or the caller's own. Blocks."""
    try:
        return split_checkpoint_id(name)
    except InvalidIdError:
        check_id("checkpoint_id", name)
    own = core.journals.checked_head(alias_journal(name, core.journals.owner))
    step_id = _named(own or core.journals.checked_head(alias_journal(name)))
    try:
        begun = find(core, step_id or "")
    except StepNotFoundError:
        return None
    done = commit_of(begun, core.journals.entries(begun.run, after=begun.seq))
    if done is None:  # unless what is there was altered, which this finds
        done = commit_of(begun, _proved_since(core, begun))
    return None if done is None else (done.run, done.seq)


def _proved_since(core: Core, begun: Entry) -> Iterator[Entry]:
    """The entries behind one. Raises unless they are as they were written, or deleted."""
    for entry in core.journals.entries(begun.run, after=begun.seq, bodies=True):
        if is_stub(entry):
            core.journals.check_stub(entry)
        yield entry


def _name(core: Core, alias: str, step_id: str) -> Op[None]:
    """Let an alias name a step. Raises `StepConflictError` while it names another."""

    def decide(head: Entry | None) -> Draft:
        holder = _named(head)
        if head is not None and holder == step_id:
            raise _DoneError(head)
        if holder is not None and _is_in_use(core, holder):
            reason = f"checkpoint_id {alias!r} belongs to the step {holder}"
            raise StepConflictError(step_id, reason)
        return alias_of(step_id)

    try:
        yield from append_if(core, alias_journal(alias, core.journals.owner), decide)
    except _DoneError:
        return


def _named(head: Entry | None) -> str | None:
    return None if head is None else Meta(head).step


def _is_in_use(core: Core, step_id: str) -> bool:
    """Whether a step was committed, or can be."""
    try:
        step = BegunStep(core, find(core, step_id))
    except StepNotFoundError:
        return False
    return step.commit is not None or step.waits


def _in_flight(core: Core, entry: Entry) -> StepInFlight:
    info = CheckpointInfo(entry)
    snapshot: Any = core.journals.value(entry.run, entry.seq)
    return StepInFlight(
        step_id=checkpoint_id(entry.run, entry.seq),
        task_id=entry.run,
        checkpoint_type=entry.type,
        work_item_id=info.meta.work_item,
        begun_at=to_datetime(entry.at),
        snapshot=snapshot,
        metadata=info.metadata,
    )


def matching(checkpoint_type: str | None, work_item_id: str | None) -> Callable[[Entry], bool]:
    """Whether an entry is of this type and work item, as far as they are given."""
    kind = None if checkpoint_type is None else known_type(checkpoint_type)

    def wanted(entry: Entry) -> bool:
        return (kind is None or entry.type == kind) and (
            work_item_id is None or Meta(entry).work_item == work_item_id
        )

    return wanted


def current(core: Core, run: str) -> int | None:
    """The seq of the task's current checkpoint; None if the head is damaged."""
    try:
        head = core.journals.checked_head(run)
    except CheckpointCorruptedError:
        return None
    return None if head is None else state_seq(head)
