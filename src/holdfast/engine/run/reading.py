"""What was claimed before a step, of what it reads and of what it claims itself."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.codec.meta import CHILD, EVIDENCE
from holdfast.errors import CheckpointLoadError, StoreError
from holdfast.model import Status

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run
    from holdfast.evidence import Evidence
    from holdfast.evidence.trust.in_force import InForce
    from holdfast.evidence.trust.rule import BoundClaim, Pack


class Reading:
    """Knows what is claimed at the end of one run's branch.

    The journal is read when a step that claims something is first executed. May be used by
    several threads.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._noted: deque[Mapping[str, Any]] = deque()  # what steps claimed that finished here
        self._in_force: InForce | None = None
        self._lock = threading.Lock()

    def note(self, claims: Mapping[str, Any]) -> None:
        """A step finished here, and its entry, which is about to be saved, says this."""
        if EVIDENCE in claims or CHILD in claims:
            self._noted.append(claims)

    def prepare(self) -> None:
        """Read the journal, if that was not done yet. Blocks. Raises `StoreError`."""
        if self._run.options.trust == "verify":
            self._known()

    def changed(self, read: Iterable[Evidence]) -> list[Evidence]:
        """The claims in force that are false of files which were just read. Blocks.

        Of what is claimed of the same files and not in `read`, everything is checked.
        """
        if self._run.options.trust != "verify":
            return []
        digests = {claim.subject: claim.facts.get("digest") for claim in read}
        bound = {one.key: one for claim in read for one in self.about(claim)}
        unsure: list[BoundClaim] = []
        false: list[Evidence] = []
        for one in bound.values():
            digest = digests.get(one.evidence.subject)
            claimed = one.evidence.facts["digest"] if "digest" in one.facts else None
            if digest is None or claimed is None:
                unsure.append(one)
            elif claimed != digest:
                false.append(_refuted(one.evidence, str(digest)))
        if unsure:
            claims = [one.evidence.noted() for one in unsure]
            self._run.verifier.check(claims, facts=[one.facts for one in unsure])
            false += [claim for claim in claims if not claim.verified]
        return false

    def left(self, claims: Sequence[Evidence]) -> list[Evidence]:
        """What is false now of what a finished step leaves of earlier claims. Blocks.

        That is, of earlier claims on the subjects of its own, which these do not replace: on every
        resume the run would go back to before them.
        """
        from holdfast.evidence.checks import needs_snapshot
        from holdfast.evidence.trust.rule import Claim, Replaced

        if self._run.options.trust != "verify":
            return []
        try:
            self.prepare()
        except (StoreError, CheckpointLoadError):  # the step is done; saving it tells
            return []
        newer = Replaced(Claim(claim, frozenset(claim.facts)) for claim in claims)
        earlier = {
            one.key: Claim(one.evidence, one.facts)
            for claim in claims
            for one in self.about(claim)
            if one.evidence.subject == claim.subject and not needs_snapshot(one.evidence)
        }
        left = list(newer.left(0, earlier.values()))
        if not left:
            return []
        found = [one.evidence.noted() for one in left]
        self._run.verifier.check(found, facts=[one.facts for one in left])
        return [claim for claim in found if claim.verification_status == "failed"]

    def about(self, claim: Evidence) -> list[BoundClaim]:
        """What is in force on a subject here, or else in the run that this one is a part of."""
        found = self._known().about(claim)
        parent = self._run.parent
        if found or parent is None:
            return found
        return parent.steps.attempts.reading.about(claim)

    def _known(self) -> InForce:
        from holdfast.evidence.trust.in_force import InForce

        with self._lock:
            if self._in_force is None:
                found = InForce()
                if not self._run.behind.is_new:
                    for packs in _on_branch(self._run, self._run.run_id):
                        found.add(packs)
                self._in_force = found
            while self._noted:  # some may be among the saved ones: then they are the newest again
                for packs in _groups(self._run, self._noted.popleft()):
                    self._in_force.add(packs)
            return self._in_force


def _refuted(claim: Evidence, digest: str) -> Evidence:
    """A copy of a claim on a file's bytes, with the verdict that it has others."""
    from holdfast.evidence import failed

    found = claim.noted()
    claimed = str(claim.facts["digest"])
    words = f"{claim.expected['path']} has the digest {digest[:12]}…, not {claimed[:12]}…"
    found.judge(failed(words)._replace(evidence=claim.digest))
    return found


def _on_branch(run: Run, run_id: str) -> Iterable[Sequence[Pack]]:
    """What was claimed on the branch of a run, as far as it is saved, oldest first. Blocks."""
    from holdfast.evidence.trust.gathering import Gathering, branch_with_claims

    journals = run.core.journals
    head = journals.checked_head(run_id)
    if head is None or head.status == Status.DELETED:
        return
    branch = branch_with_claims(run.core, partial(journals.branch_of, head))
    for _, packs, before in Gathering(run.core, needed=False).branch(branch):
        yield from (group.packs for group in before)
        yield packs


def _groups(run: Run, claims: Mapping[str, Any]) -> Iterable[Sequence[Pack]]:
    """What the child run that a step was claimed, and then what its own entry does."""
    from holdfast.evidence.trust.storing import recorded

    if CHILD in claims:
        yield from _on_branch(run, claims[CHILD])
    own = claims.get(EVIDENCE, [])
    yield [recorded(pack)[1] for pack in (own if isinstance(own, list) else [own])]
