"""One step of a run on the terminal."""

import re
from collections.abc import Sequence
from typing import Final

from holdfast.cli import _show
from holdfast.cli._outcome import draw_trace
from holdfast.views import words
from holdfast.views.outcome import lines_of
from holdfast.views.step_detail import Detail, Tried
from holdfast.views.steps import Execution

_LINES: Final = 20
_COLORS: Final = {"completed": "green", "failed": "red", "cut off": "magenta"}
_ROUNDS: Final = 20
_LOG: Final = 10  # outputs that are shown
_NUMBERS: Final = re.compile("([0-9]+)")


def draw_step(detail: Detail, rounds: Sequence[Execution], *, full: bool) -> None:
    """Its attempts with their errors, its output and its result, and these of its rounds."""
    one = detail.execution
    line = _show.cell(one.name, "bold").add("  ").add(one.status, _COLORS.get(one.status, "yellow"))
    if one.took is not None:
        line.add(f"  took {words.span(one.took)}", "dim")
    if one.seq is not None:
        line.add(f"  @{one.seq}", "dim")
    _show.show(line)
    if not one.current and one.kind != "question":  # of which the note says it
        _show.say("a rollback left it behind: it is no part of the state", "dim")
    if one.note:
        _show.say(_show.clean(one.note), "dim")
    if one.child is not None:
        _show.say(f"child run {_show.clean(one.child)}")
    if len(detail.attempts) > 1 or any(each.outcome == "failed" for each in detail.attempts):
        _draw_attempts(detail.attempts, full=full)
    if detail.output_count:
        shown = detail.outputs if full else detail.outputs[-_LOG:]
        _show.say(f"output ({len(shown):,} of {detail.output_count:,})", "bold")
        for output in shown:
            _show.say(f"{output.at.astimezone():%H:%M:%S}  {_show.to_json(output.value)}")
    for claim in detail.claims:
        _show.say(_show.clean(f"claims {claim.type}: {claim.description}"))
    if detail.has_value:
        titles = {"checkpoint": "state after it", "question": "question"}
        _show.say(titles.get(detail.kind, "result"), "bold")
        _show.print_laid_out(detail.value, most=None if full else _LINES)
    if detail.answer is not None:
        _show.say("answer", "bold")
        _show.print_laid_out(detail.answer.value, most=None if full else _LINES)
    if len(rounds) > 1:
        _draw_rounds(rounds, full=full)


def _draw_rounds(given: Sequence[Execution], *, full: bool) -> None:
    """Each time that the step was executed, in a loop or for an item; of many, problems first."""
    rounds = sorted(given, key=lambda one: _by_number(one.name))
    if len(rounds) > _ROUNDS and not full:
        rounds.sort(key=lambda one: not one.is_problem)
    shown = rounds if full else rounds[:_ROUNDS]
    _show.say()
    _show.table(
        ("EXECUTION", "STATUS", "TOOK", "SEQ"),
        [
            (
                one.name,
                _show.cell(one.status, _COLORS.get(one.status, "yellow")),
                "" if one.took is None else words.span(one.took),
                "" if one.seq is None else one.seq,
            )
            for one in shown
        ],
        right=("TOOK", "SEQ"),
    )
    more = f"; {len(rounds) - len(shown):,} more with --full" if len(shown) < len(rounds) else ""
    _show.say(f"see one of them with --at SEQ{more}", "dim")


def _by_number(name: str) -> list[tuple[int, str]]:
    """For sorting: item[2] comes before item[10]."""
    return [(len(part) if part.isdigit() else 0, part) for part in _NUMBERS.split(name)]


def _draw_attempts(attempts: Sequence[Tried], *, full: bool) -> None:
    """Each attempt; a traceback that several have in common is shown once, below the last."""
    for number, attempt in enumerate(attempts):
        _draw_attempt(attempt)
        rest = attempts[number + 1 :]
        if not any(attempt.trace == later.trace for later in rest):
            told = f"{attempt.error_type}: {attempt.message}"
            draw_trace(lines_of(attempt.trace, told), full=full)


def _draw_attempt(attempt: Tried) -> None:
    took = "" if attempt.seconds is None else f" after {words.span(attempt.seconds)}"
    told = f"{attempt.outcome}{took}"
    if attempt.error_type:
        told += f": {attempt.error_type}: {attempt.message}"
    elif attempt.outcome == "cut off":
        told = "cut off: its process died"
    line = f"attempt {attempt.number} {told}"
    _show.say(_show.clean(line), _COLORS.get(attempt.outcome, ""))
