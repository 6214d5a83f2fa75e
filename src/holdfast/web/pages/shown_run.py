"""The run that a page is about: what each of its tabs is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from starlette.requests import Request

from holdfast.checkpoint import RunInfo
from holdfast.web.site import Site


class ShownRun(NamedTuple):
    """A run, and what of it is asked for."""

    request: Request
    info: RunInfo
    word: str  # its status, as `holdfast runs` says it
    facts: Mapping[str, Any]  # who executes it: see `holdfast.views.runs.doing`

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.info.run_id

    def asked(self, name: str) -> str | None:
        """A parameter of the URL; None if it is absent or empty."""
        return self.request.query_params.get(name) or None

    def number(self, name: str) -> int | None:
        """A parameter of the URL that is a number; None if it is absent, or is none."""
        text = self.asked(name) or ""
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


class Badge(NamedTuple):
    """What stands beside the name of a tab: a count, or that something is wrong."""

    text: str
    chip: str = ""  # "bad" if something is wrong


class Tab(NamedTuple):
    """A tab of the page of a run. Its template is `run/{name}.html`.

    `render` makes what the template is given; it runs only for the tab that is shown. `badge` is
    made for every tab each time, and must not read much. Both block.
    """

    name: str
    label: str
    render: Callable[[Site, ShownRun], dict[str, Any]]
    badge: Callable[[Site, ShownRun], Badge | None] = lambda site, run: None
    scripts: tuple[str, ...] = ()  # below /static, modules
    styles: tuple[str, ...] = ()
