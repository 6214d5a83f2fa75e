"""`holdfast verify`: whether what is stored is what was written, and what was claimed is so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from holdfast.cli import _show
from holdfast.cli._exits import Exit
from holdfast.cli._progress import side_by_side
from holdfast.cli._session import Session, all_runs, as_command, find_run, run_argument

if TYPE_CHECKING:
    from holdfast.checkpointer import SyncCheckpointer
    from holdfast.evidence import EvidenceVerifier
    from holdfast.integrity import Integrity

_FINE: Final = ("verified", "unverified", "ok")


class Report(NamedTuple):
    """What was found about one run."""

    run_id: str
    verdict: str  # damaged; else what its evidence says: verified, unverified, failed ...
    integrity: Integrity
    against: tuple[str, ...]  # why it is not in order

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        counts = {
            name: getattr(self.integrity, name)
            for name in ("entries", "proved", "rewritten", "deleted")
        }
        return {"run_id": self.run_id, "verdict": self.verdict, "problems": self.against, **counts}


@as_command(
    examples=(
        "holdfast verify",
        "holdfast verify nightly --base-path /srv/jobs",
        "holdfast verify --no-evidence --json",
    )
)
@run_argument(required=False)
@click.option(
    "--evidence/--no-evidence", default=True, help="Check what was claimed about the world, too."
)
@click.option(
    "--base-path",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Where relative paths in claims start; nothing outside is looked at.",
)
@click.option("--workers", default=4, show_default=True, type=click.IntRange(1, 64), help="How many runs are checked at a time.")  # fmt: skip
def command(
    session: Session, run: str | None, evidence: bool, base_path: str | None, workers: int
) -> None:
    """Check RUN, or all runs: every checksum, the chain of digests, and the evidence as it is now.

    A run is "verified" when all that was claimed up to its current checkpoint holds, and
    "unverified" when nothing was claimed. Exits with 1 if a run is damaged, or its evidence
    fails or can't be told. What was found about evidence is noted beside the run.
    """
    with session.opened() as cp:
        names = [find_run(cp, run).run_id] if run else [found.run_id for found in all_runs(cp)]
        reports = side_by_side(
            "verifying", _checker(cp, evidence, base_path), names, workers=workers
        )
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


def _checker(
    cp: SyncCheckpointer, evidence: bool, base_path: str | None
) -> Callable[[str], Report]:
    verifier = None
    if evidence:
        from holdfast.evidence import EvidenceVerifier

        verifier = EvidenceVerifier(base_path)
    return lambda run_id: _check(cp, run_id, verifier)


def _check(cp: SyncCheckpointer, run_id: str, verifier: EvidenceVerifier | None) -> Report:
    integrity = cp.verify(run_id)
    if not integrity.ok:
        return Report(run_id, "damaged", integrity, tuple(map(str, integrity.problems)))
    if verifier is None:
        return Report(run_id, "ok", integrity, ())
    from holdfast.evidence.checking import Checker

    newest = next(iter(cp.core.journals.branch(run_id)), None)
    if newest is None:
        return Report(run_id, "unverified", integrity, ())
    standing = Checker(cp.core, verifier).check(newest)
    if not standing.holds and not standing.against:
        return Report(run_id, "unverified", integrity, ())
    return Report(run_id, standing.status.value, integrity, tuple(map(str, standing.against)))


def _draw(reports: list[Report], counts: Counter[str], *, one: bool) -> None:
    for report in reports:
        if report.verdict in _FINE and not one:
            continue
        line = _show.cell(f"{report.run_id}  ", "bold").add(_show.word(report.verdict))
        _show.show(line)
        for reason in report.against:
            _show.say(f"  {_show.clean(reason)}")
        if one:
            found = report.integrity
            _show.say(
                f"  {_show.plural(found.entries, 'entry')}: {found.proved:,} proved by "
                f"the chain, {found.rewritten:,} rewritten since, {found.deleted:,} deleted"
            )
    if not one:
        summary = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(counts.items()))
        _show.say(f"{_show.plural(len(reports), 'run')}: {summary}" if reports else "no runs")
