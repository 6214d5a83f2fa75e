"""`holdfast verify`: check stored bytes, and claims about the world."""

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple

import click

from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show
from holdfast.cli._claims import Allowed, allowing
from holdfast.cli._drawing import Text
from holdfast.cli._exits import Exit, as_options
from holdfast.cli._options import duration, option
from holdfast.cli._progress import side_by_side
from holdfast.cli._runs import run_argument, run_ids
from holdfast.cli._session import Session, as_command
from holdfast.engine.voting.asking import verify_with_workers
from holdfast.engine.voting.rows import LONGEST
from holdfast.evidence import EvidenceVerifier
from holdfast.evidence.trust.checking import Checker
from holdfast.evidence.trust.voting import Decision
from holdfast.evidence.verdicts import VerificationStatus
from holdfast.operations.verifying import Integrity
from holdfast.views import words

_FINE: Final = ("verified", "unverified", "ok")
_UNCHECKED: Final = "not checked"
_NO_CLAIMS: Final = "unverified"
_SAID: Final = {_NO_CLAIMS: "intact (no claims)"}  # to people, who else take it for a problem


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


@as_command(
    "holdfast verify",
    "holdfast verify nightly --base-path /srv/jobs --root /srv/data",
    "holdfast verify nightly --host api.example.org",
    "holdfast verify --connection main=postgresql://localhost/orders",
    "holdfast verify --no-evidence --json",
    "holdfast verify nightly --worker --within 60",
    "holdfast verify nightly --worker --on gpu-1 --on gpu-2 --quorum 2",
)
@run_argument(required=False)
@option("--evidence/--no-evidence", "Check claims about the world, too.", default=True)
@allowing
@option("--worker", "Let workers check the claims (`holdfast worker --verify`), not this machine.")
@option("--on HOST", "With --worker: ask only workers on this host.", multiple=True)
@option(
    "--quorum N",
    "With --worker: how many must agree on a claim; by default a majority of those asked.",
    type=click.IntRange(1),
)
@option(
    "--within TIME",
    "With --worker: how long workers may take to answer: 30, 90s, 5m.",
    default="30",
    type=duration,
)
@option("--workers", "How many runs are checked at a time.", default=4, type=click.IntRange(1, 64))
def command(
    session: Session,
    run: str | None,
    evidence: bool,
    allowed: Allowed,
    worker: bool,
    on: tuple[str, ...],
    quorum: int | None,
    within: timedelta,
    workers: int,
) -> None:
    """Check RUN, or all runs: every checksum, the chain of digests, and the evidence as it is now.

    A run is "verified" if all claims up to its current checkpoint are true now, "intact (no
    claims)" if it claims nothing (--json: "unverified"), and "not checked" if a claim can't be
    checked here. Anyone may have written
    a claim: only files in the current directory and the project's are looked at, unless you allow
    more with --root, --host or --connection, or with roots and hosts under [tool.holdfast] in
    pyproject.toml; and types of your program's own are unknown here. Exits with 1 if a run is damaged, or if its
    evidence fails, is inconclusive or was not checked. Verdicts are recorded beside the run,
    except for claims that were not checked.

    A claim that is labelled with a host can be checked only there: --worker asks the workers. Each
    checks within what it was allowed, and has a vote. A labelled claim is decided by the workers on
    its host, any other by --quorum votes. A run is "disputed" if one finds true what another finds
    false. Who does not answer in time has no vote.
    """
    if (on or quorum) and not worker:
        raise click.UsageError("--on and --quorum are for --worker")
    if not 0 < within.total_seconds() <= LONGEST:
        raise click.UsageError(f"--within takes at most {LONGEST:.0f} seconds, and more than none")
    verifier = allowed.verifier() if evidence else None
    asking = Asking(on, quorum, within.total_seconds()) if worker else None
    with session.opened() as cp:
        names = run_ids(cp, run)
        check = partial(_check, cp, verifier=verifier, asking=asking)
        reports = side_by_side("verifying", check, names, workers=workers)
    wrong = [report for report in reports if report.verdict not in _FINE]
    counts = Counter(report.verdict for report in reports)
    document = {
        "ok": not wrong,
        "verdicts": dict(counts),
        "runs": [report.to_dict() for report in reports],
    }
    session.show(document, lambda: _draw(reports, counts, one=run is not None))
    if wrong:
        raise SystemExit(Exit.FAILED)


def _check(
    cp: SyncCheckpointer,
    run_id: str,
    *,
    verifier: EvidenceVerifier | None,
    asking: Asking | None,
) -> Report:
    integrity = cp.verify(run_id)
    if not integrity.ok:
        return Report(run_id, "damaged", integrity, tuple(map(str, integrity.problems)))
    if verifier is None:
        return Report(run_id, "ok", integrity, ())
    newest = next(iter(cp.core.journals.branch(run_id)), None)
    if newest is None:
        return Report(run_id, _NO_CLAIMS, integrity, ())
    votes: tuple[Decision, ...] = ()
    if asking is None:
        standing = Checker(cp.core, verifier, record_errors=False).check(newest)
    else:
        found = verify_with_workers(cp.core, newest, **asking._asdict())
        standing, votes = found.standing, found.decisions
    if not standing.holds and not standing.against:
        return Report(run_id, _NO_CLAIMS, integrity, ())
    unchecked = standing.status is VerificationStatus.ERROR
    verdict = _UNCHECKED if unchecked else standing.status.value
    if any(one.disputed for one in votes):
        verdict = "disputed"
    against = tuple(as_options(str(claim)) for claim in standing.against)
    return Report(run_id, verdict, integrity, against, votes)


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


def _worded(verdict: str) -> Text:
    style = "ok" if verdict == _NO_CLAIMS else verdict
    return _show.cell(_SAID.get(verdict, verdict), _show.style_of(style))


def _draw(reports: list[Report], counts: Counter[str], *, one: bool) -> None:
    for report in reports:
        if report.verdict in _FINE and not one:
            continue
        line = _show.cell(f"{report.run_id}  ", "bold").add(_worded(report.verdict))
        _show.show(line)
        for reason in report.against:
            _show.say(f"  {reason}")
        if one:
            found = report.integrity
            _show.say(
                f"  {words.plural(found.entries, 'entry')}: {found.proved:,} proved by "
                f"the chain, {found.rewritten:,} rewritten since, {found.deleted:,} deleted"
            )
            voters = sorted({vote.voter for one in report.votes for vote in one.votes})
            if voters:
                _show.say(f"  answered by {', '.join(voters)}")
    if not one:
        said = sorted((_SAID.get(verdict, verdict), count) for verdict, count in counts.items())
        summary = ", ".join(f"{count:,} {verdict}" for verdict, count in said)
        _show.say(f"{words.plural(len(reports), 'run')}: {summary}" if reports else "no runs")
