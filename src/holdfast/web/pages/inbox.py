"""What runs ask of people, and what was answered."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.engine.people.inbox import open_questions
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError, InvalidIdError
from holdfast.heads import Position
from holdfast.model import check_id
from holdfast.views import answered, cancelling
from holdfast.views.values import short
from holdfast.web.pages.answering import question_form
from holdfast.web.pages.offers import shown
from holdfast.web.rendering import page
from holdfast.web.site import Site

LISTED: Final = 100
"""Questions on a page."""


def inbox(request: Request) -> Response:
    """Open questions with the form of one of them, or what was answered."""
    site: Site = request.app.state.site
    asks = request.query_params
    with site.noting_outages():
        if asks.get("state") == "done":
            return page(request, "inbox.html", **_done(site, request))
        return page(request, "inbox.html", **_open(site, request))


def number(request: Request) -> Response:
    """How many questions are open, as the header of each page says it."""
    return page(request, "parts/asking.html")


def _open(site: Site, request: Request) -> dict[str, Any]:
    asks = request.query_params
    site.count_questions_again()  # the header agrees with the page
    mine = _mine(request)
    overdue = "overdue" in asks
    core = site.cp.core
    every = cancelling.without(core, open_questions(core, assignee=mine, overdue=overdue))
    listed = [shown(site, question) for question in every[:LISTED]]
    run, key = asks.get("run"), asks.get("question")
    chosen = next((shown(site, one) for one in every if (one.run_id, one.key) == (run, key)), None)
    closed = None if chosen is not None or not (run and key) else _closed(site, run, key)
    explicit = chosen is not None or closed is not None
    if not explicit and listed:
        chosen = listed[0]
    options = [*([] if mine is None else [f"--assignee={mine}"]), *(["--overdue"] * overdue)]
    return {
        "state": "open",
        "listed": listed,
        "total": len(every),
        "mine": mine,
        "wants_name": "mine" in asks and mine is None,
        "overdue": overdue,
        "chosen": chosen,
        "closed": closed,
        "explicit": explicit,
        "ask": None if chosen is None else question_form(site, chosen, back="inbox"),
        "short": short,
        "command": site.commands.line("questions", None, *options),
    }


def _done(site: Site, request: Request) -> dict[str, Any]:
    before = _position(request.query_params.get("before", ""))
    found = answered.page(site.cp, before)
    return {
        "state": "done",
        "found": found,
        "first": before is None,
        "older": None if found.older is None else f"{found.older[0]}~{found.older[1]}",
        "short": short,
        "command": site.commands.line("questions"),
        "mine": None,
        "overdue": False,
    }


def _mine(request: Request) -> str | None:
    """Whose questions are wanted: of whoever has the token, or of the name that is given."""
    asked = request.query_params.get("mine")
    if asked is None:
        return None
    known: str | None = request.state.who
    if known is not None:
        return known
    try:
        return check_id("mine", asked) if asked not in ("", "1") else None
    except InvalidIdError:
        return None


def _closed(site: Site, run: str, key: str) -> answered.Answered | None:
    """What became of a question that somebody has an address of; None if nobody knows."""
    with suppress(CheckpointCorruptedError, InvalidIdError, CheckpointNotFoundError):
        return next((one for one in answered.of_run(site.cp, run) if one.question == key), None)
    return None


def _position(text: str) -> Position | None:
    opened, mark, run = text.partition("~")
    if not mark or not (opened.isascii() and opened.isdigit() and len(opened) <= 18):
        return None
    return int(opened), run


ROUTES: list[BaseRoute] = [
    Route("/inbox", inbox, methods=["GET"]),
    Route("/inbox/number", number, methods=["GET"]),
]
