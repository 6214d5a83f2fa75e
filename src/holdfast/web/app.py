"""The application: its routes, and what becomes of errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.errors import HoldfastError, InvalidIdError
from holdfast.logs import logger
from holdfast.views.errors import NoRunError
from holdfast.web import live, monitoring, pages
from holdfast.web.api import problems
from holdfast.web.api.routes import ROUTES as API
from holdfast.web.executing import Executor
from holdfast.web.rendering import STATIC, page
from holdfast.web.security import Guard
from holdfast.web.site import Site
from holdfast.web.statuses import TooLargeError, status_of

_log: Final = logger()
_Handler = Callable[[Request, Exception], Response]


def make_app(site: Site) -> Starlette:
    """What serves the site. Every route is behind `Guard`."""
    routes: list[BaseRoute] = [
        Mount("/static", StaticFiles(directory=STATIC), name="static"),
        *live.ROUTES,
        *pages.ROUTES,
        *API,
        *monitoring.ROUTES,
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, site=site), Middleware(_Unforeseen)],
        exception_handlers=_HANDLERS,
        lifespan=_lifespan,
    )
    app.state.site = site
    app.state.live = live.Live(site)
    return app


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    site: Site = app.state.site
    if site.settings.allow_writes and site.settings.flows:
        site.executor = Executor(site)
    try:
        yield
    finally:
        app.state.live.close()
        if site.executor is not None:
            await run_in_threadpool(site.executor.stop)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return page(request, "error.html", status=error.status_code, what=error.detail)


def _holdfast_error(request: Request, error: Exception) -> Response:
    """What happened, and what helps. Our own tracebacks stay in the log."""
    status = 404 if isinstance(error, InvalidIdError) else status_of(error)
    return page(request, "error.html", status=status, what=str(error), meant=_meant(error))


def _meant(error: Exception) -> str | None:
    """The run that may have been meant."""
    return error.meant if isinstance(error, NoRunError) else None


def _too_large(request: Request, error: Exception) -> Response:
    return page(request, "error.html", status=413, what="The request is too large.")


def _unforeseen(request: Request, error: Exception) -> Response:
    _log.error("the web UI failed at %s", request.url.path, exc_info=error)
    what = "Something went wrong here. The log of `holdfast ui` has more."
    return page(request, "error.html", status=500, what=what)


def _page_or_problem(handler: _Handler) -> _Handler:
    """Tell programs of errors as documents, and people by pages."""

    def handle(request: Request, error: Exception) -> Response:
        if problems.is_of_api(request.scope["path"]):
            return problems.of_error(request, error)
        return handler(request, error)

    return handle


_HANDLERS: Final[Mapping[Any, Any]] = {
    HTTPException: _page_or_problem(_http_error),
    HoldfastError: _page_or_problem(_holdfast_error),
    TooLargeError: _page_or_problem(_too_large),
}


class _Unforeseen:
    """Answers when anything else is raised.

    Starlette does that outside of all middleware, where `Guard` would not add its headers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def sending(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:
            if began or scope["type"] != "http":
                raise
            request = Request(scope)
            response = await run_in_threadpool(_page_or_problem(_unforeseen), request, error)
            await response(scope, receive, send)
