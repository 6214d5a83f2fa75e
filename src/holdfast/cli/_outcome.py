"""What a run was given, what came of it and what it claims, on the terminal."""

from typing import Any, Final

from holdfast.cli import _show
from holdfast.views import words
from holdfast.views.claims import Claims, ShownClaim, said
from holdfast.views.errors import as_options
from holdfast.views.outcome import Failure, Outcome
from holdfast.views.rescue import Advice

_ONE_LINE: Final = 68  # characters of a value that is shown behind its name
_LINES: Final = 20
_TRACE: Final = 24  # lines of a traceback: the last ones
_CLAIMS: Final = 8
_MARKS: Final = {"verified": "✓", "failed": "✗", "pending": "·"}


def draw_value(title: str, value: Any, *, full: bool) -> None:
    """A value under its name, on one line if it is short; nothing where there is none."""
    if value is None:
        return
    text = _show.on_one_line(value, _ONE_LINE)
    if text is not None:
        _show.show(_show.cell(f"{title}  ", "bold").add(_show.clean(text)))
        return
    _show.say(title, "bold")
    _show.print_laid_out(value, most=None if full else _LINES)


def draw_outcome(told: Outcome, *, full: bool) -> None:
    """The result, or what ended the run, with the user's own traceback."""
    if told.failure is not None:
        _show.say()
        _draw_failure(told.failure, full=full)
    elif told.result is not None:
        _show.say()
        draw_value("result", told.result, full=full)


def _draw_failure(failure: Failure, *, full: bool) -> None:
    line = _show.cell(f"failed {failure.where}: ", "bold red")
    _show.show(line.add(_show.clean(str(failure)), "red"))
    draw_trace(failure.lines(), full=full)


def draw_trace(lines: list[str], *, full: bool) -> None:
    """The lines of a traceback, or the last of them."""
    if len(lines) > _TRACE and not full:
        _show.say(f"  … {len(lines) - _TRACE:,} lines before; see them with --full", "dim")
        lines = lines[-_TRACE:]
    for text in lines:
        _show.say(text, "dim")


def draw_advice(advice: Advice | None, *, err: bool = False) -> None:
    """What to do next: why, the command on a line that can be copied, and what to know about it."""
    if advice is None:
        return
    _show.say(advice.why, "yellow", err=err)
    if advice.command:
        _show.say(f"  {advice.command}", err=err)
    if advice.note:
        _show.say(advice.note, "dim", err=err)


def say_then(done: str, then: Advice | None) -> None:
    """What was done, and how to go on."""
    if then is None:
        _show.say(done)
    elif then.note:  # which needs a line of its own
        _show.say(f"{done}; {then.why}")
        _show.say(f"  {then.command}")
        _show.say(then.note, "dim")
    else:
        _show.say(f"{done}; {then.why} {then.command}")


def draw_claims(claimed: Claims, *, full: bool) -> None:
    """What the run claims about the world, and what was found last: false claims first."""
    if not claimed.in_force:
        return
    _show.say()
    counts = ", ".join(f"{n:,} {said(status)}" for status, n in claimed.counts.items())
    _show.show(_show.cell("evidence  ", "bold").add(counts))
    shown = claimed.in_force if full else claimed.in_force[:_CLAIMS]
    for one in shown:
        mark = _show.cell(f"  {_MARKS.get(one.status, '?')} ", _show.style_of(one.status))
        _show.explain(mark.add(_show.clean(_claim(one))), indent=4)
    if len(shown) < len(claimed.in_force) + claimed.more:
        more = len(claimed.in_force) + claimed.more - len(shown)
        _show.say(f"  … {more:,} more; see them with --full", "dim")


def _claim(one: ShownClaim) -> str:
    step = f"{one.step}: " if one.step else ""
    if not one.history:
        return f"{step}{one.description}"
    found = one.history[0]
    told = found.reason and one.status != "verified"
    reason = f", {as_options(str(found.reason))}" if told else ""
    return f"{step}{one.description} (checked {words.ago(found.at)}{reason})"
