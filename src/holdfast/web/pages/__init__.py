"""The pages, a module for each."""

from starlette.routing import BaseRoute

from holdfast.web import paths  # noqa: F401  routes need it
from holdfast.web.pages import actions, answering, inbox, overview, run, runs

ROUTES: list[BaseRoute] = [
    *runs.ROUTES,
    *run.ROUTES,
    *overview.ROUTES,
    *inbox.ROUTES,
    *answering.ROUTES,
    *actions.ROUTES,
]
