"""The pages, a module for each."""

from starlette.routing import BaseRoute

from holdfast.web.pages import runs

ROUTES: list[BaseRoute] = [*runs.ROUTES]
