"""Requests to verify a checkpoint, and votes on it, as they are stored.

Each is a hidden journal of one row, which is replaced and never grows: so much as there are requests
at a time, and so many votes as there are workers, is all that they take. A request has a random id,
and a vote names it: no vote is ever counted for another request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from holdfast.codec.meta import Meta
from holdfast.engine.holding import slots
from holdfast.engine.holding.lease import Holder
from holdfast.errors import CheckpointCorruptedError, InvalidIdError
from holdfast.errors.base import one_line
from holdfast.evidence.trust.rule import BoundClaim
from holdfast.evidence.trust.voting import vote_key
from holdfast.evidence.verdicts import Verdict, VerificationStatus
from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_runs
from holdfast.model import REQUESTS, Entry, Status, check_id, request_journal, vote_journal
from holdfast.operations.children import head_to_delete
from holdfast.store import RunFilter

MOST_REQUESTS: Final = 64
"""How many there may be at a time; workers look at no others."""

LONGEST: Final = 3600.0
"""Seconds that one may wait for votes."""

_MOST_VOTES: Final = 5000  # claims in one row: DynamoDB takes 400,000 bytes
_LARGEST: Final = 400_000  # characters of a row; what is larger, nobody here has written
_GRACE: Final = 5.0  # seconds that an asker may be late with taking its request back
_MOST_REASONS: Final = 300
_LONGEST_REASON: Final = 200


class Request(NamedTuple):
    """Somebody asks for the claims that bind a checkpoint to be checked."""

    number: int  # of its journal
    head: Entry
    id: str  # random
    run: str
    seq: int
    digest: str  # of the checkpoint, in hex
    within: float  # seconds that the asker waits


class Votes(NamedTuple):
    """What a process found when it was asked."""

    holder: Holder
    found: Mapping[str, Verdict]  # by `vote_key`


def requests(core: Core) -> list[Request]:
    """The requests that are open. What is malformed is left out. Blocks."""
    heads = sorted(_heads(core, REQUESTS))
    there = [number for number, head in heads if number < MOST_REQUESTS and _asks(head)]
    return [one for number in there if (one := read_request(core, number)[1]) is not None]


def read_request(core: Core, number: int) -> tuple[Entry | None, Request | None]:
    """The row of this number, and the request in it; None if it has none that can be read. Blocks."""
    head = _head(core, request_journal(number))
    try:
        return head, None if head is None else _parse(number, head)
    except (CheckpointCorruptedError, InvalidIdError):
        return head, None


def place_request(
    core: Core, identity: str, checkpoint: Entry, within: float
) -> tuple[int, Entry] | None:
    """Make a request where none is: its number and row; None if there are too many. Blocks."""
    facts = {
        "request": identity,
        "run": checkpoint.run,
        "seq": checkpoint.seq,
        "digest": checkpoint.digest.hex(),
        "within": float(within),
    }
    taken = {number for number, head in _heads(core, REQUESTS) if _asks(head)}
    for number in range(MOST_REQUESTS):
        if number in taken:
            continue
        head, request = read_request(core, number)
        if request is None:
            placed = slots.replace(core, request_journal(number), head, facts)
            if placed is not None:
                return number, placed
    return None


def withdraw(core: Core, number: int, row: Entry) -> None:
    """Take a request back, unless another one is there by now. Blocks."""
    slots.replace(core, request_journal(number), row, {})


def place_vote(
    core: Core,
    request: Request,
    holder: Holder,
    checked: Iterable[tuple[BoundClaim, Verdict]],
) -> Entry | None:
    """Answer a request; None if this slot has answered it already. Blocks."""
    by_status: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for number, (claim, verdict) in enumerate(checked):
        if number == _MOST_VOTES:
            break
        key = vote_key(claim)
        by_status.setdefault(verdict.status.value, []).append(key)
        if verdict.reason and len(reasons) < _MOST_REASONS:
            reasons[key] = one_line(verdict.reason)[:_LONGEST_REASON]
    facts = {
        "request": request.id,
        "holder": str(holder),
        "digest": request.digest,
        "votes": by_status,
        "reasons": reasons,
    }
    name = vote_journal(request.number, holder.slot)
    head = _head(core, name)
    if head is not None and f'"{request.id}"' in head.meta:
        return None
    return slots.replace(core, name, head, facts)


def take_back_vote(core: Core, number: int, slot: int, row: Entry) -> None:
    """Delete a vote, unless another one is there by now. Blocks."""
    slots.replace(core, vote_journal(number, slot), row, {})


def votes(core: Core, number: int, identity: str, digest: str) -> Iterator[Votes]:
    """The votes on a request. What is malformed, or for another request, is left out. Blocks."""
    for slot, head in _heads(core, vote_journal(number, "")):
        if f'"{identity}"' not in head.meta or len(head.meta) > _LARGEST:
            continue
        try:
            checked = core.journals.checked_head(vote_journal(number, slot))
            given = None if checked is None else Meta(checked)
            if given is None or (given.request, given.digest) != (identity, digest):
                continue
            holder = Holder.parse(given.holder)
            if holder is not None and holder.slot == slot:
                yield Votes(holder, _found(given))
        except (CheckpointCorruptedError, ValueError, TypeError):
            continue


def _found(given: Meta) -> dict[str, Verdict]:
    """The verdicts in a vote; of a claim that it names twice, none."""
    found: dict[str, Verdict] = {}
    twice: set[str] = set()
    for status, keys in given.votes.items():
        for key in keys:
            reason = given.reasons.get(key)
            if not isinstance(key, str) or not isinstance(reason, str | None):
                raise TypeError("not a vote")
            if key in found:
                twice.add(key)
            said = None if reason is None else one_line(reason)[:_LONGEST_REASON]
            found[key] = Verdict(VerificationStatus(status), said)
    return {key: verdict for key, verdict in found.items() if key not in twice}


def _asks(head: Entry) -> bool:
    return '"request"' in head.meta


def _parse(number: int, head: Entry) -> Request | None:
    if len(head.meta) > _LARGEST or not _asks(head):
        return None
    meta = Meta(head)
    identity, run, seq = meta.request, meta.run, meta.seq
    is_whole = 0 < len(identity) <= 64 and len(meta.digest) == 64 and seq >= 0
    if not is_whole or not 0 < meta.within <= LONGEST:
        return None
    check_id("run_id", run)
    return Request(number, head, identity, run, seq, meta.digest, meta.within)


def _heads(core: Core, prefix: str) -> Iterator[tuple[int, Entry]]:
    where = RunFilter(status=Status.DELETED.value, prefix=prefix)
    for head in all_runs(core.journals.store, where):
        number = head.run.removeprefix(prefix)
        if number.isascii() and number.isdigit() and len(number) <= 9:
            yield int(number), head


def _head(core: Core, name: str) -> Entry | None:
    try:
        return core.journals.checked_head(name)
    except CheckpointCorruptedError:
        return head_to_delete(core, name)


def seen_since(
    found: Iterable[Request], known: Mapping[int, tuple[str, float]], now: float
) -> dict[int, tuple[str, float]]:
    """The ids of the requests by number, and since when they are known, by a monotonic clock."""
    seen: dict[int, tuple[str, float]] = {}
    for one in found:
        before = known.get(one.number)
        seen[one.number] = before if before is not None and before[0] == one.id else (one.id, now)
    return seen


def overdue(
    found: Iterable[Request], since: Mapping[int, tuple[str, float]], now: float
) -> Iterator[Request]:
    """Those whose asker would have taken them back by now, but for a crash."""
    for one in found:
        if now - since[one.number][1] > one.within + _GRACE:
            yield one
