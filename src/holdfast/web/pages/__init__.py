"""The pages, a module for each."""

from starlette.routing import BaseRoute

from holdfast.web import paths  # noqa: F401  routes need it
from holdfast.web.pages import (
    actions,
    answering,
    compare,
    inbox,
    overview,
    run,
    run_evidence,
    run_journal,
    run_state,
    runs,
)

ROUTES: list[BaseRoute] = [
    *runs.ROUTES,
    *run.ROUTES,
    *run_state.ROUTES,
    *run_evidence.ROUTES,
    *run_journal.ROUTES,
    *compare.ROUTES,
    *overview.ROUTES,
    *inbox.ROUTES,
    *answering.ROUTES,
    *actions.ROUTES,
]
