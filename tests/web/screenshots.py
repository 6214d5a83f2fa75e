"""Pictures of the web UI, for the docs and for those who work on it.

python -m tests.web.screenshots                  # docs/images/ui, which `make screenshots` does
python -m tests.web.screenshots --to /tmp/look   # every page: light, dark, and on a phone
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Page

from holdfast.web.rendering import run_path
from tests.web import store
from tests.web.addresses import compare, general, of_run
from tests.web.browser.browsing import Visits, chromium, picture, shoot
from tests.web.serving import Served, serve

DOCS: Final = Path(__file__).parents[2] / "docs/images/ui"
PAGES: Final = {
    **general(),
    "inbox": "/inbox?run=order-8841&question=approve_refund",
    "run": run_path("order-8841", step="charge_card"),
    "compare": compare("order-8841", "order-8841-b"),
}
MORE: Final = {
    **{f"run-{name}": path for name, path in of_run("order-8841").items()},
    "run-live": run_path("order-8850"),
    "agent": run_path("chat-7f3a"),
    "agent-graph": run_path("chat-7f3a", tab="graph"),
    "agent-state": run_path("chat-7f3a", tab="state"),
    "thread-state": run_path("support-41", tab="state"),
    "failed": run_path("order-8836"),
    "failed-step": run_path("order-8836", step="charge_card"),
    "crawl": run_path("crawl-kelp"),
    "etl-graph": run_path("etl-2026-11-15", tab="graph"),
    "train": run_path("train-lr-0.1"),
    "train-evidence": run_path("train-lr-0.1", tab="evidence"),
    "inbox-done": "/inbox?state=done",
    "runs-failed": "/runs?status=failed",
    "runs-none": "/runs?q=nothing-like-it",
}
_HEIGHT: Final = 800


def main() -> None:
    """Make the stores, open every page, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, help="take pictures of everything, and put them here")
    parser.add_argument("--only", help="of the pages whose names contain this")
    options = parser.parse_args()
    with shop() as served, chromium() as browser:
        visits = Visits(browser, served)
        if options.to is None:
            for name, path in PAGES.items():
                _for_docs(visits(path, height=_HEIGHT), name)
        else:
            for name, path in (PAGES | MORE).items():
                if options.only is None or options.only in name:
                    shoot(visits(path, height=_HEIGHT), options.to.absolute(), name, full=True)
        visits.close()


def _for_docs(page: Page, name: str) -> None:
    page.wait_for_timeout(1500)  # charts are drawn, and rows that are new have faded in
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.wait_for_timeout(500)
        picture(page, DOCS / f"{name}-{theme}.png")


@contextmanager
def shop() -> Iterator[Served]:
    """The store of `tests.web.store`, some of whose runs are executed right now.

    Pages show its path, so it is the same each time.
    """
    directory = str(Path(tempfile.gettempdir()) / "shop")
    with ExitStack() as stack:
        Path(directory).mkdir()  # fails if it is there: somebody else may use it
        stack.callback(shutil.rmtree, directory)
        root, make = Path(__file__).parents[2], [sys.executable, "-m", "tests.web.store", directory]
        subprocess.run(make, cwd=root, check=True)
        with subprocess.Popen(
            [*make, "--live"], cwd=root, stdout=subprocess.PIPE, text=True
        ) as live:
            try:
                assert live.stdout is not None
                live.stdout.readline()
                with serve(store.NAME, "--allow-writes", cwd=Path(directory)) as served:
                    yield served
            finally:
                live.kill()


if __name__ == "__main__":
    main()
