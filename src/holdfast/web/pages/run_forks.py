"""The tab "Forks" of a run: the tree that it is in, and where it went back itself."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

from holdfast.model import checkpoint_id
from holdfast.views import forks, runs, states
from holdfast.web.pages.shown_run import ShownRun, Tab
from holdfast.web.site import Site

_ORIGINS: WeakKeyDictionary[Site, forks.Origins] = WeakKeyDictionary()


def render(site: Site, run: ShownRun) -> dict[str, Any]:
    """What the tab shows."""
    tree = forks.tree(site.cp, run.info, _ORIGINS.setdefault(site, forks.Origins()))
    here = states.current(site.cp, run.info)
    return {
        "tree": tree,
        "words": {
            node.run_id: runs.doing(site.cp, node.info)[0] for node in tree.nodes if node.info
        },
        "rollbacks": forks.rollbacks(site.cp, run.run_id),
        "here": run.run_id if here is None else checkpoint_id(run.run_id, here),
        "fork_command": site.commands.line("fork", run.run_id),
    }


TAB: Final = Tab("forks", "Forks", render, scripts=("history.js",), styles=("history.css",))
