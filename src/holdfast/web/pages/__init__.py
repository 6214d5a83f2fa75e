"""The pages, a module for each."""

from starlette.routing import BaseRoute

from holdfast.web import paths  # noqa: F401  routes need it
<<<<<<< HEAD
from holdfast.web.pages import actions, answering, inbox, overview, run, runs
=======
from holdfast.web.pages import (
    compare,
    overview,
    run,
    run_evidence,
    run_journal,
    run_state,
    runs,
)
>>>>>>> 067fb849 (State, evidence, journal and forks of a run, and Compare, on pages)

ROUTES: list[BaseRoute] = [
    *runs.ROUTES,
    *run.ROUTES,
<<<<<<< HEAD
    *overview.ROUTES,
    *inbox.ROUTES,
    *answering.ROUTES,
    *actions.ROUTES,
=======
    *run_state.ROUTES,
    *run_evidence.ROUTES,
    *run_journal.ROUTES,
    *compare.ROUTES,
    *overview.ROUTES,
>>>>>>> 067fb849 (State, evidence, journal and forks of a run, and Compare, on pages)
]
