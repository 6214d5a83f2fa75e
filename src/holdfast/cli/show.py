"""`holdfast show`: one run, its timeline, its state and its child runs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.checkpoint import RunInfo
from holdfast.cli import _show, _threads
from holdfast.cli._drawing import Text
from holdfast.cli._exits import FailedError
from holdfast.cli._options import option
from holdfast.cli._runs import find_place, find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.codec import readable
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.model import OF_CHILD
from holdfast.operations.children import parent_run
from holdfast.operations.timeline import Moment
from holdfast.operations.verifying import Problem
from holdfast.views import threads, words
from holdfast.views.runs import doing, nobody

_MOMENTS: Final = 50
_PROVED: Final = 5000  # entries of a run that is read whole, to mark what is damaged
_LINES: Final = 20
_BAR: Final = 16
_GAP: Final = 0.1  # seconds; less is not worth a word
_SOON: Final = timedelta(seconds=1)  # the same of what is to come
_WORDS: Final = {
    "open": "began",
    "sleep": "waits in",
    "claim": "claimed",
    "release": "released",
    "child": "child run",
    "decision": "decided",
    "question": "asks",
    "answer": "answered",
    "request": "was asked to",
    "pause": "paused",
    "fail": "failed",
    "output": "output of",
    "complete": "completed",
    "cancel": "cancelled",
    "rollback": "went back",
    "begin": "begins",
    "trim": "thinned out",
    "tombstone": "deleted up to here",
}


@as_command(
    "holdfast show 3f2",
    "holdfast show nightly --at 7 --full",
    "holdfast show nightly --json | jq .state",
)
@run_argument()
@option("--at WHERE", "The state at a seq, RUN@SEQ or after a step.", to="where")
@option("--full", "All of the timeline and of the state.")
def command(session: Session, run: str, where: str | None, full: bool) -> None:
    """Show RUN: its timeline, its state and its child runs.

    Its status is shown as by `holdfast runs`. RUN may also be a thread: its newest run is shown.
    Of a thread of LangGraph's, the messages and the values of its channels are shown.
    Entries that are damaged are marked; in a run of more than 5,000 entries, only those that are
    missing or can't be read, as long as its state can be loaded: `holdfast verify` finds the rest.
    """
    with session.opened() as cp:
        info = find_run(cp, run, threads=True)
        moments = cp.timeline(info.run_id)
        place = None if where is None else find_place(cp, info.run_id, where)
        damage = ""
        is_thread = info.flow == threads.FLOW
        if is_thread:
            place = threads.at(cp, place) if place else threads.newest(cp, info.run_id)
        try:
            checkpoint = cp.load(checkpoint_id=place) if place else cp.load(info.run_id)
        except CheckpointCorruptedError as error:
            checkpoint, damage = None, str(error)
        if damage or len(moments) <= _PROVED:
            moments = _marked(moments, cp.verify(info.run_id).problems)
        if checkpoint is None and place is not None and not damage:
            raise CheckpointNotFoundError(info.run_id, place)
        children = cp.children(info.run_id)
        tree: dict[str, list[RunInfo]] = {}
        for child in children:
            parent = parent_run(cp.core, child.run_id) or info.run_id
            tree.setdefault(parent, []).append(child)
        word, facts = doing(cp, info)
        channels = None if checkpoint is None else threads.channels_of(checkpoint)
        asked: list[Any] = []
        if checkpoint is not None and channels is not None:
            asked = threads.interrupts(cp, checkpoint)
        if is_thread:
            moments = threads.with_words(cp, info.run_id, moments)
    state: Any = channels
    if checkpoint is not None and channels is None:
        state = readable.to_json(checkpoint.state)
    document = {
        "run": info._asdict() | facts,
        "timeline": [moment._asdict() for moment in moments],
        "children": [child._asdict() for child in children],
        "checkpoint_id": None if checkpoint is None else checkpoint.checkpoint_id,
        "state": state,
        "damage": damage or None,
    }
    if channels is not None:
        document["interrupts"] = asked

    def draw() -> None:
        _draw_summary(info, word, facts.get("due"), moments)
        if facts.get("orphaned"):
            _show.say(f"{nobody(facts['holder'])}; continue it with: holdfast recover", "red")
        elif facts.get("answered"):
            _show.say("it was answered; continue it with: holdfast resume, or recover", "yellow")
        _show.say()
        _draw_timeline(moments if full else moments[-_MOMENTS:], len(moments))
        if children:
            _show.say()
            _draw_tree(info, tree)
        if checkpoint is not None:
            _show.say()
            _show.say(f"state at {checkpoint.checkpoint_id}", "bold")
            if channels is None:
                _show.print_pretty(state, most=None if full else _LINES)
            else:
                _threads.draw_channels(channels, full=full)
            for question in asked:
                _show.say(f"waits for an answer to: {_show.to_json(question)}", "yellow")

    session.show(document, draw)
    if damage:
        raise FailedError(_show.clean(damage))


def _marked(moments: Sequence[Moment], problems: Sequence[Problem]) -> list[Moment]:
    """The moments, with what is wrong with those that are damaged."""
    wrong = {problem.seq: f"damaged: {problem.reason}" for problem in problems}
    return [m._replace(note=wrong.get(m.seq, m.note)) for m in moments]


def _draw_summary(
    info: RunInfo, word: str, due: datetime | None, moments: Sequence[Moment]
) -> None:
    line = _show.cell(info.run_id, "bold").add("  ").add(_show.word(word))
    if due is not None:
        line.add(f", {'continues' if due > datetime.now(UTC) else 'due since'} {words.moment(due)}")
    for name, value in (("flow", info.flow), ("thread", info.thread_id), ("owner", info.owner)):
        if value is not None:
            line.add(f"  {name} ", "dim").add(_show.clean(value))
    _show.show(line)
    took = (moments[-1].at - moments[0].at).total_seconds()
    worked = sum(moment.took or 0.0 for moment in moments)
    _show.say(
        f"{_beginning(moments[0])} {words.moment(moments[0].at)}, {words.span(took)} until its last entry, "
        f"{words.span(worked)} in steps"
    )


def _draw_timeline(moments: Sequence[Moment], count: int) -> None:
    if len(moments) < count:
        _show.say(f"… {count - len(moments):,} earlier; see them with --full", "dim")
    longest = max((moment.took or 0.0 for moment in moments), default=0.0)
    rows: list[tuple[Any, ...]] = []
    for moment in moments:
        if moment.waited >= _GAP and rows:
            pause = _show.cell(f"· nothing for {words.span(moment.waited)}", "dim")
            rows.append(("", "", pause, "", "", ""))
        rows.append(_row(moment, longest))
    _show.table(("SEQ", "TIME", "WHAT", "TOOK", "", "NOTE"), rows, right=("SEQ", "TOOK"))


def _row(moment: Moment, longest: float) -> tuple[Any, ...]:
    took = "" if moment.took is None else words.span(moment.took)
    bar = (
        "" if not moment.took or not longest else "━" * max(1, round(_BAR * moment.took / longest))
    )
    note = "" if moment.kind == "request" else with_until(moment)
    if not moment.current:
        note = f"left behind {note}".strip()
    return (
        moment.seq,
        f"{moment.at.astimezone():%H:%M:%S}",
        what(moment),
        took,
        _show.cell(bar, "cyan"),
        _show.cell(note, "" if moment.current else "dim"),
    )


def with_until(moment: Moment) -> str:
    """What there is to say about a moment, with the time when it is to continue."""
    if moment.until is None or moment.until - moment.at < _SOON:
        return moment.note
    link = {"fail": "again", "open": "to begin"}.get(moment.kind, "until")
    when = f"{link} {words.moment(moment.until)}"
    return f"{moment.note}, {when}" if moment.note else when


def _beginning(first: Moment) -> str:
    return "submitted" if first.status == "submitted" else "began"


def what(moment: Moment) -> Text:
    """What happened, in a few words."""
    if moment.status == "deleted":
        return _show.cell(f"({moment.kind}, deleted)", "dim")
    words = [_WORDS.get(moment.kind, ""), moment.step or ""]
    if moment.kind == "request":
        words[1] = moment.note
    elif moment.kind == "child":
        words[1] = moment.child or ""
    elif moment.kind == "open":
        words[0] = _beginning(moment)
    style = "" if moment.current else "dim strike"
    if moment.kind == "fail":
        style = "red" if moment.status == "failed" else "yellow"  # else the run went on
    elif moment.kind == "complete":
        style, words = "green", words[:1]
    return _show.cell(" ".join(filter(None, words)) or "saved", style)


def _draw_tree(info: RunInfo, tree: Mapping[str, Sequence[RunInfo]]) -> None:
    """The runs that are steps of this one, and those that are steps of theirs."""

    def draw(parent: str, indent: str) -> None:
        below = tree.get(parent, ())
        for child in below:
            last = child is below[-1]
            line = _show.cell(f"{indent}{'└── ' if last else '├── '}", "dim")
            name = _show.cell(child.run_id.removeprefix(f"{parent}{OF_CHILD}"))
            _show.show(line.add(name).add("  ").add(_show.word(child.status)))
            draw(child.run_id, indent + ("    " if last else "│   "))

    _show.say("child runs", "bold")
    draw(info.run_id, "")
