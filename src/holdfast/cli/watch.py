"""`holdfast watch`: what happens in a run, or in all, as it happens."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import click

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show
from holdfast.cli._drawing import LiveLine
from holdfast.cli._exits import Exit, FailedError
from holdfast.cli._options import option
from holdfast.cli._outcome import draw_advice
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.cli.show import painted
from holdfast.engine.holding.slots import UnderWay
from holdfast.engine.working.listing import doing_now
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.operations.timeline import Moment
from holdfast.views import continuing, words
from holdfast.views.moments import note
from holdfast.views.next_steps import next_for
from holdfast.views.runs import doing, nobody

_LOOK: Final = 2.5  # seconds after which to look whether its process is alive, and how far it is
_BEHIND: Final = 16  # columns of the time and the seq
_ENDS: Final = {"completed": Exit.OK, "failed": Exit.FAILED, "cancelled": Exit.FAILED}


@as_command(
    "holdfast watch",
    "holdfast watch nightly-31",
    "holdfast watch nightly-31 --json --interval 0.2",
)
@run_argument(required=False)
@option(
    "--interval SECONDS",
    "How often to read the store.",
    default=0.5,
    type=click.FloatRange(0.05, 3600),
)
def command(session: Session, run: str | None, interval: float) -> None:
    """Follow RUN, whichever process executes it: its history so far, then each new entry.

    Below, on a terminal, are the steps under way with the progress that they report, at most a few
    seconds old; not of an encrypted store. Ends when the run ends, with 1 if it failed or was
    cancelled, if its process is dead, or if it was answered before and nobody continued it. While a
    run is paused, or waits for an answer, watching goes on. Without RUN, follow all runs, until
    Ctrl-C. That stops watching, and does nothing to the runs. PostgreSQL and Redis notify of new
    entries; other stores are read every --interval. With --json, one object per line.
    """
    with session.opened() as cp, suppress(KeyboardInterrupt):
        if run is None:
            _Watching(session, cp).follow_all(interval)
        else:
            _Watching(session, cp).follow(find_run(cp, run).run_id, interval)


class _Watching:
    """Prints what happens, and below it what is under way."""

    def __init__(self, session: Session, cp: SyncCheckpointer) -> None:
        self._session = session
        self._cp = cp
        self._below = LiveLine()
        self._told: list[UnderWay] = []

    def follow(self, run_id: str, interval: float) -> None:
        """Until the run ends."""
        seen: int | None = None
        status = ""
        first = True
        with self._cp.watch(run_id, every=interval) as changes:
            while True:
                new = self._cp.timeline(run_id, after=seen)
                for moment in new:
                    self._print(moment)
                    seen, status = moment.seq, moment.status
                if status in _ENDS:
                    self._refuse_damaged(self._cp.run(run_id))
                    raise SystemExit(_ENDS[status])
                self._look_after(run_id, waits=bool(new), first=first)
                first = False
                self._show_steps(doing_now(self._cp.core).get(run_id, ()))
                changes.wait(_LOOK)

    def _look_after(self, run_id: str, *, waits: bool, first: bool) -> None:
        """Fail if nobody executes the run; with `waits`, say what it waits for, if it does.

        One that is answered while it is watched may be continued in a moment.
        """
        info = self._cp.run(run_id)
        if info is None:
            return
        self._refuse_damaged(info)
        facts = doing(self._cp, info)[1]
        left = facts.get("orphaned", False) or (
            first and facts.get("answered", False) and not continuing.has_worker(self._cp, run_id)
        )
        if not left and (self._session.json or not waits):
            return
        advice = next_for(self._session.commands, self._cp, info, facts)
        if left:
            raise FailedError(nobody(facts["holder"]) if advice is None else str(advice))
        if advice is not None:
            self._below.clear()
            draw_advice(advice, err=True)
            _show.say("Ctrl-C stops watching", err=True)

    def _refuse_damaged(self, info: RunInfo | None) -> None:
        """Fail if the run's newest entry, and so its status, is not what was written."""
        if info is not None and info.damage:
            see = self._session.commands.line("show", info.run_id)
            raise FailedError(f"{_show.clean(info.damage)}; see: {see}")

    def follow_all(self, interval: float) -> None:
        """Until somebody interrupts it."""
        seen: dict[str, int] = {}
        with self._cp.watch(every=interval) as changes:
            if not self._session.json:
                _show.say("watching all runs; Ctrl-C stops it", "dim", err=True)
            while True:
                under_way = doing_now(self._cp.core)
                every = [one for steps in under_way.values() for one in steps]
                self._show_steps(every, named=True)
                for change in changes.wait(_LOOK):
                    if change.run_id is not None:
                        self._print_new(change.run_id, seen)

    def _print_new(self, run_id: str, seen: dict[str, int]) -> None:
        """What is new in a run; of one that was not seen yet, its newest entry."""
        try:
            if run_id in seen:
                found = self._cp.timeline(run_id, after=seen[run_id])
            else:
                found = self._cp.timeline(run_id, limit=1, newest_first=True)
        except (CheckpointNotFoundError, CheckpointCorruptedError):
            return  # deleted, or to be looked at with `show`
        for moment in found:
            self._print(moment, run_id)
            seen[run_id] = moment.seq

    def _print(self, moment: Moment, run_id: str | None = None) -> None:
        if self._session.json:
            which = {} if run_id is None else {"run_id": run_id}
            click.echo(_show.to_json(which | moment._asdict()))
        else:
            self._below.clear()
            took = "" if moment.took is None else f"  {words.span(moment.took)}"
            line = _show.cell(f"{moment.at.astimezone():%H:%M:%S}  {moment.seq:>4}  ", "dim")
            if run_id is not None:
                line.add(_show.clean(run_id), "bold").add("  ")
            line.add(painted(moment)).add(took)
            if told := str(note(moment)):
                line.add(f"  {_show.clean(told)}", "dim")
            _show.explain(line, indent=_BEHIND)
        sys.stdout.flush()

    def _show_steps(self, steps: Iterable[UnderWay], *, named: bool = False) -> None:
        """The steps under way, with their runs or not; for programs, when they are new."""
        found = sorted(steps, key=lambda one: one[:2])
        if self._session.json:
            if found != self._told:
                click.echo(_show.to_json({"under_way": [one._asdict() for one in found]}))
                sys.stdout.flush()
        elif found:
            told = ", ".join(f"{one.run_id} {one}" if named else str(one) for one in found)
            self._below.draw(f"… {_show.clean(told)}", now=True)
        else:
            self._below.clear()
        self._told = found
