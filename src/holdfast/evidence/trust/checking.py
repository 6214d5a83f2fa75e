"""Checking the claims of a run now: gather them, ask the verifier, let the rule decide, record it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import CheckpointInfo
from holdfast.errors import CheckpointCorruptedError, VerificationError
from holdfast.evidence.checks import needs_snapshot
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.trust import records, rule, storing
from holdfast.evidence.trust.gathering import Gathering, Place, proved
from holdfast.evidence.trust.indexing import known_branch
from holdfast.evidence.trust.rule import BoundClaim, Standing
from holdfast.evidence.verdicts import Verdict, VerificationStatus, verified
from holdfast.evidence.verifier import EvidenceVerifier
from holdfast.kernel.core import Core
from holdfast.logs import about, logger
from holdfast.model import Entry, checkpoint_id

_log: Final = logger("holdfast.evidence")
_FEW: Final = 32  # checkpoints to look at before the whole branch is read
_UNDECIDED: Final = (VerificationStatus.INCONCLUSIVE, VerificationStatus.ERROR)


Key = tuple[int, str, frozenset[str]]
"""`BoundClaim.key`."""

Others = Callable[[Entry, Sequence[BoundClaim]], Mapping[Key, Verdict]]
"""Asks others about claims that bind a checkpoint; gives the verdicts on those that they check."""


class Found(NamedTuple):
    """The newest checkpoint that verifies, and the newer ones that do not."""

    entry: Entry | None
    rejected: list[tuple[Entry, Standing]]  # those with evidence, newest first


class Checker:
    """Checks what was claimed on a branch against the world as it is now.

    Without a verifier the world is not looked at: the last recorded verdicts count. `others` are
    asked first, and the verifier checks what they leave. With `record_errors=False`, claims that
    could not be checked at all leave no trace; with `record=False`, none do. Verdicts are recorded
    with who asked for them, `by`, if that is known.
    """

    def __init__(
        self,
        core: Core,
        verifier: EvidenceVerifier | None,
        *,
        others: Others | None = None,
        record_errors: bool = True,
        record: bool = True,
        by: str | None = None,
    ) -> None:
        self._core = core
        self._verifier = verifier
        self._others = others
        self._record_errors = record_errors
        self._records = record
        self._by = by

    def check(self, entry: Entry) -> Standing:
        """Check a checkpoint: everything that was claimed on its branch up to it."""
        known = self._known_branch(entry)
        if known is not None:
            return self._check_known(known)
        return self._check_first(proved(self._core, self._core.journals.branch_of(entry)))

    def check_own(self, entry: Entry) -> Standing:
        """Check the claims of one checkpoint alone."""
        return self._check_first([entry], own=True)

    def committed(self, entry: Entry, pack: EvidencePack) -> Standing:
        """Record the verdicts on the claims of a checkpoint that has just been committed."""
        verdicts = {c.digest: c.verdict for c in pack.evidence_list if c.verdict is not None}
        look = _Look(self._core, self._verifier, [entry], verdicts)
        standing = next(rule.standings(look.claims(own=True), look))
        self._record(look, [standing])
        return standing

    def check_step(self, entry: Entry) -> Standing:
        """Check what a step claimed itself, without its child run's claims. Records nothing."""
        look = self._look([entry])
        return next(rule.standings([storing.claims_of(CheckpointInfo(entry))], look))

    def verdicts(self, entry: Entry) -> list[tuple[BoundClaim, Verdict]]:
        """What is found now of each claim that binds a checkpoint. Records nothing."""
        look = self._look(proved(self._core, self._core.journals.branch_of(entry)))
        next(rule.standings(look.claims(), look))
        return look.checked

    def newest(
        self,
        branch: Iterable[Entry],
        wanted: Callable[[Entry], bool],
        *,
        unclaimed: bool = False,
    ) -> Found:
        """The newest wanted checkpoint of a branch that verifies now.

        `branch` are its checkpoints, checked, newest first: what `journals.branch` reads, or what
        the caller has read already. One that failed is skipped, and so is one that was checked
        and never verified. Raises `VerificationError` for one that can't be checked now but
        verified before, or was never checked, and for one whose child run was deleted with its
        claims: to resume from an older one would discard good work. With `unclaimed`, one without
        any claim up to it will do, too, and one that can't be checked now is never skipped: what
        it claims was true when it was claimed.
        """
        look = self._look(branch)
        at = {entry.seq: entry for entry in look.branch}
        standings: list[Standing] = []
        rejected: list[tuple[Entry, Standing]] = []
        found: Entry | None = None
        undecided: VerificationError | None = None

        def is_next(seq: int) -> bool:
            look.about = at[seq]
            return wanted(at[seq])

        for standing in rule.standings(look.claims(), look, is_next):
            entry = at[standing.seq]
            standings.append(standing)
            if standing.holds or (unclaimed and not standing.against):
                found = entry
                break
            if standing.status in _UNDECIDED and (
                unclaimed or records.ever_held(self._core, entry) is not False
            ):
                name = checkpoint_id(entry.run, entry.seq)
                undecided = VerificationError(name, standing.against)
                break
            if standing.against:
                rejected.append((entry, standing))
        _tell_rejected(rejected)
        self._record(look, standings)
        if undecided is not None:
            raise undecided
        return Found(found, rejected)

    def newest_in(self, run: str, wanted: Callable[[Entry], bool]) -> Found:
        """The newest wanted checkpoint of a run that verifies now; raises as `newest` does.

        If it is among the newest ones, few others are read.
        """
        rejected: list[tuple[Entry, Standing]] = []
        with suppress(CheckpointCorruptedError):
            newest = filter(wanted, self._core.journals.branch(run))
            for entry in islice(newest, _FEW):
                known = self._known_branch(entry)
                if known is None:
                    break
                standing = self._check_known(known, undecided=False)
                if standing.holds:
                    _tell_rejected(rejected)
                    return Found(entry, rejected)
                if standing.status is not VerificationStatus.FAILED:
                    break  # what is known of it from before decides
                rejected.append((entry, standing))
        branch, damaged = intact_branch(self._core, run)
        found = self.newest(branch, wanted)
        if found.entry is None and damaged:
            raise damaged[0]
        return found

    def _known_branch(self, entry: Entry) -> list[Entry] | None:
        try:
            return known_branch(self._core, entry)
        except (CheckpointCorruptedError, ValueError):
            return None  # reading all of the branch tells what is wrong

    def _check_known(self, branch: list[Entry], *, undecided: bool = True) -> Standing:
        """Check the first of these checkpoints; with `undecided`, record also that it can't be."""
        look = self._look(branch)
        standing = next(rule.standings(look.recorded(), look))
        if undecided or standing.status not in _UNDECIDED:
            self._record(look, [standing])
        return standing

    def _check_first(self, branch: Iterable[Entry], *, own: bool = False) -> Standing:
        look = self._look(branch)
        standing = next(rule.standings(look.claims(own=own), look))
        self._record(look, [standing])
        return standing

    def _look(self, branch: Iterable[Entry]) -> _Look:
        return _Look(self._core, self._verifier, branch, others=self._others)

    def _record(self, look: _Look, standings: Sequence[Standing]) -> None:
        """Append what was found, if the world was looked at."""
        checked = [one for one in look.checked if self._tells(*one, look)]
        standings = standings if len(checked) == len(look.checked) else ()
        if checked and self._records and self._verifier is not None:
            digests = {entry.seq: entry.digest for entry in look.branch}
            one = look.branch[0]
            try:
                recording = records.record(self._core, one, standings, checked, digests, self._by)
                self._core.drive(recording)
            except CheckpointCorruptedError as error:  # of the verdicts: no reason to distrust
                _log.warning("%s; what was found now is not recorded", error)

    def _tells(self, claim: BoundClaim, verdict: Verdict, look: _Look) -> bool:
        """Whether a verdict is about the claim, rather than about who was there to look."""
        if verdict.status is VerificationStatus.ERROR:
            return self._record_errors
        nobody_looked = claim.evidence.is_elsewhere or claim.key in look.voted
        return verdict.status is not VerificationStatus.INCONCLUSIVE or not nobody_looked


