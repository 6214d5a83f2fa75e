"""`holdfast verify`: check stored bytes, and claims about the world."""

from datetime import timedelta
from functools import partial

import click

from holdfast.cli import _show
from holdfast.cli._claims import Allowed, allowing
from holdfast.cli._drawing import Text
from holdfast.cli._exits import Exit
from holdfast.cli._options import duration, option
from holdfast.cli._progress import progress
from holdfast.cli._runs import run_argument, run_ids
from holdfast.cli._session import Session, as_command
from holdfast.engine.voting.rows import LONGEST
from holdfast.views import words
from holdfast.views.spreading import side_by_side
from holdfast.views.verifying import FINE, NO_CLAIMS, Asking, Report, check, document, said


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
        checking = partial(check, cp, verifier=verifier, asking=asking)
        reports = side_by_side("verifying", checking, names, workers=workers, progress=progress)
    found = document(reports)
    session.show(found, lambda: _draw(reports, found["verdicts"], one=run is not None))
    if not found["ok"]:
        raise SystemExit(Exit.FAILED)


def _worded(verdict: str) -> Text:
    style = "ok" if verdict == NO_CLAIMS else verdict
    return _show.cell(said(verdict), _show.style_of(style))


def _draw(reports: list[Report], counts: dict[str, int], *, one: bool) -> None:
    for report in reports:
        if report.verdict in FINE and not one:
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
        each = sorted((said(verdict), count) for verdict, count in counts.items())
        summary = ", ".join(f"{count:,} {verdict}" for verdict, count in each)
        _show.say(f"{words.plural(len(reports), 'run')}: {summary}" if reports else "no runs")
