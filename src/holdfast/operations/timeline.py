"""What happened in a run, entry by entry, for people. Blocks, and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from functools import partial
from itertools import chain, islice, takewhile
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import CheckpointInfo, to_datetime
from holdfast.codec import readable
from holdfast.codec.meta import SIGNED, Meta, plain_step
from holdfast.codec.redaction import redacted
from holdfast.codec.summaries import for_people, shortened, size
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.kernel.core import Core
from holdfast.kernel.entries import state_seq
from holdfast.kernel.pages import Found, pass_by
from holdfast.kernel.playback import Branch
from holdfast.model import CARRY_STATE, Entry, Kind, Status, check_id, erases, lost
from holdfast.operations import answers
from holdfast.operations.reading import check_limit, newest_readable, outages_named
from holdfast.store import PAGE

_WAITS: Final = (Kind.OPEN, Kind.SLEEP, Kind.FAIL, Kind.PAUSE)

_SAID: Final = 60  # characters of an answer
_LARGE: Final = 10_000  # bytes of an answer of which only the size is told
_WHY: Final = {"died": "its process died", "taken_over": "from a living process"}


class Moment(NamedTuple):
    """One entry of a run's journal."""

    seq: int
    kind: str  # one of `Kind`, or "damaged" where the entry can't be read
    at: datetime
    step: str | None
    status: str  # of the run from here on; "deleted" where only a stub is left
    took: float | None  # seconds that the step took
    waited: float  # seconds before it in which nothing of the run is known to have happened
    note: str  # what there is to say about it: an error, a question, a reason
    current: bool  # False where a rollback left it behind
    child: str | None  # the child run that the step began or executed
    size: int  # bytes of the state or value
    until: datetime | None = None  # when a step that waits, or the run, is to continue


def timeline(
    core: Core,
    run_id: str,
    *,
    after: int | None = None,
    limit: int | None = None,
    newest_first: bool = False,
    kinds: Collection[str] = (),
) -> list[Moment]:
    """The moments of a run, oldest or newest first: all, or at most `limit`.

    Give the last `seq` of one page as `after` for the next. With `kinds`, only the moments of
    these, and damaged ones, whose kind may have been any. Times come from the clocks of the
    processes that wrote it, for information: order is by `seq`. Raises `CheckpointNotFoundError`.
    """
    check_id("run_id", run_id)
    check_limit(limit)
    with outages_named(run_id):
        head = newest_readable(core.journals, run_id)
        if head is None or erases(head):
            raise CheckpointNotFoundError(run_id)
        page = PAGE if limit is None else min(max(limit, 1) + 1, PAGE)
        entries = core.journals.scan(run_id, after=after, newest_first=newest_first, page=page)
        damage: dict[int, str] = {}
        placed = map(partial(_placed, core, damage), entries)
        wanted = (
            pair
            for pair in _with_the_one_before(placed, newest_first=newest_first)
            if not kinds or pair[0].kind in kinds or pair[0].seq in damage
        )
        found = list(islice(wanted, limit))
        branch = _branch(core, head, [entry for entry, _ in found], every=not kinds)
        return [
            _damaged(entry, damage[entry.seq])
            if entry.seq in damage
            else _moment(core, entry, before if before and before.at else None, branch)
            for entry, before in found
        ]


def _with_the_one_before(
    entries: Iterable[Entry], *, newest_first: bool
) -> Iterator[tuple[Entry, Entry | None]]:
    """Each entry with the one before it in the journal, which says how long the run waited."""
    last: Entry | None = None
    for entry in entries:
        if not newest_first:
            yield entry, last
        elif last is not None:
            yield last, entry
        last = entry
    if newest_first and last is not None:
        yield last, None


def _placed(core: Core, damage: dict[int, str], found: Found) -> Entry:
    """The entry, or what stands in the place of a damaged one."""
    if not isinstance(found, CheckpointCorruptedError):
        if found.status == Status.DELETED and found.kind != Kind.TOMBSTONE:
            try:
                core.journals.check_stub(found)
            except CheckpointCorruptedError as error:
                damage[found.seq] = error.reason
        return found
    if found.seq is None:
        raise found
    damage[found.seq] = found.reason
    return lost(found.run_id, found.seq)


def _damaged(entry: Entry, reason: str) -> Moment:
    at = to_datetime(entry.at)
    return Moment(
        entry.seq, "damaged", at, None, "", None, 0.0, f"damaged: {reason}", True, None, 0
    )


