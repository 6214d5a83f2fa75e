"""`holdfast doctor`: what is wrong with a store, and what to do about it."""

from collections import Counter

import click

from holdfast.cli import _show
from holdfast.cli._exits import Exit
from holdfast.cli._options import option
from holdfast.cli._progress import progress
from holdfast.cli._session import Session, as_command
from holdfast.views import words
from holdfast.views.health import Examination, document, examine


@as_command(
    "holdfast doctor",
    "holdfast doctor --quick --json",
    "holdfast doctor --store postgresql://db/runs",
)
@option("--quick", "Do not read every run in search of damage.")
@option("--repair", "Make what the index has of runs anew where it is wrong.")
@option("--workers", "How many runs are read at a time.", default=4, type=click.IntRange(1, 64))
def command(session: Session, quick: bool, repair: bool, workers: int) -> None:
    """Examine the store: whether it can be reached, what it survives, what is orphaned or damaged.

    Exits with 1 on errors: damaged bytes, or a run whose process died and that nobody resumed.
    Warnings alone do not change the exit code. Exits with 4 if the store can't be opened.
    """
    with session.opened() as cp:
        every = session.json
        findings = examine(
            cp, Examination(session.commands, quick, repair, every, workers, progress)
        )
    found = document(findings)

    def draw() -> None:
        for finding in findings:
            mark = {"ok": "✓", "warning": "!", "error": "✗"}[finding.status]
            line = _show.cell(f"{mark} {finding.what}: ", _show.style_of(finding.status))
            _show.explain(line.add(_show.clean(finding.found)), indent=2)
            advice = _show.cell(f"    {finding.advice}", "dim")
            if "holdfast " in finding.advice:  # a command to copy stays on one line
                _show.show(advice)
            elif finding.advice:
                _show.explain(advice, indent=4)
        counts = Counter(finding.status for finding in findings)
        if counts["error"] or counts["warning"]:
            errors, warnings = (
                words.plural(counts[one], noun)
                for one, noun in (("error", "problem"), ("warning", "warning"))
            )
            _show.say(f"{errors}, {warnings}; below each is what to do", "bold")
        else:
            _show.say("nothing is wrong", "bold")

    session.show(found, draw)
    if not found["ok"]:
        raise SystemExit(Exit.FAILED)
