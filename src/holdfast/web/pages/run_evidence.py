"""The tab "Evidence" of a run: what it claims, what was found, and checking it now."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.checkpoint import RunInfo
from holdfast.views import claims, verifying
from holdfast.views.runs import of_id
from holdfast.web.pages.shown_run import Badge, ShownRun, Tab
from holdfast.web.rendering import page, run_path
from holdfast.web.sent import Sent, posted
from holdfast.web.site import Site
from holdfast.web.verifications import Verification, verifications


def render(site: Site, run: ShownRun) -> dict[str, Any]:
    """What the tab shows."""
    return _shown(site, run.info)


def badge(site: Site, run: ShownRun) -> Badge | None:
    """How many claims were found false when the run was last checked."""
    failed = claims.failing(site.cp, run.run_id)
    return Badge(f"{failed:,} false", "bad") if failed else None


def evidence(request: Request) -> Response:
    """What the tab shows, again: a check may be over."""
    site: Site = request.app.state.site
    with site.noting_outages():
        info = of_id(site.cp, request.path_params["run_id"])
        return page(request, "run/evidence.html", run_id=info.run_id, **_shown(site, info))


def check(request: Request) -> Response:
    """Check the claims now, and record nothing. A link alone does not begin it."""
    return _begin(request, None, record=False)


def verify(sent: Sent) -> Response:
    """Check the claims now, and record what is found, with who asked for it if that is known."""
    by = sent.who() if sent.request.state.who or sent.field("by") else None
    return _begin(sent.request, by, record=True)


def _begin(request: Request, by: str | None, *, record: bool) -> Response:
    site: Site = request.app.state.site
    from_page = request.headers.get("hx-request") == "true"
    with site.noting_outages():
        info = of_id(site.cp, request.path_params["run_id"])
        if record or from_page:
            verifications(site).begin(site, info.run_id, record=record, by=by)
        if not from_page:
            return RedirectResponse(run_path(info.run_id, tab=TAB.name), 303)
        return page(request, "run/evidence.html", run_id=info.run_id, **_shown(site, info))


def _shown(site: Site, info: RunInfo) -> dict[str, Any]:
    last = verifications(site).of(info.run_id)
    outcome = _outcome(last)  # before the claims are read: they then say what was found
    return {
        "claims": claims.claims(site.cp, info.run_id),
        "command": site.commands.line("verify", info.run_id),
        "last": last,
        "is_busy": last is not None and outcome is None,
        "outcome": outcome,
        "can_check": site.settings.verifier is not None,
    }


def _outcome(last: Verification | None) -> tuple[str, str] | None:
    """The verdict of the last check here, and what to say."""
    if last is None or not last.is_over:
        return None
    if last.report is None:
        return "failed", last.problem
    return last.report.verdict, verifying.said(last.report.verdict)


TAB: Final = Tab(
    "evidence", "Evidence", render, badge, scripts=("history.js",), styles=("history.css",)
)
ROUTES: list[BaseRoute] = [
    Route("/runs/{run_id:id}/evidence", evidence),
    Route("/runs/{run_id:id}/check", check),
    Route("/runs/{run_id:id}/verify", posted(verify), methods=["POST"]),
]
