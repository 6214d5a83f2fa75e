"""What a fork begins with: the opening of its origin, and what was recorded up to there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from holdfast.checkpoint import Checkpoint
from holdfast.codec.meta import IN_FORCE, INHERITED, OF_ONE_LIFE, Meta, dump_meta, meta_text
from holdfast.errors import CheckpointCorruptedError, RunFinishedError
from holdfast.kernel import compose
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.pages import pass_by
from holdfast.model import CARRY_STATE, Entry, Kind, Status
from holdfast.operations.answers import copied_meta

MAX_INHERITED: Final = 4 << 20  # characters of claims: some ten thousand files


class Same:
    """The default "keep the state", where None is a state like any other."""

    def __repr__(self) -> str:
        return "as it was"


SAME: Final = Same()

_RECORDED: Final = (
    Kind.RESULT,
    Kind.DECISION,
    Kind.QUESTION,
    Kind.ANSWER,
    Kind.FAIL,
    Kind.SLEEP,
)


def refuse_undone(core: Core, run: str, seq: int) -> None:
    """Raise `RunFinishedError` where a step up to `seq` was undone since, or is to be. Blocks.

    A run continued from there would take that step for done.
    """
    try:
        head = core.journals.checked_head(run)
    except CheckpointCorruptedError:
        return  # what it said is lost; the checkpoint itself is intact
    if head is None:
        return
    past = core.journals.entries(run, damage=pass_by)
    results = (e for e in past if e.kind == Kind.RESULT and e.seq <= seq)
    if head.status in (Status.FAILED, Status.CANCELLED):
        steps = {str(key).removeprefix("undo/") for key in Meta(head).rolled_back}
        if steps and any(entry.step in steps for entry in results):
            raise RunFinishedError(run, f"{head.status} and rolled back")
    elif _is_rolled_back(core, head) and any(Meta(entry).is_to_undo for entry in results):
        raise RunFinishedError(run, "being rolled back")


def _is_rolled_back(core: Core, head: Entry) -> bool:
    """Whether the steps of a run are being undone: nothing else is recorded in it then."""
    if head.status != Status.RUNNING or head.kind in CARRY_STATE:
        return False
    for entry in core.journals.entries(head.run, newest_first=True, damage=pass_by):
        if entry.kind == Kind.FAIL and Meta(entry).of == "rollback":
            return True
        if entry.kind in CARRY_STATE or entry.kind in (Kind.OPEN, Kind.ROLLBACK):
            return False
    return False


def branch_off(
    core: Core,
    run: str,
    source: Checkpoint,
    state: object,
    *,
    thread: str | None,
    owner: str | None,
    facts: Mapping[str, str],
) -> tuple[list[Draft], Draft]:
    """The entries that make a new run of another's checkpoint: all before the last, and the last.

    Blocks. The opening says these `facts`. A state is copied as it is; results are copied one by one, with the values that an
    edited state gives them, behind the state that they build on.
    """
    begun = _opening(core, source)
    meta = dict(Meta(begun).fields) if begun else {}
    for name in OF_ONE_LIFE:
        meta.pop(name, None)
    born = {"birth": core.journals.new_birth(), "origin": source.checkpoint_id}
    opening = Draft(
        Kind.OPEN.value,
        Status.OPEN.value,
        core.journals.chain(begun.run, begun.seq, begun).encoding if begun and begun.size else None,
        parent=None,
        flow=source.flow,
        thread=thread,
        owner=owner,
        meta=dump_meta({**meta, **born, **facts}),
    )
    copies: list[Draft] = []
    if source.entry.kind == Kind.RESULT:
        trail = core.journals.trail(source.run_id, source.seq)
        alone = Meta(source.entry).in_branch  # its state is its own value, not all results
        *copies, last = _copies(core, run, trail, SAME if alone else state, owner)
        if alone and state is not SAME:
            last = last._replace(encoding=compose.encode(core, run, state, owner=owner))
    else:
        given = source.state if state is SAME else state
        last = _draft(source.entry)._replace(encoding=compose.encode(core, run, given, owner=owner))
    own = json.loads(last.meta or "{}") | {"origin": source.checkpoint_id}
    if source.entry.kind != Kind.RESULT:  # results are copied with what was claimed with them
        own |= _claimed_before(core, source.entry)
    for name in ("begun", "alias"):  # they belong to the origin alone
        own.pop(name, None)
    if IN_FORCE in own:  # by seqs of the origin; here it inherits all of it
        own[IN_FORCE] = ""
    last = last._replace(flow=source.flow, thread=thread, owner=owner, meta=dump_meta(own))
    *before, last = (
        draft
        if draft.encoding is None or owner == source.owner
        else draft._replace(encoding=core.withholding.handed_over(run, draft.encoding, owner))
        for draft in (opening, *copies, last)
    )
    return before, last


def _opening(core: Core, source: Checkpoint) -> Entry | None:
    """The opening of the origin; a run that was saved by hand needs nothing of it."""
    try:
        return core.journals.opening(source.run_id)
    except CheckpointCorruptedError:
        if source.flow is not None:
            raise
        return None


def copy_of(core: Core, entry: Entry) -> Draft:
    """A draft of the same entry for a fork, or behind a rollback. Blocks."""
    if not entry.size:
        return _draft(entry)
    encoding = core.journals.chain(entry.run, entry.seq, entry).encoding
    return _draft(entry)._replace(encoding=encoding)


def _claimed_before(core: Core, entry: Entry) -> dict[str, Any]:
    """The claims that bind a fork besides those of its own first checkpoint."""
    from holdfast.evidence.trust.inheriting import inherited  # most forks need none of it

    found = inherited(core, entry)
    facts = {INHERITED: found} if found else {}
    if len(dump_meta(facts)) > MAX_INHERITED:
        raise ValueError(
            f"what {entry.run}@{entry.seq} answers for takes more than {MAX_INHERITED:,} "
            "characters; fork an earlier checkpoint"
        )
    return facts


def _copies(
    core: Core, run: str, trail: list[Entry], state: object, owner: str | None
) -> list[Draft]:
    edited: dict[str, Any] | None = None
    if state is not SAME:
        if not isinstance(state, dict):
            raise TypeError("the state of a run that records results is a dict of them by step")
        edited = dict(state)
    copies = []
    states = [index for index, entry in enumerate(trail) if entry.kind == Kind.CHECKPOINT]
    if states:  # parallel branches of a graph
        base = trail[states[-1]]
        facts = {**Meta(base).fields, **_claimed_before(core, base)}
        copies.append(copy_of(core, base)._replace(meta=dump_meta(facts)))
        trail = trail[states[-1] + 1 :]
    for entry in trail:
        if entry.kind not in _RECORDED or (
            entry.kind == Kind.FAIL and entry.status == Status.FAILED
        ):
            continue
        if entry.kind == Kind.RESULT and edited is not None:
            if entry.step not in edited:
                break
            encoding = compose.encode(core, run, edited.pop(entry.step), owner=owner)
            draft = _draft(entry)._replace(encoding=encoding)
        else:
            draft = copy_of(core, entry)
        if entry.kind == Kind.RESULT:
            draft = draft._replace(meta=dump_meta({**Meta(entry).fields, "copied": True}))
        copies.append(draft)
    if edited:
        raise ValueError(f"the run had no result of {', '.join(map(repr, edited))} there")
    while edited is not None and copies and copies[-1].kind != Kind.RESULT:
        copies.pop()  # decided for a step that is to be done anew
    if not any(draft.kind == Kind.RESULT for draft in copies):
        raise ValueError("an edited state must keep at least the first step's result")
    return copies


def _draft(entry: Entry) -> Draft:
    Meta(entry)  # raises where it is damaged: no fork is made of that
    return Draft(
        entry.kind,
        Status.OPEN.value,
        step=entry.step,
        step_index=entry.step_index,
        type=entry.type,
        duration=entry.duration,
        meta=copied_meta(entry) if entry.kind == Kind.QUESTION else meta_text(entry),
    )