def _tell_rejected(rejected: Sequence[tuple[Entry, Standing]]) -> None:
    """Log which checkpoints, newest first, were rejected: once for all that have a reason in common."""
    for reason, found in groupby(rejected, lambda one: one[1].reason):
        entries = [entry for entry, _ in found]
        places = dict.fromkeys(checkpoint_id(e.run, e.seq) for e in (entries[-1], entries[0]))
        told = about(entries[0].run, entries[0].step) | {"rejected": len(entries)}
        _log.warning("%s: %s", " to ".join(places), reason, extra=told)


def intact_branch(core: Core, run: str) -> tuple[list[Entry], list[CheckpointCorruptedError]]:
    """The checkpoints on a run's branch before the first damaged one, and the damaged. Blocks.

    Nobody knows what a damaged one claims, which binds those after it.
    """
    damaged: list[CheckpointCorruptedError] = []
    branch = proved(core, core.journals.branch(run, damaged.append), damaged.append)
    for error in damaged:
        _log.warning("%s; this and later checkpoints can't be verified", error)
    first = min((error.seq or 0 for error in damaged), default=None)
    intact = branch if first is None else [entry for entry in branch if entry.seq < first]
    return intact, damaged


class _Look:
    """One look at the claims of a branch, given newest first: called with claims, gives verdicts.

    `known` has the verdicts of a moment ago, by the claims' digests.
    """

    def __init__(
        self,
        core: Core,
        verifier: EvidenceVerifier | None,
        branch: Iterable[Entry],
        known: Mapping[str, Verdict] | None = None,
        others: Others | None = None,
    ) -> None:
        self._core = core
        self._verifier = verifier
        self._known = known
        self._others = others
        self._gathering = Gathering(core, needed=verifier is not None)
        # Oldest first, without the states: all of them at once may take a lot of memory.
        self.branch = [entry._replace(body=b"") for entry in branch][::-1]
        self.checked: list[tuple[BoundClaim, Verdict]] = []
        self.about = self.branch[-1] if self.branch else None  # what claims are checked for
        self.voted: set[Key] = set()  # the claims that others were asked about

    def recorded(self) -> list[rule.CheckpointClaims]:
        """What was claimed with each checkpoint, oldest first, where others are left out."""
        return [self._gathering.recorded(entry) for entry in self.branch]

    def claims(self, *, own: bool = False) -> list[rule.CheckpointClaims]:
        """What was claimed with each checkpoint, oldest first; `own`: without what it inherits."""
        if own:
            return [self._gathering.own(entry) for entry in self.branch]
        return self._gathering.branch(reversed(self.branch))

    def __call__(self, claims: Sequence[BoundClaim]) -> list[Verdict]:
        if self._known is not None:
            verdicts = [self._known[claim.evidence.digest] for claim in claims]
            for claim, verdict in zip(claims, verdicts, strict=True):
                claim.evidence.judge(verdict)
        else:
            verdicts = self._recall(claims) if self._verifier is None else self._look(claims)
        self.checked += zip(claims, verdicts, strict=True)
        return verdicts

    def _look(self, claims: Sequence[BoundClaim]) -> list[Verdict]:
        """Ask the others, and the verifier about the rest."""
        found: dict[Key, Verdict] = {}
        if self._others is not None and self.about is not None:
            found.update(self._others(self.about, claims))
        self.voted.update(found)
        for claim in claims:
            if claim.key in found:
                claim.evidence.judge(found[claim.key])
        found.update(self._ask([claim for claim in claims if claim.key not in found]))
        return [found[claim.key] for claim in claims]

    def _ask(self, claims: Sequence[BoundClaim]) -> dict[Key, Verdict]:
        """Ask the verifier. Claims that need no snapshot are checked all at once."""
        assert self._verifier is not None
        groups: dict[Place | None, list[BoundClaim]] = {}
        for claim in claims:
            place = self._gathering.made_at(self.branch[0].run, claim)
            groups.setdefault(place if needs_snapshot(claim.evidence) else None, []).append(claim)
        found: dict[Key, Verdict] = {}
        for where, group in groups.items():
            snapshot = None if where is None else self._snapshot(*where)
            given = self._verifier.telling(self._core, self.branch[0].run).check(
                [c.evidence for c in group],
                snapshot=snapshot,
                facts=[None if c.is_whole else c.facts for c in group],
            )
            found.update(zip((claim.key for claim in group), given, strict=True))
        return found

    def _snapshot(self, run: str, seq: int) -> Mapping[str, Any] | None:
        """What was recorded with a claim: a whole state, or what the step itself returned."""
        state = self._core.journals.value(run, seq)
        return state if isinstance(state, Mapping) else None

    def _recall(self, claims: Sequence[BoundClaim]) -> list[Verdict]:
        """The last recorded verdicts. A claim that was never found false counts as verified.

        Raises `CheckpointCorruptedError` for a verdict that can't be read.
        """
        concerned: dict[int, set[str]] = {}
        for claim in claims:
            concerned.setdefault(claim.seq, set()).add(claim.name)
        asked = [(entry, concerned[entry.seq]) for entry in self.branch if entry.seq in concerned]
        known = records.findings(self._core, self.branch[0].run, asked, decides=True)
        found = []
        for claim in claims:
            verdict = known[claim.seq].verdicts.get(claim.name)
            if verdict is None or verdict.status is not VerificationStatus.FAILED:
                verdict = verified()._replace(evidence=claim.evidence.digest)
            claim.evidence.judge(verdict)
            found.append(verdict)
        return found
