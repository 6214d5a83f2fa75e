"""What can be done with a run as it is: the buttons of its page, each with its command."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import quote

from holdfast.checkpoint import RunInfo
from holdfast.engine.people import inbox
from holdfast.engine.people.questions import Question
from holdfast.engine.resume.activity import is_for_workers
from holdfast.errors import CheckpointCorruptedError, HoldfastError, KeyMissingError
from holdfast.model import OF_CHILD, Status
from holdfast.views import cancelling, continuing, forms, threads
from holdfast.views.asking import awaited, otherwise
from holdfast.views.forms import Field
from holdfast.views.pauses import pause_of
from holdfast.views.rescue import Advice, rescue
from holdfast.views.runs import ANSWERED, doing
from holdfast.web import actions
from holdfast.web.pages.known_steps import integrity_of
from holdfast.web.rendering import action_path, with_query
from holdfast.web.site import Site

_WAITING: Final = 20  # questions of a run that its page shows
_DAMAGED: Final = 5  # entries


class Offer(NamedTuple):
    """Something that can be done."""

    action: str
    label: str
    href: str  # of the form that asks for it
    command: str  # that does the same
    primary: bool = False


class Offered(NamedTuple):
    """What the page of a run offers."""

    buttons: list[Offer]
    more: list[Offer]  # what is seldom needed
    asked: list[Asked]
    note: str  # about who continues it, if that is to be said
    command: str | None  # that helps with it
    source: str | None  # what the record says the run was started as
    damage: Damage | None


class Damage(NamedTuple):
    """What is damaged in a run, and what to do about it."""

    problems: list[str]  # the first ones
    more: int
    advice: Advice


class Asked(NamedTuple):
    """An open question, and how it is answered."""

    question: Question
    href: str
    command: str
    overdue: bool
    otherwise: str  # what becomes of it if nobody answers in time
    form: Field
    yes_no: tuple[str, str] | None  # what two buttons say, if they can answer it


def answer_path(run_id: str, key: str) -> str:
    """Where a question is answered."""
    return f"/runs/{quote(run_id, safe='')}/answer?question={quote(key, safe='')}"


def command_of(site: Site, run_id: str, action: str, at: str | None = None) -> str:
    """The command that does the same."""
    commands = site.commands
    match action:
        case "resume" | "retry":
            return commands.line("resume", run_id, "--submit")
        case "fork":
            return commands.line("fork", run_id, *(() if at is None else (f"--at={at}",)))
        case "rollback":
            before = site.cp.list_checkpoints(run_id, limit=2)[-1:] if at is None else []
            to = at or str(before[0].seq if before else 0)
            return commands.line("rollback", run_id, places=[to])
        case "deadline":
            root = site.cp.run(run_id.partition(OF_CHILD)[0])
            given = None if root is None else site.settings.sources.get(root.flow or "")
            return commands.line("resume", run_id, *continuing.flow_options(given))
        case "prune":
            return commands.line("prune", run_id, "--keep-latest=10", "--dry-run")
    return commands.line(action, run_id)


def offered(site: Site, info: RunInfo, word: str, at: int | None = None) -> Offered:
    """What can be done with a run, given its status as lists show it.

    `at` is the checkpoint that is shown: it is the one to fork.
    """
    asked = _asked(site, info)
    buttons = [_offer(site, info, name, at) for name in _main(site, info, word, bool(asked))]
    more = [_offer(site, info, name) for name in _rest(info, word)]
    note, command = _note(site, info, word)
    source = None if command is None else continuing.source_of(site.cp, info.run_id)
    return Offered(buttons, more, asked, note, command, source, _damage(site, info, word))


def _damage(site: Site, info: RunInfo, word: str) -> Damage | None:
    """What is damaged in a run, as it was found in the last minute."""
    found = integrity_of(site, info, word)
    if found is None or found.ok:
        return None
    try:
        advice = rescue(site.commands, site.cp, found)
    except HoldfastError:  # the page says why it can't be read
        return None
    problems = [str(problem) for problem in found.problems]
    return Damage(problems[:_DAMAGED], len(problems[_DAMAGED:]), advice)


def _main(site: Site, info: RunInfo, word: str, asks: bool) -> list[str]:
    """The actions on the page, by name, in the order shown."""
    names = ["fork"]
    if not _is_of_flow(info):
        return names
    if word in ("running", "submitted", "paused", "orphaned", "answered", "failed", "open"):
        names.append("cancel")
    if word in ("running", "submitted"):
        names.append("pause")
    root = OF_CHILD not in info.run_id
    if word == "failed" and root:
        names.append("retry")
    elif word in ("orphaned", "answered", "open") and root:
        names.append("resume")
    elif word == "paused" and root and not asks:
        pause = pause_of(site.cp, info)
        if pause is not None and pause.why == "cancel":
            names[-1] = "resume"  # which undoes its steps
        elif pause is not None and pause.why in ("person", "timeout", "unknown"):
            names.append("resume")
    if names[-1] in ("resume", "retry") and actions.continues_by_itself(site, info.run_id):
        names.pop()  # it would change nothing
    return names


def _rest(info: RunInfo, word: str) -> list[str]:
    names = [] if word == "running" else ["rollback"]
    return names if info.flow == threads.FLOW else [*names, "prune"]


def _is_of_flow(info: RunInfo) -> bool:
    return info.flow is not None and info.flow != threads.FLOW


_LABELS: Final = {
    "resume": "Resume",
    "retry": "Retry",
    "pause": "Pause",
    "cancel": "Cancel",
    "fork": "Fork",
    "rollback": "Roll back",
    "prune": "Prune",
}


def _offer(site: Site, info: RunInfo, name: str, at: int | None = None) -> Offer:
    place = str(at) if at is not None and name == "fork" else None
    return Offer(
        name,
        _LABELS[name],
        with_query(action_path(info.run_id, name), {"at": place}),
        command_of(site, info.run_id, name, place),
        primary=name in ("resume", "retry"),
    )


def _asked(site: Site, info: RunInfo) -> list[Asked]:
    """What a run asks, or its child runs that it waits for."""
    asked: list[Asked] = []
    for each in (info, *awaited(site.cp, info)):
        if not each.questions or each.status in (Status.COMPLETED, Status.CANCELLED):
            continue
        if cancelling.is_to_cancel(site.cp.core, each.run_id):
            continue
        with suppress(HoldfastError):  # the journal shows what is wrong with it
            found = inbox.questions(site.cp.core, each.run_id)
            asked += [shown(site, question, found) for question in found[:_WAITING]]
    return asked[:_WAITING]


def shown(site: Site, question: Question, beside: list[Question] | None = None) -> Asked:
    """A question as pages show it, among those that the run asks."""
    others = [one for one in beside or [] if one.key != question.key]
    form = forms.form_of(question.schema)
    now = site.cp.core.journals.clock.now() / 1e6
    overdue = question.deadline is not None and question.deadline.timestamp() <= now
    return Asked(
        question,
        answer_path(question.run_id, question.key),
        site.commands.answer(question.run_id, [question, *others], form=True),
        overdue,
        otherwise(question),
        form,
        _yes_no(forms.decision(form)),
    )


def _yes_no(decision: Field | None) -> tuple[str, str] | None:
    if decision is None:
        return None
    approves = decision.name.rpartition(".")[2] in ("approve", "approved")
    return ("Approve", "Reject") if approves else ("Yes", "No")


def _note(site: Site, info: RunInfo, word: str) -> tuple[str, str | None]:
    """Who continues a run that waits to be continued, and what helps if nobody does."""
    executor = site.executor
    problem = None if executor is None else executor.problem(info.run_id)
    if problem is not None:
        return f"It could not be continued here: {problem}", None
    if _is_of_flow(info) and cancelling.is_to_cancel(site.cp.core, info.run_id):
        return _note_to_cancel(site, info)
    waits = word in ("orphaned", "answered", "submitted")
    if not waits and word in ("failed", "paused", "open") and _is_of_flow(info):
        waits = actions.is_asked_to_resume(site, info.run_id) or any(
            doing(site.cp, child)[0] == ANSWERED for child in awaited(site.cp, info)
        )
    if not waits or not _is_of_flow(info):
        return "", None
    then = actions.then_of(site, info.run_id)
    if then["by"] == "nobody":
        return unattended(site, info.run_id, then["command"])
    if word == "submitted":
        return "", None
    if then["by"] == "here":
        return "It waits: resume it here, or let a worker continue it.", None
    return "A worker continues it by itself in a moment.", None


def _note_to_cancel(site: Site, info: RunInfo) -> tuple[str, str | None]:
    """Who undoes the steps of a run that was asked to cancel."""
    then = actions.then_of(site, info.run_id)
    if then["by"] == "worker":
        return "It was asked to cancel. A worker undoes its steps in a moment.", None
    if then["by"] == "here":
        return (
            "It was asked to cancel. Its steps are undone when it is resumed, here or by a worker.",
            None,
        )
    told, command = unattended(site, info.run_id, then["command"])
    return f"It was asked to cancel, and its steps are to be undone. {told}", command


def unattended(site: Site, run_id: str, worker: str, *, asks: bool = False) -> tuple[str, str]:
    """How to continue a run that nobody executes, or that `asks` before: as `holdfast show` says it.

    `worker` is the command that starts one.
    """
    root = run_id.partition(OF_CHILD)[0]
    with suppress(CheckpointCorruptedError, KeyMissingError):  # nobody can tell
        if is_for_workers(site.cp.core, root):
            return "It waits for a worker, and none of its flow is alive. Start one with", worker
    again = continuing.or_again(continuing.source_of(site.cp, root))
    lead = "Nobody executes it, and no worker of its flow is alive: "
    if asks:
        lead = "No worker of its flow is alive: when it is answered, "
    return f"{lead}{again}continue it with", command_of(site, root, "deadline")
