"""One step of a run on the terminal."""

from typing import Final

from holdfast.cli import _show
from holdfast.views import words
from holdfast.views.step_detail import Detail, Tried

_LINES: Final = 20
_COLORS: Final = {"completed": "green", "failed": "red", "cut off": "magenta"}
_LOG: Final = 10  # outputs that are shown


def draw_step(detail: Detail, *, full: bool) -> None:
    """Its attempts with their errors, its output and its result."""
    one = detail.execution
    line = _show.cell(one.name, "bold").add("  ").add(one.status, _COLORS.get(one.status, "yellow"))
    if one.took is not None:
        line.add(f"  took {words.span(one.took)}", "dim")
    if one.seq is not None:
        line.add(f"  @{one.seq}", "dim")
    _show.show(line)
    if not one.current:
        _show.say("a rollback left it behind: it is no part of the state", "dim")
    if one.note:
        _show.say(_show.clean(one.note), "dim")
    if one.child is not None:
        _show.say(f"child run {_show.clean(one.child)}")
    if len(detail.attempts) > 1 or any(each.outcome == "failed" for each in detail.attempts):
        for attempt in detail.attempts:
            _draw_attempt(attempt)
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
        _show.print_pretty(detail.value, most=None if full else _LINES)
    if len(detail.rounds) > 1:
        text = f"{words.plural(len(detail.rounds), 'execution')} of {one.group}; --at shows one"
        _show.say(_show.clean(text), "dim")


def _draw_attempt(attempt: Tried) -> None:
    took = "" if attempt.seconds is None else f" after {words.span(attempt.seconds)}"
    told = f"{attempt.outcome}{took}"
    if attempt.error_type:
        told += f": {attempt.error_type}: {attempt.message}"
    elif attempt.outcome == "cut off":
        told = "cut off: its process died"
    line = f"attempt {attempt.number} {told}"
    _show.say(_show.clean(line), _COLORS.get(attempt.outcome, ""))
    for text in attempt.trace.splitlines():
        _show.say(f"  {_show.clean(text)}", "dim")
