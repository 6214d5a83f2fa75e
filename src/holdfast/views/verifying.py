"""Whether runs are as they were written, and whether their claims about the world are true now."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.voting.asking import verify_with_workers
from holdfast.evidence import EvidenceVerifier
from holdfast.evidence.trust.checking import Checker
from holdfast.evidence.trust.voting import Decision
from holdfast.evidence.verdicts import VerificationStatus
from holdfast.operations.verifying import Checked, Integrity
from holdfast.views.errors import as_options

FINE: Final = ("verified", "unverified", "ok")
"""The verdicts of runs that are in order."""

NO_CLAIMS: Final = "unverified"
_UNCHECKED: Final = "not checked"
_SAID: Final = {  # to people, who else take "failed" for the status of the run
    NO_CLAIMS: "intact, nothing claimed",
    "failed": "intact, but a claim is false",
    "inconclusive": "intact, but a claim is inconclusive",
    "disputed": "intact, but a claim is disputed",
    _UNCHECKED: "intact, but a claim was not checked",
}


class Report(NamedTuple):
    """What was found about one run."""

    run_id: str
    verdict: str  # damaged; else of its evidence: verified, unverified, failed, not checked ...
    integrity: Integrity
    against: tuple[str, ...]  # why it is not in order
    votes: tuple[Decision, ...] = ()  # if workers were asked

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        counts = {
            name: getattr(self.integrity, name)
            for name in ("entries", "proved", "rewritten", "deleted")
        }
        found = {"run_id": self.run_id, "verdict": self.verdict, "problems": self.against, **counts}
        return found | ({"claims": list(map(_voted, self.votes))} if self.votes else {})


class Asking(NamedTuple):
    """Whom to ask, and how long to wait for them."""

    on: tuple[str, ...]
    quorum: int | None
    within: float


def check(
    cp: SyncCheckpointer,
    run_id: str,
    *,
    verifier: EvidenceVerifier | None,
    asking: Asking | None = None,
    record: bool = True,
    by: str | None = None,
) -> Report:
    """Check every byte of a run, and its claims if there is a verifier, or workers to ask.

    Verdicts are recorded beside the run, with who asked for them if that is known; except for
    claims that were not checked, and except for all where `record` is False.
    """
    return judge(
        cp, Checked(cp.verify(run_id)), verifier=verifier, asking=asking, record=record, by=by
    )


def judge(
    cp: SyncCheckpointer,
    checked: Checked,
    *,
    verifier: EvidenceVerifier | None,
    asking: Asking | None = None,
    record: bool = True,
    by: str | None = None,
) -> Report:
    """As `check`, for a run whose bytes were checked."""
    integrity, may_claim = checked
    run_id = integrity.run_id
    if not integrity.ok:
        return Report(run_id, "damaged", integrity, tuple(map(str, integrity.problems)))
    if verifier is None:
        return Report(run_id, "ok", integrity, ())
    if not may_claim:
        return Report(run_id, NO_CLAIMS, integrity, ())
    newest = next(iter(cp.core.journals.branch(run_id)), None)
    if newest is None:
        return Report(run_id, NO_CLAIMS, integrity, ())
    votes: tuple[Decision, ...] = ()
    if asking is None:
        checker = Checker(cp.core, verifier, record_errors=False, record=record, by=by)
        standing = checker.check(newest)
    else:
        found = verify_with_workers(cp.core, newest, **asking._asdict())
        standing, votes = found.standing, found.decisions
    if not standing.holds and not standing.against:
        return Report(run_id, NO_CLAIMS, integrity, ())
    unchecked = standing.status is VerificationStatus.ERROR
    verdict = _UNCHECKED if unchecked else standing.status.value
    if any(one.disputed for one in votes):
        verdict = "disputed"
    against = tuple(as_options(str(claim)) for claim in standing.against)
    return Report(run_id, verdict, integrity, against, votes)


def document(reports: Sequence[Report]) -> dict[str, Any]:
    """As `holdfast verify --json` has it."""
    verdicts = Counter(report.verdict for report in reports)
    return {
        "ok": are_fine(verdicts),
        "verdicts": dict(verdicts),
        "runs": [report.to_dict() for report in reports],
    }


def are_fine(verdicts: Iterable[str]) -> bool:
    """Whether runs with these verdicts are in order."""
    return all(verdict in FINE for verdict in verdicts)


def said(verdict: str) -> str:
    """A verdict for people."""
    return _SAID.get(verdict, verdict)


def _voted(one: Decision) -> dict[str, Any]:
    """For `--json`."""
    return {
        "claim": one.evidence.description,
        "host": one.evidence.host,
        "verdict": "disputed" if one.disputed else one.verdict.status.value,
        "votes": [
            {"by": vote.voter, "verdict": vote.verdict.status.value, "reason": vote.verdict.reason}
            for vote in one.votes
        ],
    }
