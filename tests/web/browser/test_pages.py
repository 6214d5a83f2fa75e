"""Every page, in a real browser: on a phone, in both themes, without scripts, on paper."""

from __future__ import annotations

from typing import Any, Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from holdfast.web.rendering import run_path
from tests.web.addresses import compare, general, of_run
from tests.web.browser.browsing import PHONE, Shot, Theme, Visits, overflow

PAGES: Final = {
    **general(),
    **{f"run-{name}": path for name, path in of_run("order-8841").items()},
    "run-step": run_path("order-8841", step="charge_card"),
    "agent-graph": run_path("chat-7f3a", tab="graph"),
    "thread": run_path("support-41", tab="state"),
    "failed": run_path("order-8836"),
    "compare": compare("order-8841@3", "order-8841-b@5"),
    "nothing": "/runs/no-such-run",
}
SERIOUS: Final = ("serious", "critical")
CHECKED: Final[dict[Theme, dict[str, Any]]] = {
    "light": {"resultTypes": ["violations"]},
    "dark": {"resultTypes": ["violations"], "runOnly": ["color-contrast"]},  # the rest is the same
}
_NOT_FOUND: Final = ["status of 404"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_screen_and_has_no_serious_barriers(
    visit: Visits, shot: Shot, name: str
) -> None:
    page = visit(PAGES[name], width=PHONE, tolerated=_NOT_FOUND)
    expect(page.locator("h1").first).to_be_visible()
    assert overflow(page) <= 0, "wider than a phone"
    page.set_viewport_size({"width": 1280, "height": 900})
    assert overflow(page) <= 0
    shot(page, name)
    found: list[str] = []
    for theme, options in CHECKED.items():
        page.emulate_media(color_scheme=theme)
        violations: list[dict[str, Any]] = Axe().run(page, options=options).response["violations"]
        found += [
            f"{theme}: {each['id']} {[node['target'] for node in each['nodes'][:4]]}"
            for each in violations
            if each["impact"] in SERIOUS
        ]
    assert not found, "\n".join(found)


def test_pages_can_be_read_without_scripts(visit: Visits) -> None:
    page = visit("/runs", java_script_enabled=False, tolerated=_NOT_FOUND)
    for name, path in PAGES.items():
        page.goto(path)
        assert page.locator("h1").first.is_visible(), name
        assert page.locator("h1").first.inner_text(), name
        assert overflow(page) <= 0, name


def test_a_printed_page_is_light_and_has_no_buttons(visit: Visits) -> None:
    page = visit(run_path("order-8841"), theme="dark")
    page.emulate_media(media="print")
    color = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert color in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)")
    expect(page.get_by_text("order-8841").first).to_be_visible()
    expect(page.locator("header.top")).to_be_hidden()


def test_nothing_moves_for_those_who_asked_for_that(visit: Visits) -> None:
    page = visit("/runs", reduced_motion="reduce", tolerated=_NOT_FOUND)
    for name in ("runs", "inbox", "overview", "run-timeline", "run-graph", "compare"):
        page.goto(PAGES[name])
        moving = page.evaluate(
            "() => document.getAnimations().filter((one) => one.playState === 'running').length"
        )
        assert moving == 0, name
