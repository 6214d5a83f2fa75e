"""`holdfast verify`: check stored bytes, and claims about the world."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import click

from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show
from holdfast.cli._claims import Allowed, allowing
from holdfast.cli._drawing import Text
from holdfast.cli._exits import Exit
from holdfast.cli._options import duration, option
from holdfast.cli._outcome import draw_advice
from holdfast.cli._progress import progress
from holdfast.cli._proof import prove
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.engine.voting.rows import LONGEST
from holdfast.evidence import EvidenceVerifier
from holdfast.operations.verifying import Checked
from holdfast.views import receipts, words
from holdfast.views.next_steps import next_for
from holdfast.views.rescue import Advice
from holdfast.views.runs import doing, of_id
from holdfast.views.spreading import check_all, number_of_runs, side_by_side
from holdfast.views.verifying import (
    FINE,
    NO_CLAIMS,
    Asking,
    Report,
    are_fine,
    document,
    judge,
    said,
)

_FALSE: Final = "failed"  # the verdict about a run that claims something false


@as_command(
    "holdfast verify",
    "holdfast verify nightly --base-path /srv/jobs --root /srv/data",
    "holdfast verify nightly --host api.example.org",
    "holdfast verify --connection main=postgresql://localhost/orders",
    "holdfast verify --no-evidence --json",
    "holdfast verify --receipt ann-receipt.json",
    "holdfast verify nightly --worker --within 60",
    "holdfast verify nightly --worker --on gpu-1 --on gpu-2 --quorum 2",
    "holdfast verify --chain",
    "holdfast verify --chain --anchor /mnt/safe/anchors.jsonl",
)
@run_argument("runs", required=False, nargs=-1)
@option("--chain", "Prove histories only: every entry, digest and marker. Needs no key.")
@option("--anchor FILE|URL", "Compare with what `holdfast anchor` wrote; finds what was cut off.")
@option("--all", "With --anchor: compare with all anchors, not only the newest.", to="every")
@option(
    "--anchor-root HEX",
    "With --anchor: the anchor with this root, which you keep elsewhere.",
    to="root",
)
@option(
    "--receipt FILE",
    "Instead, check that all of what `holdfast forget` gave this receipt for is still deleted.",
    type=click.Path(exists=True, dir_okay=False),
)
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
    runs: tuple[str, ...],
    chain: bool,
    anchor: str | None,
    every: bool,
    root: str | None,
    receipt: str | None,
    evidence: bool,
    allowed: Allowed,
    worker: bool,
    on: tuple[str, ...],
    quorum: int | None,
    within: timedelta,
    workers: int,
) -> None:
    """Check RUN, or all runs: every checksum, the chain of digests, and the evidence as it is now.

    With --chain or --anchor, claims about the world are not checked, and nothing is recorded.
    --chain proves histories, from the first entry to the newest: of the runs that are named, or
    of the whole store, with deleted runs and the journals beside the runs. Whoever can write to
    the store can still have cut off the newest entries, removed whole runs, or put an older copy
    in its place: --anchor finds that, with what `holdfast anchor` wrote elsewhere. It compares
    digests; give both options to have all of it proved.

    A verdict is about the record of a run and its claims, not about its status. It is "verified" if
    all claims up to the current checkpoint are true now, "intact, nothing claimed" if there are
    none (--json: "unverified"), "intact, but a claim is false" (--json: "failed"), and "not
    checked" if a claim can't be checked here. Anyone may have written a claim: only files in the
    current directory and the project's are looked at, unless you allow more with --root, --host or
    --connection, or with roots and hosts under [tool.holdfast] in pyproject.toml; and types of your
    program's own are unknown here. Exits with 1 if a run is damaged, or if its evidence fails, is
    inconclusive or was not checked. Verdicts are recorded beside the run, except for claims that
    were not checked.

    A claim that is labelled with a host can be checked only there: --worker asks the workers. Each
    checks within what it was allowed, and has a vote. A labelled claim is decided by the workers on
    its host, any other by --quorum votes. A run is "disputed" if one finds true what another finds
    false. Who does not answer in time has no vote.
    """
    if receipt is not None:
        if runs or chain or anchor is not None or worker:
            raise click.UsageError("--receipt says itself which runs it is about: give it alone")
        _check_receipt(session, receipt)
        return
    if every and anchor is None:
        raise click.UsageError("--all is for --anchor; all runs are checked if you name none")
    if root and anchor is None:
        raise click.UsageError("--anchor-root is for --anchor")
    if chain or anchor is not None:
        if worker:
            raise click.UsageError("--worker is for claims, which --chain and --anchor leave out")
        prove(session, runs, chain=chain, anchor=anchor, every=every, root=root, workers=workers)
        return
    asking = _asking(worker, on, quorum, within)
    _check_runs(session, runs, allowed.verifier() if evidence else None, asking, workers)


def _asking(
    worker: bool, on: tuple[str, ...], quorum: int | None, within: timedelta
) -> Asking | None:
    """How workers are asked about claims; None if they are not."""
    if (on or quorum) and not worker:
        raise click.UsageError("--on and --quorum are for --worker")
    if not 0 < within.total_seconds() <= LONGEST:
        raise click.UsageError(f"--within takes at most {LONGEST:.0f} seconds, and more than none")
    return Asking(on, quorum, within.total_seconds()) if worker else None


def _check_runs(
    session: Session,
    runs: tuple[str, ...],
    verifier: EvidenceVerifier | None,
    asking: Asking | None,
    workers: int,
) -> None:
    """Check the bytes of these runs, or of all, and their claims. Exits with 1 on problems."""
    with session.opened() as cp:
        named = [find_run(cp, run) for run in runs]
        names = [info.run_id for info in named]
        statuses = {info.run_id: doing(cp, info)[0] for info in named}
        found = side_by_side(
            lambda checked: judge(cp, checked, verifier=verifier, asking=asking),
            map(Checked, map(cp.verify, names)) if runs else check_all(cp, workers=workers),
            workers=workers,
            waits=lambda checked: verifier is not None and checked.claims,
        )
        total = len(names) if runs else number_of_runs(cp)
        verdicts: Counter[str] = Counter()
        reports = []
        with progress("verifying", total) as advance:
            for report in found:
                verdicts[report.verdict] += 1
                if session.json or runs or report.verdict not in FINE:
                    reports.append(report)
                advance()
        false = [report.run_id for report in reports if report.verdict == _FALSE]
        advice = {name: _next(session, cp, name) for name in false if runs and not session.json}

    def draw() -> None:
        _draw(reports, verdicts, statuses, advice)
        if false and not runs:
            see = session.commands.line("show", false[0])
            _show.say(f"see what to do: {see}", "dim")

    session.show(document(reports), draw)
    if not are_fine(verdicts):
        raise SystemExit(Exit.FAILED)


def _next(session: Session, cp: SyncCheckpointer, run_id: str) -> Advice | None:
    """What `show` says about a run that claims something false."""
    info = of_id(cp, run_id)
    return next_for(session.commands, cp, info, doing(cp, info)[1], failing=True)


def _check_receipt(session: Session, receipt: str) -> None:
    """Prove that what was forgotten is still deleted."""
    with session.opened() as cp:
        try:
            found = cp.verify_receipt(receipt)
        except ValueError as error:
            raise click.UsageError(_show.clean(str(error))) from None

    def draw() -> None:
        total = words.plural(len(found.receipt.runs), "run")
        _show.say(f"{found.gone:,} of {total} of the receipt deleted, as their tombstones prove")
        for problem in found.problems:
            _show.say(_show.clean(problem), "red")
        if found.since:
            later = words.plural(len(found.since), "run")
            _show.say(f"{later} of the same {found.receipt.of} began after the receipt", "yellow")

    session.show(receipts.document(found), draw)
    if not found.ok:
        raise SystemExit(Exit.FAILED)


def _counted(verdict: str) -> str:
    """A verdict in a list of numbers, which a comma would break."""
    first, _, rest = said(verdict).partition(", ")
    return f"{first} ({rest})" if rest else first


def _worded(verdict: str) -> Text:
    style = "ok" if verdict == NO_CLAIMS else verdict
    return _show.cell(said(verdict), _show.style_of(style))


def _draw(
    reports: list[Report],
    verdicts: Counter[str],
    statuses: Mapping[str, str],
    advice: Mapping[str, Advice | None],
) -> None:
    """What was found; of the runs that were named, whose status is given, with its details."""
    one = bool(statuses)
    for report in reports:
        if report.verdict in FINE and not one:
            continue
        line = _show.cell(f"{report.run_id}  ", "bold").add(_worded(report.verdict))
        _show.show(line)
        for reason in report.against:
            _show.explain(_show.cell(f"  {reason}"), indent=2)
        if one:
            found = report.integrity
            _show.say(f"  the run itself is {statuses[report.run_id]}")
            _show.say(
                f"  {words.plural(found.entries, 'entry')}: {found.proved:,} proved by "
                f"the chain, {found.rewritten:,} rewritten since, {found.deleted:,} deleted"
            )
            voters = sorted({vote.voter for one in report.votes for vote in one.votes})
            if voters:
                _show.say(f"  answered by {', '.join(voters)}")
            draw_advice(advice.get(report.run_id))
    if not one:
        each = sorted(verdicts.items(), key=lambda one: (one[0] in FINE, one[0] == NO_CLAIMS, one))
        summary = ", ".join(f"{count:,} {_counted(verdict)}" for verdict, count in each)
        number = words.plural(verdicts.total(), "run")
        _show.say(f"{number}: {summary}" if verdicts else "no runs")
