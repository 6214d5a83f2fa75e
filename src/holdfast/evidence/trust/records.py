"""How claims and verdicts are stored: claims with the checkpoint, verdicts beside the run.

A checkpoint's `meta` holds its claims under "evidence", and never a verdict. Verdicts are appended
to the run's verdict journal, bound to the digests of the checkpoints and of the claims: a verdict
on anything else is not shown. Nothing here is ever a reason to trust a checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import CheckpointInfo
from holdfast.codec import readable
from holdfast.codec.meta import EVIDENCE, OBSERVED, SUBJECTS, Meta, dump_meta
from holdfast.errors import CheckpointCorruptedError, InvalidEvidenceError
from holdfast.evidence.claims import canonical
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.trust.rule import BoundClaim, CheckpointClaims, Standing
from holdfast.evidence.verdicts import Verdict, VerificationStatus
from holdfast.kernel.appending import append
from holdfast.kernel.core import Core, Op
from holdfast.kernel.journal import Draft
from holdfast.model import Entry, Kind, Status, verdict_journal

MAX_EVIDENCE: Final = 327_680
"""Characters: about a thousand digests of files. An item of DynamoDB holds 400,000."""
_FEW: Final = 8  # verdicts to read first: most questions are about what was just checked


def evidence_meta(*packs: EvidencePack) -> dict[str, Any]:
    """What a checkpoint's `meta` keeps of its claims, and of what holdfast observed of them.

    That is what the newest verdicts on them say of each pack, and what is noted on the claims.
    Raises `InvalidEvidenceError` if it is large.
    """
    claimed = [
        pack.to_dict() | {OBSERVED: _observed(pack), SUBJECTS: _subjects(pack)} for pack in packs
    ]
    size = len(json.dumps(claimed))
    if size > MAX_EVIDENCE:
        raise InvalidEvidenceError(
            "an evidence pack",
            f"takes {size:,} characters, more than {MAX_EVIDENCE:,}; "
            "claim one file that lists the others",
        )
    return {EVIDENCE: claimed[0] if len(claimed) == 1 else claimed}


def _subjects(pack: EvidencePack) -> list[str]:
    """For a fork, which drops superseded claims without knowing any type of evidence."""
    subjects = dict.fromkeys(claim.subject for claim in pack.evidence_list)
    return [hashlib.sha256(subject.encode()).hexdigest()[:32] for subject in subjects]


def _observed(pack: EvidencePack) -> dict[str, Any]:
    """What holdfast saw of a pack: its status, and by claim what it noted."""
    found: dict[str, Any] = {"status": pack.at_commit.value}
    bases = Counter(claim.base for claim in pack.evidence_list if claim.base is not None)
    usual = bases.most_common(1)[0][0] if bases else None
    if usual is not None:
        found["base"] = usual
    noted: dict[str, Any] = {}
    for claim in pack.evidence_list:
        of_claim = {"base": claim.base} if claim.base not in (None, usual) else {}
        if claim.observed is not None:
            of_claim["record"] = readable.to_json(claim.observed)
        if of_claim:
            noted[claim.digest] = of_claim
    return found | ({"claims": noted} if noted else {})


def _recorded(data: Any) -> EvidencePack:
    """A pack as it was saved, with what holdfast noted of its claims."""
    pack = EvidencePack.from_dict(data)
    observed = data.get(OBSERVED) or {}
    base, noted = observed.get("base"), observed.get("claims") or {}
    for claim in pack.evidence_list if base is not None or noted else ():
        of_claim = noted.get(claim.digest) or {}
        record = of_claim.get("record")
        claim.note(
            of_claim.get("base", base), None if record is None else readable.from_json(record)
        )
    return pack


def pack_of(info: CheckpointInfo) -> EvidencePack | None:
    """The one pack of claims made with a checkpoint, not yet checked; None if there is none."""
    packs = claims_of(info).packs
    return packs[0] if packs else None


def claims_of(info: CheckpointInfo) -> CheckpointClaims:
    """The claims recorded with a checkpoint, not yet checked."""
    own, before = info.meta.evidence, info.meta.inherited
    try:
        return CheckpointClaims(
            info.seq,
            tuple(map(_recorded, own)),
            tuple(map(_recorded, before)),
        )
    except (InvalidEvidenceError, AttributeError, TypeError, ValueError) as error:
        raise CheckpointCorruptedError(info.run_id, info.seq, f"its evidence: {error}") from None


def pack_digest(pack: EvidencePack) -> str:
    """The same for packs that claim the same and require the same of it."""
    rule = [pack.require_all, pack.allow_partial, pack.min_verified]
    text = canonical([[claim.digest for claim in pack.evidence_list], rule])
    return hashlib.sha256(text.encode()).hexdigest()


class Findings(NamedTuple):
    """The last recorded verdicts on one checkpoint."""

    status: VerificationStatus  # of the checkpoint, when it was last checked
    at: int | None  # microseconds since the epoch; None if it never was
    verdicts: Mapping[str, Verdict]  # by the claim's digest


NOTHING: Final = Findings(VerificationStatus.PENDING, None, MappingProxyType({}))


def record(
    core: Core,
    run: str,
    found: Sequence[Standing],
    checked: Iterable[tuple[BoundClaim, Verdict]],
    digests: Mapping[int, bytes],
) -> Op[Entry]:
    """Append what was found, in one entry of the run's verdict journal.

    `digests` are those of the checkpoints that `found` and `checked` speak of.
    """
    by_seq: dict[int, list[dict[str, Any]]] = {}
    for claim, verdict in checked:
        by_seq.setdefault(claim.seq, []).append(verdict.to_dict())
    concerned = sorted({*by_seq, *(one.seq for one in found)})
    value = {
        "found": [[one.seq, digests[one.seq].hex(), one.status.value] for one in found],
        "checked": [[seq, digests[seq].hex(), given] for seq, given in by_seq.items()],
    }
    draft = Draft(
        Kind.VERDICT.value,
        Status.OPEN.value,
        core.journals.encode(value),
        meta=dump_meta({"checkpoints": concerned}),
    )
    return (yield from append(core, verdict_journal(run), draft))


def findings(
    core: Core, run: str, checkpoints: Iterable[tuple[Entry, Iterable[str]]]
) -> dict[int, Findings]:
    """The newest verdicts on checkpoints of a run and these of their claims, by seq.

    Claims are named by their digests. Blocks.
    """
    asked = list(checkpoints)
    claims = {entry.seq: set(digests) for entry, digests in asked}
    digests = {entry.seq: entry.digest.hex() for entry, _ in asked if claims[entry.seq]}
    known = dict.fromkeys(digests, NOTHING)
    for note in _notes(core, run, digests):
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
    """Whether a checkpoint ever verified; None if it was never checked. Blocks."""
    digests = {checkpoint.seq: checkpoint.digest.hex()}
    asked: bool | None = None
    for note in _notes(core, checkpoint.run, digests):
        status = note.found.get(checkpoint.seq)
        if status is VerificationStatus.VERIFIED:
            return True
        asked = False if status is not None else asked
    return asked


class _Note(NamedTuple):
    """What one entry of a verdict journal says about checkpoints, by their seq."""

    at: int
    found: dict[int, VerificationStatus]
    checked: dict[int, dict[str, Verdict]]


def _notes(core: Core, run: str, digests: Mapping[int, str]) -> Iterator[_Note]:
    """The notes on these checkpoints, newest first. Those that can't be read are skipped."""
    journal = verdict_journal(run)
    for entry in core.journals.entries(journal, newest_first=True, page=_FEW):
        if entry.kind != Kind.VERDICT or entry.status == Status.DELETED:
            continue
        try:
            concerned = set(Meta(entry).checkpoints)
            if concerned.isdisjoint(digests):
                continue
            value = core.journals.value(entry.run, entry.seq)
            note = _Note(
                entry.at,
                {
                    seq: VerificationStatus(status)
                    for seq, digest, status in value["found"]
                    if digests.get(seq) == digest
                },
                {
                    seq: {one.evidence: one for one in map(Verdict.from_dict, given)}
                    for seq, digest, given in value["checked"]
                    if digests.get(seq) == digest
                },
            )
        except (KeyError, TypeError, ValueError):
            continue
        if note.found or note.checked:
            yield note
