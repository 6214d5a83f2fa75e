"""How verdicts are stored: beside the run, in a journal of their own.

Each is bound to the digests of the checkpoint and of the claim: a verdict on anything else is not
shown. Nothing here is ever a reason to trust a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from holdfast.codec.meta import WORKER, Meta, dump_meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.evidence.trust.rule import BoundClaim, Standing, claim_name
from holdfast.evidence.verdicts import Verdict, VerificationStatus
from holdfast.kernel.appending import append
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.kernel.processes import this_host
from holdfast.model import Entry, Kind, Status, verdict_journal

_FEW: Final = 8  # verdicts to read first: most questions are about what was just checked


class Findings(NamedTuple):
    """The last recorded verdicts on one checkpoint."""

    status: VerificationStatus  # of the checkpoint, when it was last checked
    at: int | None  # microseconds since the epoch; None if it never was
    verdicts: Mapping[str, Verdict]  # by `BoundClaim.name`: a whole claim's is its digest


NOTHING: Final = Findings(VerificationStatus.PENDING, None, MappingProxyType({}))


def record(
    core: Core,
    one: Entry,
    found: Sequence[Standing],
    checked: Iterable[tuple[BoundClaim, Verdict]],
    digests: Mapping[int, bytes],
    by: str | None = None,
) -> Op[Entry]:
    """Append what was found, in one entry of the verdict journal of the run of this entry.

    `digests` are those of the checkpoints that `found` and `checked` speak of, and `by` is who
    had them checked, if somebody did.
    """
    by_seq: dict[int, list[dict[str, Any]]] = {}
    for claim, verdict in checked:
        left = {} if claim.is_whole else {"facts": sorted(claim.facts)}
        by_seq.setdefault(claim.seq, []).append(verdict.to_dict() | left)
    concerned = sorted({*by_seq, *(one.seq for one in found)})
    value = {
        "found": [[one.seq, digests[one.seq].hex(), one.status.value] for one in found],
        "checked": [[seq, digests[seq].hex(), given] for seq, given in by_seq.items()],
    }
    draft = Draft(
        Kind.VERDICT.value,
        Status.OPEN.value,
        core.journals.encode(value),
        owner=one.owner,  # whose key opens it, and nobody can once that is forgotten
        meta=dump_meta(
            {"checkpoints": concerned, WORKER: f"{this_host()}:{os.getpid()}"}
            | ({} if by is None else {"by": by})
        ),
    )
    return (yield from append(core, verdict_journal(one.run), draft))


def findings(
    core: Core,
    run: str,
    checkpoints: Iterable[tuple[Entry, Iterable[str]]],
    *,
    decides: bool = False,
) -> dict[int, Findings]:
    """The newest verdicts on checkpoints of a run and these of their claims, by seq.

    Claims are named by `BoundClaim.name`. What can't be read is skipped; where something is
    decided by it, that raises `CheckpointCorruptedError`: it may have been a failure. Blocks.
    """
    asked = list(checkpoints)
    claims = {entry.seq: set(digests) for entry, digests in asked}
    digests = {entry.seq: entry.digest.hex() for entry, _ in asked if claims[entry.seq]}
    known = dict.fromkeys(digests, NOTHING)
    for note in notes(core, run, digests, decides=decides):
        for seq in {*note.found, *note.checked}:
            status, at, verdicts = known[seq]
            if at is None and seq in note.found:
                status, at = note.found[seq], note.at
            verdicts = {**note.checked.get(seq, {}), **verdicts}
            known[seq] = Findings(status, at, verdicts)
            if at is not None and verdicts.keys() >= claims[seq]:
                del digests[seq]  # nothing older matters
        if not digests:
            break
    return known


def ever_held(core: Core, checkpoint: Entry) -> bool | None:
    """Whether a checkpoint ever verified; None if it was never checked. Blocks.

    Raises `CheckpointCorruptedError` for a verdict that can't be read.
    """
    digests = {checkpoint.seq: checkpoint.digest.hex()}
    asked: bool | None = None
    for note in notes(core, checkpoint.run, digests, decides=True):
        status = note.found.get(checkpoint.seq)
        if status is VerificationStatus.VERIFIED:
            return True
        asked = False if status is not None else asked
    return asked


class Note(NamedTuple):
    """What one entry of a verdict journal says about checkpoints, by their seq."""

    at: int
    found: dict[int, VerificationStatus]
    checked: dict[int, dict[str, Verdict]]  # then by `BoundClaim.name`
    worker: str | None  # host and pid of the process that checked them
    by: str | None  # who asked for it, if somebody did


def notes(
    core: Core, run: str, digests: Mapping[int, str], *, decides: bool = False
) -> Iterator[Note]:
    """What was recorded on these checkpoints, newest first. Blocks.

    `digests` are theirs, in hex, by seq. What can't be read is skipped; if something is decided by
    it, it raises `CheckpointCorruptedError`.
    """

    def unreadable(error: Exception) -> None:
        if decides:
            reason = f"a recorded verdict on it can't be read ({error}); check its claims anew"
            raise CheckpointCorruptedError(run, None, reason) from None

    # Without bodies, nothing proves which checkpoints an entry says it is about.
    for entry in core.journals.entries(
        verdict_journal(run), bodies=decides, newest_first=True, page=_FEW, damage=unreadable
    ):
        if entry.kind != Kind.VERDICT or entry.status == Status.DELETED:
            continue
        try:
            meta = Meta(entry)
            concerned = set(meta.checkpoints)
            if concerned.isdisjoint(digests):
                continue
            value = core.journals.value(entry.run, entry.seq)
            note = Note(
                entry.at,
                {
                    seq: VerificationStatus(status)
                    for seq, digest, status in value["found"]
                    if digests.get(seq) == digest
                },
                {
                    seq: dict(map(_named, given))
                    for seq, digest, given in value["checked"]
                    if digests.get(seq) == digest
                },
                meta.worker,
                meta.by,
            )
        except (KeyError, TypeError, ValueError) as error:
            unreadable(error)
            continue
        if note.found or note.checked:
            yield note


def _named(given: Mapping[str, Any]) -> tuple[str, Verdict]:
    verdict = Verdict.from_dict({k: value for k, value in given.items() if k != "facts"})
    return claim_name(verdict.evidence, given.get("facts") or ()), verdict