def _branch(core: Core, head: Entry, page: list[Entry], *, every: bool) -> set[int] | Branch:
    """The seqs on a page whose checkpoints led to the current state.

    If `every` entry is on it, from its first to its last, those are not read again.
    """
    found: set[int] = set()
    if not page:
        return found
    page = sorted(page, key=lambda entry: entry.seq)
    if not every:
        return Branch(core.journals, head, page[0].seq - 1)
    wanted = state_seq(head)
    last = page[-1].seq
    everything = core.journals.entries(head.run, newest_first=True, damage=pass_by)
    newer = everything if last < head.seq else ()
    for entry in chain(takewhile(lambda entry: entry.seq > last, newer), reversed(page)):
        if entry.seq == wanted:
            found.add(entry.seq)
            wanted = entry.parent
    return found


def _moment(core: Core, entry: Entry, before: Entry | None, branch: set[int] | Branch) -> Moment:
    since = 0.0 if before is None else (entry.at - before.at) / 1e6
    info = CheckpointInfo(entry)
    due = None
    try:
        due = info.meta.due if entry.kind in _WAITS else None
        step = info.step_name if entry.kind == Kind.CHECKPOINT else plain_step(entry)
        note, child = _note(core, info), _child(info)
    except CheckpointCorruptedError as error:  # of its metadata: the others are shown
        step, note, child = entry.step, f"damaged: {error.reason}", None
    return Moment(
        entry.seq,
        entry.kind,
        to_datetime(entry.at),
        step,
        entry.status,
        entry.duration,
        max(0.0, since - (entry.duration or 0.0)),
        note,
        entry.kind not in CARRY_STATE or entry.seq in branch,
        child,
        entry.size,
        None if due is None else to_datetime(due),
    )


def _note(core: Core, info: CheckpointInfo) -> str:
    meta = info.meta
    match info.entry.kind:
        case Kind.OPEN:
            return _signed(f"forked from {info.origin}", meta) if info.origin else ""
        case Kind.FAIL:
            failure = _value(core, info.entry)
            which = f"attempt {meta.attempt}: " if meta.of == "attempt" and meta.attempt else ""
            told = f"{failure.get('type', '')}: {failure.get('message', '')}" if failure else ""
            return which + told
        case Kind.OUTPUT:
            return json.dumps(for_people(readable.to_json(_anything(core, info.entry))))
        case Kind.QUESTION:
            return str(_value(core, info.entry).get("prompt", ""))
        case Kind.ANSWER:
            return _answered(core, info.entry, meta)
        case Kind.CLAIM:
            return _WHY.get(meta.why or "", "")
        case Kind.CANCEL if meta.begun:
            return "only a step that was begun"
        case Kind.REQUEST | Kind.CANCEL | Kind.PAUSE | Kind.RELEASE:
            return _signed(" ".join(word for word in (meta.action, meta.reason) if word), meta)
        case Kind.ROLLBACK:
            return _signed(f"to {info.parent_id or 'the beginning'}{why_back(meta)}", meta)
    return ""


def why_back(meta: Meta) -> str:
    """What did not verify, of an entry that says that the run went back; empty if that is none."""
    told = [one for one in meta.rejected or () if isinstance(one, list) and len(one) == 3]
    if not told:
        return ""
    seq, step, reason = told[-1]  # the oldest: the run is behind it
    more = f", and {len(told) - 1:,} after it" if len(told) > 1 else ""
    return f": {step or 'the checkpoint'} @{seq} did not verify ({reason}){more}"


def _answered(core: Core, entry: Entry, meta: Meta) -> str:
    """What an answer is, who gave it, and whether their signature says so."""
    who = f"by {meta.by}" if meta.by else ""
    if wrong := answers.doubt(core, entry):
        return f"{who}, ignored: {wrong}".removeprefix(", ")
    said = _said(core, entry)
    if answers.is_authentic(core, entry):
        return f"{said}, signed {who}".removeprefix(", ")
    told = f"{said} {who}".strip()
    return f"{told}, signed (not checked)" if meta.fields.get(SIGNED) else told


def _said(core: Core, entry: Entry) -> str:
    """An answer in a few words, without what looks like a secret; empty if it has no value."""
    if entry.size > _LARGE:
        return f"<{size(entry.size)}>"
    if not entry.size:
        return ""
    key = entry.step or ""  # a question may itself be called a password
    value = redacted({key: readable.to_json(_anything(core, entry))})[key]
    return shortened(json.dumps(for_people(value), ensure_ascii=False), _SAID)


def _signed(note: str, meta: Meta) -> str:
    """The note, with who caused it."""
    return f"{note}, by {meta.by}" if note and meta.by else note


def _child(info: CheckpointInfo) -> str | None:
    return info.meta.run if info.entry.kind == Kind.CHILD else info.meta.child


def _value(core: Core, entry: Entry) -> dict[str, Any]:
    found = _anything(core, entry)
    return found if isinstance(found, dict) else {}


def _anything(core: Core, entry: Entry) -> Any:
    """What an entry carries, if it can be read: a timeline is also for those that are damaged."""
    if not entry.size:
        return None
    try:
        return core.journals.value(entry.run, entry.seq, as_data=True)
    except CheckpointCorruptedError:
        return None
