"""Attestations: what a run claims and what was found, as signed statements for others.

A statement is in-toto's (https://in-toto.io/Statement/v1), in a DSSE envelope. Whoever has the
public key can check it, without holdfast and without the store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.codec import readable
from holdfast.codec.meta import Meta
from holdfast.codec.redaction import redacted
from holdfast.codec.wrapping import VERSION
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError, KeyFileError
from holdfast.evidence.checks import EvidenceType
from holdfast.evidence.trust import records, rule
from holdfast.evidence.trust.gathering import Gathering, proved
from holdfast.evidence.trust.rule import BoundClaim
from holdfast.evidence.verdicts import Verdict, VerificationStatus
from holdfast.kernel.core import Core
from holdfast.keys import dsse
from holdfast.keys.signing import SigningKey, TrustedKeys
from holdfast.model import Entry, Kind, check_id, checkpoint_id, erases
from holdfast.operations import answers, verifying

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "urn:holdfast:run:v1"
PAYLOAD: Final = "application/vnd.in-toto+json"

CHECKPOINTS: Final = 10_000
"""Checkpoints that a statement lists: the newest. The digest of the head covers all."""


def attest(core: Core, run_id: str, *, sign: SigningKey) -> dict[str, Any]:
    """What a run claims, and what was found, as a signed statement: an envelope in JSON's form.

    Every byte of the run is checked first. Verdicts are those that were recorded: to have claims
    checked now, verify the run before. Raises `CheckpointNotFoundError`, and
    `CheckpointCorruptedError` for a run that is damaged.
    """
    if sign.public is None:
        raise KeyFileError(
            f"the key {sign.key_id!r}",
            "signs with HMAC, which only those who have the secret can check; attest with an "
            "Ed25519 key: holdfast keygen --sign",
        )
    payload = json.dumps(statement(core, run_id), allow_nan=False, sort_keys=True).encode()
    return dsse.signed(payload, PAYLOAD, sign)


def statement(core: Core, run_id: str) -> dict[str, Any]:
    """The statement on a run that `attest` signs."""
    head = core.journals.checked_head(check_id("run_id", run_id))
    if head is None or erases(head):
        raise CheckpointNotFoundError(run_id)
    for _, seq, reason in verifying.verify(core, run_id).problems:
        raise CheckpointCorruptedError(run_id, seq, reason)
    branch = proved(core, core.journals.branch_of(head))
    claims = _claims(core, run_id, branch)
    return {
        "_type": STATEMENT,
        "subject": [*_files(claims), _head(run_id, head)],
        "predicateType": PREDICATE,
        "predicate": {
            "run": _run(core, run_id, head),
            "head": _place(head),
            "checkpoints": [_place(entry) for entry in branch[:CHECKPOINTS]],
            "olderCheckpoints": max(0, len(branch) - CHECKPOINTS),
            "claims": [one.to_dict() for one in claims],
            "answers": _answers(core, head),
            "made": {"at": _time(core.journals.clock.now()), "format": VERSION},
        },
    }


class Attested(NamedTuple):
    """A statement whose signature was checked."""

    run_id: str
    signed_by: tuple[str, ...]  # the ids of the trusted keys that signed it
    statement: dict[str, Any]

    @property
    def subjects(self) -> dict[str, str]:
        """The SHA-256 of each file, and of the run's head, by name."""
        return {one["name"]: one["digest"]["sha256"] for one in self.statement["subject"]}


def check_attestation(envelope: Mapping[str, Any] | bytes | str, trusted: TrustedKeys) -> Attested:
    """The statement in an envelope, if a trusted key signed it. Looks at no store and no file.

    Raises `InvalidSignatureError`, and `ValueError` for what is no attestation of a run.
    """
    what = "the attestation"
    if isinstance(envelope, str):
        envelope = envelope.encode(errors="replace")
    if isinstance(envelope, bytes):
        envelope = dsse.parse_object(envelope, what)
    found = dsse.opened(envelope, PAYLOAD, trusted, what)
    made = dsse.parse_object(found.payload, "its statement")
    if made.get("_type") != STATEMENT or made.get("predicateType") != PREDICATE:
        kinds = f"{made.get('_type')!r}, {made.get('predicateType')!r}"
        raise ValueError(f"it is another statement than one on a run: {kinds[:200]}")
    match made:
        case {
            "subject": [*subjects],
            "predicate": {"run": {"id": str(run_id)}, "claims": [*claims]},
        } if all(map(_is_subject, subjects)) and all(map(_is_claim, claims)):
            return Attested(run_id, found.signed_by, made)
    raise ValueError("its statement lacks a subject, a run or claims")


def _is_subject(one: object) -> bool:
    match one:
        case {"name": str(), "digest": {"sha256": str()}}:
            return True
    return False


def _is_claim(one: object) -> bool:
    match one:
        case {"inForce": bool(), "verdict": {"status": str()}}:
            return True
    return False


