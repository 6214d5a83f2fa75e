"""The claims that bind a checkpoint: its own, and those of the child runs of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from holdfast.checkpoint import CheckpointInfo
from holdfast.codec import envelope
from holdfast.codec.meta import claimed_so_far, may_claim
from holdfast.errors import CheckpointCorruptedError, InvalidIdError, VerificationError
from holdfast.evidence.trust import rule, storing
from holdfast.evidence.trust.carrying import carried_claims
from holdfast.evidence.trust.rule import (
    BoundClaim,
    CheckpointClaims,
    Claim,
    Group,
    Pack,
    Requirement,
)
from holdfast.kernel.core import Core
from holdfast.kernel.pages import Damage
from holdfast.logs import logger
from holdfast.model import Entry, Status, check_id, checkpoint_id

_log: Final = logger("holdfast.evidence")
_DEEPEST: Final = 100  # children of children

Place = tuple[str, int]
"""The run and seq of a checkpoint."""


def branch_with_claims(core: Core, read: Callable[[Damage], Iterable[Entry]]) -> list[Entry]:
    """The checkpoints of a branch, newest first, without their states. Blocks.

    Raises `CheckpointCorruptedError` for a damaged one among them, unless a later one that is
    intact tells that nothing was claimed up to it: nobody knows what the damaged one claimed, and
    it binds those after it.
    """
    damaged: list[CheckpointCorruptedError] = []
    branch = proved(core, read(damaged.append), damaged.append)
    stored = [error.entry for error in damaged if error.entry is not None]
    if damaged and any(claimed_so_far(entry.meta) for entry in (*branch, *stored)):
        raise damaged[0]
    for error in damaged:
        if error.seq is None or not branch or error.seq > branch[0].seq:
            raise error
    for error in damaged:
        _log.warning("%s; nothing that is intact depends on it", error)
    return branch


class Gathering:
    """Gathers claims for one look at the world. Each child run is read once. Blocks.

    A child run that was deleted took its claims with it. If they are `needed`, that raises
    `VerificationError`, as its step's checkpoint can't be verified without them.
    """

    def __init__(self, core: Core, *, needed: bool) -> None:
        self._core = core
        self._needed = needed
        self._found: dict[str, list[Requirement]] = {}  # by child run
        self._under_way: list[str] = []
        self._carried: dict[str, dict[int, list[Group]]] = {}  # by run
        self._origins: dict[tuple[str, int, str], Place] = {}

    def branch(self, entries: Iterable[Entry]) -> list[CheckpointClaims]:
        """What was claimed with each checkpoint of a branch, which is newest first; oldest first.

        Where checkpoints were deleted in between, the next one inherits what is left of theirs.
        """
        found: list[CheckpointClaims] = []
        after: Entry | None = None
        for entry in entries:
            if after is not None and after.parent != entry.seq:
                found[-1] = self._with_carried(after, found[-1])
            found.append(self._claims(entry))
            after = entry
        if after is not None and after.parent is not None:
            found[-1] = self._with_carried(after, found[-1])
        return found[::-1]

    def recorded(self, entry: Entry) -> CheckpointClaims:
        """What was claimed with one checkpoint, and what it inherits as a fork's first."""
        return self._claims(entry)

    def own(self, entry: Entry) -> CheckpointClaims:
        """What was claimed with one checkpoint, without what it inherits."""
        return self._claims(entry)._replace(before=())

    def of(self, core: Core, entry: Entry) -> CheckpointClaims:
        """What was claimed with one checkpoint, and what it inherits."""
        checked = core.journals.entry(entry.run, entry.seq) if may_claim(entry.meta) else entry
        if checked is None:
            raise CheckpointCorruptedError(entry.run, entry.seq, "it was deleted meanwhile")
        return self._with_carried(entry, self._claims(checked))

    def _with_carried(self, entry: Entry, claims: CheckpointClaims) -> CheckpointClaims:
        """The claims of a checkpoint with those of the deleted ones before it."""
        if entry.run not in self._carried:
            self._carried[entry.run] = carried_claims(
                self._core,
                entry.run,
                lambda pack: storing.recorded(pack)[1],
                expected=claimed_so_far(entry.meta),
            )
        more = self._carried[entry.run].get(entry.seq, ())
        return claims._replace(before=(*claims.before, *more)) if more else claims

    def _claims(self, entry: Entry) -> CheckpointClaims:
        """The claims that a checkpoint adds to its branch. Raises `CheckpointCorruptedError`."""
        if not may_claim(entry.meta):
            return CheckpointClaims(entry.seq)
        info = CheckpointInfo(entry)
        claims = storing.claims_of(info)
        child = info.meta.child
        if child is None:
            return claims
        packs = list(claims.packs)
        for requirement in self._binding_in(entry, child):
            left = [Claim(c.evidence, c.facts, c.replaces) for c in requirement.claims]
            packs.append(Pack(tuple(left), requirement.required))
            for claim in requirement.claims:
                key = (entry.run, entry.seq, claim.evidence.digest)
                self._origins[key] = self.made_at(child, claim)
        return claims._replace(packs=packs)

    def made_at(self, run: str, claim: BoundClaim) -> Place:
        """The checkpoint that a claim of this run was made with, perhaps in a child run."""
        return self._origins.get((run, claim.seq, claim.evidence.digest), (run, claim.seq))

    def _binding_in(self, entry: Entry, run: str) -> list[Requirement]:
        """What binds the newest checkpoint of a step's child run."""
        if run not in self._found:
            if run in self._under_way or len(self._under_way) == _DEEPEST:
                reason = f"its child runs never end: {run!r} is one of them"
                raise CheckpointCorruptedError(entry.run, entry.seq, reason)
            self._under_way.append(run)
            branch = self.branch(self._branch(entry, run))
            self._found[run] = rule.binding(branch, branch[-1].seq) if branch else []
            self._under_way.pop()
        return self._found[run]

    def _branch(self, entry: Entry, run: str) -> Iterable[Entry]:
        try:
            check_id("run_id", run)
        except InvalidIdError as error:
            raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None
        head = self._core.journals.checked_head(run)
        if head is not None and head.status != Status.DELETED:
            return proved(self._core, self._core.journals.branch_of(head))
        if self._needed:
            raise VerificationError(
                checkpoint_id(entry.run, entry.seq),
                (),
                f"the child run {run!r} was deleted together with its claims; resume with "
                'trust="stored" or "skip" if its work is still there, or go back to before it',
            )
        return ()


def proved(core: Core, branch: Iterable[Entry], damage: Damage | None = None) -> list[Entry]:
    """The checkpoints of a branch without their bodies, and what they claim is proved.

    Those that are stored as changes are proved in the order of the journal, not one by one. Raises
    `CheckpointCorruptedError` for one that is not; with `damage`, calls that.
    """
    found: list[Entry] = []
    changes: set[int | None] = set()
    for entry in branch:
        if envelope.glance(entry).is_delta:
            changes.add(entry.seq)
        found.append(entry._replace(body=b""))
    if changes and any(claimed_so_far(entry.meta) for entry in found):
        wrong: list[CheckpointCorruptedError] = []
        for _ in core.journals.entries(found[0].run, bodies=True, damage=wrong.append):
            pass
        for error in wrong:
            if error.seq in changes:
                if damage is None:
                    raise error
                damage(error)
    return found
