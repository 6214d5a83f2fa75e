"""`holdfast verify --chain` and `--anchor`: prove histories, and compare them with an anchor."""

import click

from holdfast.cli import _show
from holdfast.cli._drawing import LiveLine
from holdfast.cli._exits import Exit
from holdfast.cli._runs import find_run
from holdfast.cli._session import Session
from holdfast.operations.anchor_checks import AnchorReport
from holdfast.operations.verifying import ChainReport
from holdfast.views import proofs, words


def prove(
    session: Session,
    runs: tuple[str, ...],
    *,
    chain: bool,
    anchor: str | None,
    every: bool,
    root: str | None,
    workers: int,
) -> None:
    """Prove histories, compare them with an anchor, or both. Ends with exit code 1 on problems."""
    if runs and not chain:
        raise click.UsageError("an anchor is of all runs: leave out RUN, or add --chain")
    line = LiveLine()
    done = 0

    def note(name: str) -> None:
        nonlocal done
        done += 1
        line.draw(f"proving: {done:,}")

    with session.opened() as cp:
        try:
            proved = anchored = None
            if chain:
                names = [find_run(cp, run).run_id for run in runs] if runs else None
                proved = cp.verify_chain(names, progress=note, processes=workers)
            if anchor is not None:
                anchored = cp.verify_anchor(anchor, every=every, root=root, progress=note)
        finally:
            line.clear()
    found = proofs.document(proved, anchored)
    session.show(found, lambda: _draw(proved, anchored))
    if not found["ok"]:
        raise SystemExit(Exit.FAILED)


def _draw(chain: ChainReport | None, anchored: AnchorReport | None) -> None:
    for found in (chain, anchored):
        for problem in found.problems if found is not None else ():
            _show.show(_show.cell("✗ ", _show.style_of("error")).add(_show.clean(str(problem))))
    if chain is not None:
        _verdict(chain.ok, len(chain.problems), proofs.said_of_chain(chain))
    if anchored is not None:
        _verdict(anchored.ok, len(anchored.problems), proofs.said_of_anchors(anchored))
        for advice in proofs.advice(anchored):
            _show.say(f"  {advice}", "dim")
    if chain is None and anchored is not None and anchored.ok:
        _show.say(
            "  This compared digests; add --chain to prove that the entries have them.", "dim"
        )


def _verdict(ok: bool, problems: int, said: str) -> None:
    word = "proved" if ok else words.plural(problems, "problem")
    _show.show(_show.cell(word, _show.style_of("ok" if ok else "error")).add(f"  {said}"))
