"""Forms for what can be done with a run, as pages or in a dialog, and doing it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.checkpoint import Checkpoint, RunInfo
from holdfast.errors import CheckpointNotFoundError, HoldfastError
from holdfast.model import OF_CHILD, Kind
from holdfast.operations.forking import SAME
from holdfast.views import continuing, threads
from holdfast.views.pruning import why_kept
from holdfast.views.runs import find_place, of_id
from holdfast.web import actions
from holdfast.web.editing import editable, edited
from holdfast.web.pages.offers import command_of
from holdfast.web.rendering import page, run_path
from holdfast.web.sent import Sent, done, posted
from holdfast.web.site import Site
from holdfast.web.statuses import InvalidFieldError, status_of

_LISTED: Final = 100  # checkpoints to go back to
_KEEP: Final = 10
_LETTERS: Final = "23456789abcdefghjkmnpqrstvwxyz"

Fields = Mapping[str, str]


def form(request: Request) -> Response:
    """The form of an action; where nothing may be changed, its command."""
    site: Site = request.app.state.site
    action = _action(request)
    with site.noting_outages():
        return _page(request, site, action, dict(request.query_params))


def act(sent: Sent) -> Response:
    """Do it."""
    action = _action(sent.request)
    with sent.site.noting_outages():
        try:
            return _DOING[action](sent, sent.who())
        except HoldfastError as error:
            status = status_of(error)
            if status in (404, 503):
                raise
            field = error.field if isinstance(error, InvalidFieldError) else ""
            told = error.reason if isinstance(error, InvalidFieldError) else str(error)
            return _page(
                sent.request, sent.site, action, sent.fields, errors={field: told}, status=status
            )


def _action(request: Request) -> str:
    action: str = request.path_params["action"]
    if action not in _DOING:
        raise HTTPException(404)
    return action


def _page(
    request: Request,
    site: Site,
    action: str,
    given: Fields,
    *,
    errors: Fields | None = None,
    status: int = 200,
) -> Response:
    info = of_id(site.cp, request.path_params["run_id"])
    context = {
        "info": info,
        "action": action,
        "given": given,
        "errors": errors or {},
        "command": command_of(site, info.run_id, action, given.get("at") or None),
        "back": run_path(info.run_id),
        "then": actions.then_of(site, info.run_id),
        "started_as": continuing.source_of(site.cp, info.run_id),
        "by_itself": action in ("resume", "retry")
        and actions.continues_by_itself(site, info.run_id),
        "is_thread": info.flow == threads.FLOW,
    }
    more = _SHOWING.get(action)
    if more is not None:
        context |= more(site, info, given)
    name = "resume" if action == "retry" else action
    return page(request, f"dialogs/{name}.html", status=status, **context)


# --- what each form shows


def _show_fork(site: Site, info: RunInfo, given: Fields) -> dict[str, Any]:
    source = _source(site, info, given.get("at") or None)
    state = None if info.flow == threads.FLOW else editable(source)
    if state is not None and "state" in given:
        state = state._replace(text=given["state"])
    begin = info.run_id.replace(OF_CHILD, "/")[:80].rstrip("/")  # only child runs have OF_CHILD
    name = given.get("new_id") or f"{begin}-{_letters(5)}"
    place = f"--at={source.seq}"
    return {
        "source": source,
        "state": state,
        "new_id": name,
        "has_results": source.entry.kind == Kind.RESULT,
        "editing": site.commands.line("fork", info.run_id, place, "--edit"),
    }


def _show_rollback(site: Site, info: RunInfo, given: Fields) -> dict[str, Any]:
    found = site.cp.list_checkpoints(info.run_id, limit=_LISTED + 1)
    wanted = given.get("at", "")
    return {
        "checkpoints": found[:_LISTED],
        "more": len(found) > _LISTED,
        "wanted": wanted.rpartition("@")[2],
    }


def _show_prune(site: Site, info: RunInfo, given: Fields) -> dict[str, Any]:
    keep, days = _number(given, "keep_latest"), _number(given, "older_than")
    if keep is None and days is None:
        keep = _KEEP
    would = _prune(site, None, info.run_id, keep, days)
    refused = would["refused"].get(info.run_id)
    return {
        "keep": keep,
        "days": days,
        "would": would,
        "refused": None if refused is None else why_kept(refused),
    }


# --- doing it


def _resume(sent: Sent, who: str) -> Response:
    told = actions.resume(sent.site, who, sent.run_id)
    words = {
        "here": "It continues here.",
        "worker": "A worker continues it.",
        "nobody": "It waits for a worker: none of its flow is alive.",
    }
    return done(sent.request, run_path(sent.run_id), words[told["then"]["by"]])


def _pause(sent: Sent, who: str) -> Response:
    told = actions.pause(sent.site, who, sent.run_id, sent.field("reason"))
    running = told["status"] == "running"
    text = "It stops after its running steps." if running else "It is paused."
    return done(sent.request, run_path(sent.run_id), text)


def _cancel(sent: Sent, who: str) -> Response:
    told = actions.cancel(sent.site, who, sent.run_id, sent.field("reason"))
    over = told["status"] == "cancelled"
    text = "It is cancelled." if over else "It was asked to cancel."
    return done(sent.request, run_path(sent.run_id), text)


def _deadline(sent: Sent, who: str) -> Response:
    told = actions.apply_deadline(sent.site, who, sent.run_id)
    to = "/inbox" if sent.field("back") == "inbox" else run_path(sent.run_id)
    text = "The default was applied." if told["new"] else "Nothing is overdue any more."
    return done(sent.request, to, text)


def _fork(sent: Sent, who: str) -> Response:
    site, at = sent.site, sent.field("at") or None
    new_id = sent.field("new_id") or None
    state: object = SAME
    if "state" in sent.fields:
        state = edited(_source(site, of_id(site.cp, sent.run_id), at), sent.fields["state"])
    told = actions.fork(site, who, sent.run_id, new_id=new_id, at=at, state=state)
    if sent.field("continue") and told["new"]:
        actions.resume(site, who, told["run_id"])
    text = f"Forked as {told['run_id']}." if told["new"] else "That fork was made before."
    return done(sent.request, run_path(told["run_id"]), text)


def _rollback(sent: Sent, who: str) -> Response:
    at = sent.field("at")
    if not at:
        raise InvalidFieldError("at", "choose a checkpoint")
    told = actions.rollback(sent.site, who, sent.run_id, at)
    return done(sent.request, run_path(sent.run_id), f"It is at {told['checkpoint_id']} now.")


def _prune_run(sent: Sent, who: str) -> Response:
    keep, days = _number(sent.fields, "keep_latest"), _number(sent.fields, "older_than")
    preview = sent.field("preview")
    if not preview:
        raise InvalidFieldError("preview", "look first at what would be deleted")
    told = _prune(sent.site, who, sent.run_id, keep, days, preview)
    count = told["checkpoints"]
    text = f"{count:,} checkpoint{'' if count == 1 else 's'} deleted."
    return done(sent.request, run_path(sent.run_id), text)


def _prune(
    site: Site,
    who: str | None,
    run_id: str,
    keep: int | None,
    days: int | None,
    preview: str | None = None,
) -> dict[str, Any]:
    older = None if days is None else timedelta(days=days)
    if keep is None and older is None:
        raise InvalidFieldError("keep_latest", "say how many stay, or how old they may be")
    return actions.prune(site, who, run_id, keep_latest=keep, older_than=older, preview=preview)


def _source(site: Site, info: RunInfo, at: str | None) -> Checkpoint:
    place = None if at is None else find_place(site.cp, info.run_id, at)
    found = site.cp.load(checkpoint_id=place) if place else site.cp.load(info.run_id)
    if found is None:
        raise CheckpointNotFoundError(info.run_id, place)
    return found


def _number(given: Fields, name: str) -> int | None:
    text = given.get(name, "").strip()
    if not text:
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else 0
    if number < 1:
        raise InvalidFieldError(name, "must be a number from 1 to 999,999")
    return number


def _letters(count: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(count))


_SHOWING: Final[dict[str, Callable[[Site, RunInfo, Fields], dict[str, Any]]]] = {
    "fork": _show_fork,
    "rollback": _show_rollback,
    "prune": _show_prune,
}
_DOING: Final[dict[str, Callable[[Sent, str], Response]]] = {
    "resume": _resume,
    "retry": _resume,
    "pause": _pause,
    "cancel": _cancel,
    "deadline": _deadline,
    "fork": _fork,
    "rollback": _rollback,
    "prune": _prune_run,
}

ROUTES: list[BaseRoute] = [
    Route("/runs/{run_id:id}/do/{action}", form, methods=["GET"]),
    Route("/runs/{run_id:id}/do/{action}", posted(act), methods=["POST"]),
]
