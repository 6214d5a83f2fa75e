"""A browser, and a store with all kinds of runs that `holdfast ui` serves to it.

`visit("/runs")` opens a page that may have no errors; `served` is the store that it shows, and
`serve(store, "--allow-writes")` serves another. Playwright keeps an event loop in this thread: run
flows in processes, or with `hf.SyncCheckpointer`, which needs none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.web import serving, store
from tests.web.browser.browsing import Shot, Visits, chromium, shoot
from tests.web.made_once import copied
from tests.web.serving import Served

Serve = Callable[..., Served]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One for all tests of this folder."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The store of `tests.web.store`, read-only. Nothing changes in it."""
    directory = copied(tmp_path_factory, "store")
    with serving.serve(directory / store.NAME, cwd=directory) as started:
        yield started


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves stores until the test is over; see `tests.web.serving.serve`."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(serving.serve(*args, **options))


@pytest.fixture
def visit(serve: Serve, browser: Browser, served: Served) -> Iterator[Visits]:
    """Opens pages; what is wrong with one fails the test. They close before servers stop."""
    visits = Visits(browser, served)
    try:
        yield visits
    finally:
        visits.close()


@pytest.fixture
def shot() -> Shot:
    """Takes pictures of a page for $HOLDFAST_SHOTS, a directory; without it, none."""
    directory = os.environ.get("HOLDFAST_SHOTS")

    def take(page: Page, name: str) -> None:
        if directory:
            shoot(page, Path(directory), name)

    return take
