"""The tab "Graph" of a run."""

from __future__ import annotations

from typing import Any, Final

from holdfast.web.pages.shown_run import ShownRun, Tab
from holdfast.web.site import Site


def render(site: Site, run: ShownRun) -> dict[str, Any]:
    """What the tab shows."""
    return {}


TAB: Final = Tab("graph", "Graph", render)
