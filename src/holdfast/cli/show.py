"""`holdfast show`: one run, what it was given, what it did and what came of it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import click

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _show, _threads
from holdfast.cli._drawing import Text
from holdfast.cli._exits import FailedError
from holdfast.cli._options import option
from holdfast.cli._outcome import draw_advice, draw_claims, draw_outcome, draw_value
from holdfast.cli._runs import find_place, run_argument, run_or_checkpoint
from holdfast.cli._session import Session, as_command
from holdfast.cli._steps import draw_step
from holdfast.codec.summaries import shortened
from holdfast.engine.working.listing import doing_now
from holdfast.model import OF_CHILD, Status, split_checkpoint_id
from holdfast.operations.timeline import Moment
from holdfast.views import runs, words
from holdfast.views.claims import Claims, claims
from holdfast.views.gaps import Gaps
from holdfast.views.moments import beginning, is_told, note, what
from holdfast.views.next_steps import next_for
from holdfast.views.outcome import outcome_of
from holdfast.views.rescue import Advice
from holdfast.views.run import Shown, State, show
from holdfast.views.step_detail import detail_of
from holdfast.views.step_pending import as_executed
from holdfast.views.step_reading import named_steps, steps_of
from holdfast.views.steps import Steps
from holdfast.views.voided import is_void

_MOMENTS: Final = 50
_LINES: Final = 20
_PROBLEMS: Final = 3
_BAR: Final = 10
_ERROR: Final = 60  # characters


@as_command(
    "holdfast show 3f2",
    "holdfast show nightly@7 --full",
    "holdfast show nightly --step charge_card",
    "holdfast show nightly --json | jq .state",
)
@run_argument()
@option("--at WHERE", "The state and the claims at a seq, RUN@SEQ or after a step.", to="where")
@option("--step NAME", "Only this step: its attempts, tracebacks, output and result.")
@option("--full", "All of the timeline, of the state and of the output.")
def command(session: Session, run: str, where: str | None, step: str | None, full: bool) -> None:
    """Show RUN: its inputs, its timeline, its result or what it failed with, what it claims, its
    child runs and its state, and what to do next.

    Its status is shown as by `holdfast runs`. RUN@SEQ is RUN with its state and its claims at that
    checkpoint, as with --at. RUN may also be a thread: its newest run is shown.
    Of a thread of LangGraph's, the messages and the values of its channels are shown.
    Entries that are damaged are marked; in a run of more than 5,000 entries, only those that are
    missing or can't be read, as long as its state can be loaded: `holdfast verify` finds the rest.
    A step may have been executed several times, in a loop or for each item: an item that failed is
    shown, else the last time, or the one that was recorded at the seq that --at names.
    """
    with session.opened() as cp:
        info, seq = run_or_checkpoint(cp, run, threads=True)
        if seq is not None and where is not None:
            raise click.UsageError(f"give either {_show.clean(run)} or --at, not both")
        where = where if seq is None else seq
        if step is not None:
            at = None if where is None else _seq_of(where)
            detail = detail_of(cp, info, named_steps(cp, info), step, at)
            one = detail.execution
            rounds = [o for o in detail.rounds if step == one.group or o.key == one.key]
            session.show(detail.document(), lambda: draw_step(detail, rounds, full=full))
            if detail.damage:
                raise FailedError(_show.clean(detail.damage))
            return
        place = None if where is None else find_place(cp, info.run_id, where)
        most = None if full or session.json else _MOMENTS
        found = show(cp, info, place, most=most)
        first = found.moments[0] if most is None else cp.timeline(info.run_id, limit=1)[0]
        told = outcome_of(cp, info, found.moments)
        claimed = current = claims(cp, info.run_id)
        if place is not None:
            claimed = claims(cp, *split_checkpoint_id(place))
        drawn = None if session.json else _drawn(session, cp, info, found, current)
    document = found.document() | told.document() | {"claims": claimed.document()}

    def draw() -> None:
        assert drawn is not None  # without --json
        advice, doing, steps, states = drawn
        shown = [first, *found.moments]
        _draw_summary(info, found.word, found.facts.get("due"), shown, steps)
        if found.damage:  # before anything that may depend on it
            _draw_damage(session, found)
            _draw_advice(advice)
            _show.say()
        draw_value("inputs", told.inputs or None, full=full)
        if doing is not None:
            _show.show(doing)
        _show.say()
        error = "" if told.failure is None else str(told.failure)
        _draw_timeline(found.moments, Gaps(steps), error)
        draw_outcome(told, full=full)
        draw_claims(claimed, full=full)
        if found.children:
            _show.say()
            _draw_tree(info, found.tree, states)
        _draw_state(found.state, full=full)
        if not found.damage:
            _draw_advice(advice)

    session.show(document, draw)
    if found.damage:
        raise FailedError(_show.clean(f"{info.run_id} is damaged; {_problems(found)[0]}"))


class _Drawn(NamedTuple):
    """What only people are shown."""

    advice: Advice | None
    doing: Text | None  # the steps under way, or cut off
    steps: Steps
    states: dict[str, str]  # of child runs whose status does not say it


def _drawn(
    session: Session, cp: SyncCheckpointer, info: RunInfo, found: Shown, claimed: Claims
) -> _Drawn:
    failing = bool(claimed.counts.get("failed"))
    steps = steps_of(cp, info)
    under_way = [one for one in found.children if one.status == Status.RUNNING]
    return _Drawn(
        next_for(session.commands, cp, info, found.facts, found.integrity, failing=failing),
        None if found.damage else _step_under_way(cp, info, found, steps),
        steps,
        {one.run_id: runs.doing(cp, one)[0] for one in under_way},
    )


def _step_under_way(cp: SyncCheckpointer, info: RunInfo, found: Shown, steps: Steps) -> Text | None:
    """The steps that a process executes, or that it was executing when it died."""
    if info.status != Status.RUNNING:
        return None
    if not found.facts.get("orphaned"):
        now = doing_now(cp.core).get(info.run_id, [])
        told, style = ", ".join(_show.clean(str(one)) for one in now), "cyan"
        return _show.cell("under way  ", "bold").add(told, style) if told else None
    known = as_executed(steps, found.word, found.facts)
    names = [one.name for one in known.executions if one.status == "cut off"]
    return _show.cell("cut off  ", "bold").add(words.some(names), "magenta") if names else None


def _problems(found: Shown) -> list[str]:
    """What is damaged, the first first."""
    problems = () if found.integrity is None else found.integrity.problems
    return [str(problem) for problem in problems] or [found.damage]


def _draw_damage(session: Session, found: Shown) -> None:
    problems = _problems(found)
    for problem in problems[:_PROBLEMS]:
        _show.say(f"damaged: {problem}", "red")
    if len(problems) > _PROBLEMS:
        verify = session.commands.line("verify", found.info.run_id)
        _show.say(f"… {len(problems) - _PROBLEMS:,} more: {verify}", "dim")


def _draw_advice(advice: Advice | None) -> None:
    if advice is not None:
        _show.say()
        draw_advice(advice)


def _draw_state(state: State, *, full: bool) -> None:
    if state.checkpoint is None:
        return
    _show.say()
    _show.say(f"state at {state.checkpoint_id}", "bold")
    if state.interrupts is None:
        _show.print_laid_out(state.value, most=None if full else _LINES)
    else:
        _threads.draw_channels(state.value, full=full)
    for question in state.interrupts or ():
        _show.say(f"waits for an answer to: {_show.to_json(question)}", "yellow")


def _seq_of(where: str) -> int:
    seq = where.rpartition("@")[2]
    if not (seq.isascii() and seq.isdigit() and len(seq) <= 18):
        raise click.UsageError("with --step, --at is the seq of one of its executions")
    return int(seq)


def _draw_summary(
    info: RunInfo, word: str, due: datetime | None, moments: Sequence[Moment], steps: Steps
) -> None:
    line = _show.cell(info.run_id, "bold").add("  ").add(_show.word(word))
    if due is not None:
        line.add(f", {'continues' if due > datetime.now(UTC) else 'due since'} {words.moment(due)}")
    for name, value in (("flow", info.flow), ("thread", info.thread_id), ("owner", info.owner)):
        if value is not None:
            line.add(f"  {name} ", "dim").add(_show.clean(value))
    _show.show(line)
    readable = [moment.at for moment in moments if moment.kind != "damaged"] or [moments[0].at]
    took = (readable[-1] - readable[0]).total_seconds()
    _show.say(
        f"{beginning(moments[0])} {words.moment(readable[0])}, {words.span(took)} until its last entry, "
        f"{words.span(steps.worked)} in steps"
    )


def _draw_timeline(moments: Sequence[Moment], gaps: Gaps, error: str) -> None:
    """Some moments, to the last. The `error` that ended the run is cut: it follows in full."""
    earlier = moments[0].seq  # there are no gaps
    if earlier:
        _show.say(f"… {earlier:,} earlier; see them with --full", "dim")
    longest = max((moment.took or 0.0 for moment in moments), default=0.0)
    rows: list[tuple[Any, ...]] = []
    before: Moment | None = None
    for moment in moments:
        told = "" if before is None else gaps.between(before, moment)
        if told:
            rows.append(("", "", _show.cell(f"· {told}", "dim"), "", "", ""))
        shown = moment
        if is_told(moment, before):
            shown = moment._replace(note="")
        elif moment.note == error:
            shown = moment._replace(note=shortened(error, _ERROR))
        rows.append(_row(shown, longest))
        before = moment
    _show.table(("SEQ", "TIME", "WHAT", "TOOK", "", "NOTE"), rows, right=("SEQ", "TOOK"))


def _row(moment: Moment, longest: float) -> tuple[Any, ...]:
    took = "" if moment.took is None else words.span(moment.took)
    part = moment.took / longest if moment.took and longest else 0.0
    bar = "━" * max(1, round(_BAR * part)) if 0 < part <= 1 else ""  # not of a damaged entry's inf
    told = str(note(moment))
    if not moment.current and not is_void(moment):
        told = f"left behind {told}".strip()
    return (
        moment.seq,
        "" if moment.kind == "damaged" else f"{moment.at.astimezone():%H:%M:%S}",
        painted(moment),
        took,
        _show.cell(bar, "cyan"),
        _show.cell(told, "" if moment.current else "dim"),
    )


def painted(moment: Moment) -> Text:
    """What happened, in a few words and their color."""
    style = "" if moment.current else "dim strike"
    if moment.status == "deleted":
        style = "dim"
    elif moment.kind == "fail":
        style = "red" if moment.status == "failed" else "yellow"  # else the run went on
    elif moment.kind == "complete":
        style = "green"
    return _show.cell(what(moment), style)


def _draw_tree(
    info: RunInfo, tree: Mapping[str, Sequence[RunInfo]], states: Mapping[str, str]
) -> None:
    """The runs that are steps of this one, and those that are steps of theirs.

    `states` are how those are shown whose status does not say it.
    """

    def draw(parent: str, indent: str) -> None:
        below = tree.get(parent, ())
        for child in below:
            last = child is below[-1]
            line = _show.cell(f"{indent}{'└── ' if last else '├── '}", "dim")
            name = _show.cell(child.run_id.removeprefix(f"{parent}{OF_CHILD}"))
            state = states.get(child.run_id, child.status)
            _show.show(line.add(name).add("  ").add(_show.word(state)))
            draw(child.run_id, indent + ("    " if last else "│   "))

    _show.say("child runs", "bold")
    draw(info.run_id, "")
