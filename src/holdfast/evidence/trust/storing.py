"""How claims are stored: in the `meta` of their checkpoint, with what holdfast observed of them.

Never with a verdict: those are in a journal of their own (`records`). What was observed when a
checkpoint was saved is history. It is no reason to trust it now.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from holdfast.checkpoint import CheckpointInfo
from holdfast.codec import readable
from holdfast.codec.meta import EVIDENCE, OBSERVED
from holdfast.errors import CheckpointCorruptedError, InvalidEvidenceError
from holdfast.evidence.claims import Evidence, canonical
from holdfast.evidence.packs import AtCommit, EvidencePack
from holdfast.evidence.trust.rule import BoundClaim, CheckpointClaims, Group, Pack

T = TypeVar("T")

MAX_EVIDENCE: Final = 327_680
"""Characters: about a thousand digests of files. An item of DynamoDB holds 400,000."""


def evidence_meta(*packs: EvidencePack) -> dict[str, Any]:
    """What a checkpoint's `meta` keeps of its claims, and of what holdfast observed of them.

    That is what the newest verdicts on them say of each pack, and what is noted on the claims.
    Raises `InvalidEvidenceError` if it is large.
    """
    claimed = [pack.claim_dict() | {OBSERVED: _observed(pack)} for pack in packs]
    size = len(json.dumps(claimed))
    if size > MAX_EVIDENCE:
        raise InvalidEvidenceError(
            "an evidence pack",
            f"takes {size:,} characters, more than {MAX_EVIDENCE:,}; "
            "claim one file that lists the others",
        )
    return {EVIDENCE: claimed[0] if len(claimed) == 1 else claimed}


def pack_of(info: CheckpointInfo) -> EvidencePack | None:
    """The one pack of claims made with a checkpoint, not yet checked; None if there is none."""
    packs = info.meta.evidence
    return _parsed(info, lambda: recorded(packs[0])[0]) if packs else None


def claims_of(info: CheckpointInfo) -> CheckpointClaims:
    """The claims recorded with a checkpoint, not yet checked."""
    own, before = info.meta.evidence, info.meta.inherited
    return _parsed(
        info,
        lambda: CheckpointClaims(
            info.seq,
            tuple(recorded(pack)[1] for pack in own),
            tuple(Group(-1, tuple(recorded(pack)[1] for pack in group)) for group in before),
        ),
    )


def _parsed(info: CheckpointInfo, parse: Callable[[], T]) -> T:
    try:
        return parse()
    except (InvalidEvidenceError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointCorruptedError(info.run_id, info.seq, f"its evidence: {error}") from None


def _observed(pack: EvidencePack) -> dict[str, Any]:
    """What holdfast saw of a pack: its status, and by claim what it noted."""
    status = pack.at_commit
    some = status is AtCommit.SATISFIED and pack.required < len(pack.evidence_list)
    unproven = {c.digest for c in pack.evidence_list if some and not c.verified}
    return _noted(pack.evidence_list, status, unproven, {})


def _noted(
    claims: Sequence[Evidence],
    status: AtCommit,
    unproven: Collection[str],
    facts: Mapping[str, Collection[str]],
) -> dict[str, Any]:
    found: dict[str, Any] = {"status": status.value}
    bases = Counter(claim.base for claim in claims if claim.base is not None)
    usual = bases.most_common(1)[0][0] if bases else None
    if usual is not None:
        found["base"] = usual
    noted: dict[str, Any] = {}
    for claim in claims:
        of_claim: dict[str, Any] = {}
        if claim.base not in (None, usual):
            of_claim["base"] = claim.base
        if claim.observed is not None:
            of_claim["record"] = readable.to_json(claim.observed)
        if claim.digest in unproven:
            of_claim["unproven"] = True
        if claim.digest in facts:
            of_claim["facts"] = sorted(facts[claim.digest])
        if of_claim:
            noted[claim.digest] = of_claim
    return found | ({"claims": noted} if noted else {})


def recorded(data: Any) -> tuple[EvidencePack, Pack]:
    """A pack as it was saved, with what holdfast noted of its claims, and for the rule.

    Raises all kinds of errors if it is malformed.
    """
    pack = EvidencePack.from_dict(data)
    observed = data.get(OBSERVED) or {}
    base, noted = observed.get("base"), observed.get("claims") or {}
    for claim in pack.evidence_list if base is not None or noted else ():
        of_claim = noted.get(claim.digest) or {}
        record = of_claim.get("record")
        claim.note(
            of_claim.get("base", base), None if record is None else readable.from_json(record)
        )
    return pack, Pack.of(
        pack,
        AtCommit(observed.get("status", AtCommit.UNCHECKED)),
        {digest for digest, of_claim in noted.items() if of_claim.get("unproven")},
        {digest: of_claim["facts"] for digest, of_claim in noted.items() if "facts" in of_claim},
    )


def left_of(bound: Sequence[BoundClaim], required: int) -> dict[str, Any]:
    """What is left of a pack that binds later checkpoints, for the `meta` where it is inherited."""
    claims = [claim.evidence for claim in bound]
    all_of_them = required == len(claims)
    left = EvidencePack(claims, all_of_them, not all_of_them, 0 if all_of_them else required)
    unproven = {claim.evidence.digest for claim in bound if not claim.replaces}
    facts = {claim.evidence.digest: claim.facts for claim in bound if not claim.is_whole}
    return left.claim_dict() | {OBSERVED: _noted(claims, AtCommit.SATISFIED, unproven, facts)}


def pack_digest(pack: EvidencePack) -> str:
    """The same for packs that claim the same and require the same of it."""
    rule = [pack.require_all, pack.allow_partial, pack.min_verified]
    text = canonical([[claim.digest for claim in pack.evidence_list], rule])
    return hashlib.sha256(text.encode()).hexdigest()
