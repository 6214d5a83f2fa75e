"""What is shown beside the timeline about one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from holdfast.codec import readable
from holdfast.codec.redaction import redacted
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.model import CARRY_STATE, Kind
from holdfast.views import states, threads
from holdfast.views.claims import ShownClaim, claims
from holdfast.views.differences import Differences
from holdfast.views.errors import NotFoundError
from holdfast.views.legible import LARGEST, Text, legible, text_of
from holdfast.views.step_detail import Detail, Tried, detail_of
from holdfast.views.step_pending import UNDER_WAY
from holdfast.views.steps import Execution
from holdfast.web.downloads import attachment
from holdfast.web.pages.known_steps import shown_steps
from holdfast.web.pages.run_rows import CHIPS
from holdfast.web.pages.shown_run import ShownRun
from holdfast.web.rendering import run_path
from holdfast.web.site import Site

_ROUNDS: Final = 12  # of a step that are listed
_LOG: Final = 50  # lines of output that are shown


@dataclass(frozen=True, slots=True)
class Drawer:
    """A step, for its template."""

    name: str
    status: str
    chip: str
    one: Execution
    detail: Detail
    attempts: Sequence[Tried]
    value: Text | None
    value_title: str
    value_path: str
    download_path: str
    change: Differences | None
    change_path: str  # to the state, where the change is shown whole
    log: Sequence[tuple[Any, str]]
    claims: Sequence[ShownClaim]
    question: dict[str, Any] | None
    answer: Text | None
    rounds: Sequence[tuple[str, str, Execution]]  # path, chip
    command: str


def drawer_of(site: Site, run: ShownRun) -> Drawer | None:
    """The step that is selected; None if none is."""
    step, at = run.asked("step"), run.number("at")
    if step is None:
        return None
    detail = detail_of(site.cp, run.info, shown_steps(site, *run[1:]).steps, step, at)
    one = detail.execution
    question = detail.value if one.kind == "question" and isinstance(detail.value, dict) else None
    value = None
    if detail.has_value and question is None:
        value = text_of(legible({one.key: detail.value})[one.key])
    return Drawer(
        one.name,
        one.status,
        CHIPS.get(one.status, "can"),
        one,
        detail,
        [_without_passwords(each) for each in detail.attempts],
        value,
        "State after it" if detail.kind == Kind.CHECKPOINT else "Result",
        run_path(run.run_id, at=one.seq, step=one.key).replace("?", "/result?", 1),
        run_path(run.run_id, at=one.seq, step=one.key).replace("?", "/result.json?", 1),
        _change(site, run, detail),
        run_path(run.run_id, tab="state", at=one.seq),
        [(line.at, text_of(legible(line.value)).text) for line in detail.outputs[-_LOG:]],
        [claim for claim in _claims(site, run) if claim.seq == one.seq] if detail.claims else [],
        question,
        None if detail.answer is None else text_of(legible(detail.answer.value)),
        _rounds(run, detail),
        _command(site, run, detail),
    )


def value_page(site: Site, run: ShownRun) -> Text:
    """All of a result, up to what can be shown."""
    found = _value(site, run)
    return text_of(legible(found), most=LARGEST)


def download(site: Site, run: ShownRun) -> Response:
    """A result as a file, without what looks like a secret."""
    return attachment(redacted(_value(site, run)), f"{run.run_id}-{run.number('at')}")


def _without_passwords(attempt: Tried) -> Tried:
    return attempt._replace(
        error_type=redacted(attempt.error_type),
        message=redacted(attempt.message),
        trace=redacted(attempt.trace),
    )


def _value(site: Site, run: ShownRun) -> Any:
    """The value of an entry, in JSON's form, with what its name hides."""
    at, step = run.number("at"), run.asked("step") or ""
    entry = None if at is None else site.cp.core.journals.entry(run.run_id, at)
    if at is None or entry is None or entry.kind not in (*CARRY_STATE, Kind.OUTPUT):
        raise HTTPException(404, "There is no result here.")
    found = readable.to_json(site.cp.core.journals.value(run.run_id, at, as_data=True))
    return redacted({step: found})[step]


def _change(site: Site, run: ShownRun, detail: Detail) -> Differences | None:
    """What the step changed in the state, if that is small enough to look at here."""
    if detail.kind != Kind.CHECKPOINT or detail.execution.seq is None:
        return None
    try:
        chosen = states.select(site.cp, run.info, detail.execution.seq)
        if chosen.entry is None or chosen.is_large:
            return None
        return states.change(site.cp, run.info, chosen)
    except (CheckpointCorruptedError, CheckpointNotFoundError, NotFoundError):
        return None


def _claims(site: Site, run: ShownRun) -> Sequence[ShownClaim]:
    found = claims(site.cp, run.run_id)
    return [*found.in_force, *found.replaced]


def _rounds(run: ShownRun, detail: Detail) -> list[tuple[str, str, Execution]]:
    """Other executions of the same step: first those that somebody should look at."""
    if len(detail.rounds) < 2:
        return []
    found = sorted(detail.rounds, key=lambda one: not one.is_problem)[:_ROUNDS]
    return [
        (
            run_path(run.run_id, tab="timeline", step=one.key, at=one.seq),
            CHIPS.get(one.status, "can"),
            one,
        )
        for one in found
    ]


def _command(site: Site, run: ShownRun, detail: Detail) -> str:
    one = detail.execution
    commands = site.commands
    if one.kind == "damage":
        return commands.line("verify", run.run_id)
    if one.key == UNDER_WAY and one.seq is None:  # nothing says which step it is
        return commands.line("show", run.run_id)
    is_key = one.key and run.info.flow != threads.FLOW
    options = [f"--step={one.key if is_key else one.name}"]
    if one.seq is not None and len(detail.rounds) > 1:
        options.append(f"--at={one.seq}")
    return commands.line("show", run.run_id, *options)
