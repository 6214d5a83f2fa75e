"""What checkpoints answer for: their own claims, and those of the runs that their steps stand for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.checkpoint import CheckpointInfo
from holdfast.errors import CheckpointCorruptedError, InvalidIdError, VerificationError
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.trust import records, rule
from holdfast.evidence.trust.rule import Claim, Claims, Due
from holdfast.kernel.core import Core
from holdfast.model import CHILD, EVIDENCE, INHERITED, Entry, Status, check_id, checkpoint_id

_DEEPEST: Final = 100  # runs within runs

Place = tuple[str, int]
"""The run and seq of a checkpoint."""


class Gathering:
    """Gathers claims for one look at the world. Each run within is read once. Blocks.

    A run within that was deleted took its claims with it. Where it is `needed`, that raises
    `VerificationError`: nobody can tell any more whether its step's checkpoint holds.
    """

    def __init__(self, core: Core, *, needed: bool) -> None:
        self._core = core
        self._needed = needed
        self._due: dict[str, list[Due]] = {}  # by run within
        self._under_way: list[str] = []
        self._origins: dict[tuple[str, int, str], Place] = {}

    def claims(self, entry: Entry) -> Claims:
        """What a checkpoint answers for. Raises `CheckpointCorruptedError`."""
        if not any(word in entry.meta for word in (EVIDENCE, INHERITED, CHILD)):
            return Claims(entry.seq)  # without parsing it: most have nothing to say
        info = CheckpointInfo(entry)
        claims = records.claims_of(info)
        within = info.meta.child
        if within is None:
            return claims
        packs = list(claims.packs)
        for asked in self._due_within(entry, within):
            packs.append(_pack(asked))
            for claim in asked.claims:
                key = (entry.run, entry.seq, claim.evidence.digest)
                self._origins[key] = self.made_at(within, claim)
        return claims._replace(packs=packs)

    def made_at(self, run: str, claim: Claim) -> Place:
        """The checkpoint that a claim of this run was made with, be it in a run within."""
        return self._origins.get((run, *claim.key), (run, claim.seq))

    def _due_within(self, entry: Entry, run: str) -> list[Due]:
        """What the newest checkpoint of the run answers for that a step stands for."""
        if run not in self._due:
            if run in self._under_way or len(self._under_way) == _DEEPEST:
                reason = f"the runs within it have no end: {run!r} is one of them"
                raise CheckpointCorruptedError(entry.run, entry.seq, reason)
            self._under_way.append(run)
            self._due[run] = rule.due([*map(self.claims, self._branch(entry, run))][::-1])
            self._under_way.pop()
        return self._due[run]

    def _branch(self, entry: Entry, run: str) -> Iterable[Entry]:
        try:
            check_id("run_id", run)
        except InvalidIdError as error:
            raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None
        head = self._core.journals.checked_head(run)
        if head is not None and head.status != Status.DELETED:
            return self._core.journals.branch_of(head)
        if self._needed:
            raise VerificationError(
                checkpoint_id(entry.run, entry.seq),
                (),
                f"the run within, {run!r}, was deleted, and what it claimed with it; resume with "
                'trust="stored" or "skip" if the work is there, or go back to before it',
            )
        return ()


def _pack(asked: Due) -> EvidencePack:
    claims = [claim.evidence for claim in asked.claims]
    if asked.required == len(claims):
        return EvidencePack(claims)
    return EvidencePack(claims, False, True, asked.required)