class _Claimed(NamedTuple):
    """A claim on the way to the head of a run, and what was found of it last."""

    claim: BoundClaim
    step: str | None
    in_force: bool
    verdict: Verdict | None
    worker: str | None
    by: str | None

    def to_dict(self) -> dict[str, Any]:
        """As the statement has it, with what looks like a secret hidden.

        The reason of a verdict is left out: it quotes what was found.
        """
        evidence = self.claim.evidence
        stated: dict[str, Any] = redacted(
            {
                "description": evidence.description,
                "expected": readable.to_json(evidence.expected),
            }
        )
        return {
            "checkpoint": self.claim.seq,
            "step": self.step,
            "type": str(evidence.evidence_type),
            **stated,
            "host": evidence.host,
            "inForce": self.in_force,
            "left": None if self.claim.is_whole else sorted(self.claim.facts),
            "verdict": self._found(),
        }

    def _found(self) -> dict[str, Any]:
        if self.verdict is None:
            return {"status": VerificationStatus.PENDING.value}
        return {
            "status": self.verdict.status.value,
            "at": _time(self.verdict.at),
            "worker": self.worker,
            "by": self.by,
        }


def _claims(core: Core, run: str, branch: list[Entry]) -> list[_Claimed]:
    """The claims of a branch, which is newest first: those in force, then those replaced."""
    if not branch:
        return []
    made = Gathering(core, needed=False).branch(branch)
    binding = [claim for one in rule.binding(made, branch[0].seq) for claim in one.claims]
    in_force = list({claim.key: claim for claim in binding}.values())
    known = {(claim.seq, claim.evidence.digest) for claim in in_force}
    own = (
        BoundClaim(one.seq, claim.evidence, claim.facts)
        for one in made
        for pack in one.packs
        for claim in pack.claims
    )
    replaced = [claim for claim in own if (claim.seq, claim.evidence.digest) not in known]
    steps = {entry.seq: entry.step for entry in branch}
    notes = list(records.notes(core, run, {e.seq: e.digest.hex() for e in branch}, decides=True))
    return [
        _Claimed(claim, steps.get(claim.seq), binds, *_newest(claim, notes))
        for binds, claims in ((True, in_force), (False, replaced))
        for claim in claims
    ]


def _answers(core: Core, head: Entry) -> list[dict[str, Any]]:
    """Who answered what and when, on the way to the head of a run; not what they said."""
    given = (
        core.journals.entry(entry.run, entry.seq)
        for entry in core.journals.trail(head.run, head.seq, bodies=False)
        if entry.kind == Kind.ANSWER and not answers.doubt(core, entry)
    )
    return [
        {
            **_place(entry),
            "by": Meta(entry).by,
            "signed": answers.is_authentic(core, entry),
        }
        for entry in given
        if entry is not None
    ]


def _newest(
    claim: BoundClaim, notes: Iterable[records.Note]
) -> tuple[Verdict | None, str | None, str | None]:
    for note in notes:
        verdict = note.checked.get(claim.seq, {}).get(claim.name)
        if verdict is not None:
            return verdict, note.worker, note.by
    return None, None, None


def _files(claims: Iterable[_Claimed]) -> Iterator[dict[str, Any]]:
    """The files that the run vouches for: claimed, in force, and not found to be otherwise."""
    named: dict[str, str] = {}
    for one in claims:
        evidence, verdict = one.claim.evidence, one.verdict
        if not one.in_force or evidence.evidence_type != EvidenceType.FILE_SHA256:
            continue
        if "digest" not in one.claim.facts or (
            verdict is not None and verdict.status is VerificationStatus.FAILED
        ):
            continue
        digest = str(evidence.expected["sha256"]).lower()
        name = str(evidence.expected["path"])
        if named.get(name, digest) != digest:  # the same relative path, in another directory
            name = evidence.subject.removeprefix("path:")
        named[name] = digest
    return ({"name": name, "digest": {"sha256": digest}} for name, digest in named.items())


def _head(run_id: str, head: Entry) -> dict[str, Any]:
    return {
        "name": f"holdfast:{checkpoint_id(run_id, head.seq)}",
        "digest": {"sha256": head.digest.hex()},
    }


def _run(core: Core, run_id: str, head: Entry) -> dict[str, Any]:
    opening = core.journals.opening(run_id)
    meta = None if opening is None else Meta(opening)
    return {
        "id": run_id,
        "flow": head.flow,
        "flowVersion": None if meta is None else meta.flow_version,
        "birth": None if meta is None else meta.birth_id,
        "inputsSha256": None if meta is None else meta.inputs_hash,
        "opened": None if opening is None else _time(opening.at),
        "status": head.status,
    }


def _place(entry: Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "step": entry.step,
        "at": _time(entry.at),
        "digest": {"sha256": entry.digest.hex()},
    }


def _time(micros: int) -> str:
    return to_datetime(micros).astimezone(UTC).isoformat().replace("+00:00", "Z")
