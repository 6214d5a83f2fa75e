"""Where the pages are, for tests that look at all of them."""

from __future__ import annotations

from urllib.parse import urlencode

from holdfast.web.pages.run import TABS
from holdfast.web.rendering import run_path


def general(**query: str) -> dict[str, str]:
    """The pages that are about no run, by name."""
    asked = f"?{urlencode(query)}" if query else ""
    return {name: f"/{name}{asked}" for name in ("runs", "inbox", "overview")}


def of_run(run_id: str) -> dict[str, str]:
    """The page of a run with each of its tabs, by the name of the tab."""
    return {name: run_path(run_id, tab=name) for name in TABS}


def compare(a: str, b: str) -> str:
    """The page that compares two checkpoints, RUN@SEQ."""
    return f"/compare?{urlencode({'a': a, 'b': b})}"
