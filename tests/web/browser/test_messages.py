"""Short messages and tabs: nothing is covered, nothing is cut without a cue."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import Page, expect

from holdfast.web.rendering import run_path
from tests.web.addresses import of_run
from tests.web.browser.browsing import PHONE, Visits, overflow

WIDTHS: Final = (1280, PHONE)
_SAYS: Final = (
    "async (text) => (await import('/static/app.js')).toast(text)"  # as pages themselves do
)
_REACHED: Final = """() => {
  globalThis.reached = [...document.querySelectorAll('a, button, input, select, textarea')].filter(
    (one) => {
      const { left, right, top, bottom } = one.getBoundingClientRect();
      const found = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
      return found && (found === one || one.contains(found));
    });
  return reached.length;
}"""
_COVERED: Final = """() => reached.filter((one) => {
  const { left, right, top, bottom } = one.getBoundingClientRect();
  return document.elementFromPoint((left + right) / 2, (top + bottom) / 2)?.closest('.toast');
}).map((one) => one.outerHTML.slice(0, 120))"""
_TOP: Final = "() => document.querySelector('main').getBoundingClientRect().top"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "path", ["/runs", "/inbox", "/overview", run_path("order-8841", step="charge_card")]
)
def test_a_message_covers_no_control(visit: Visits, path: str, width: int) -> None:
    page = visit(path, width=width)
    for down in (0, 150):
        page.evaluate("(y) => scrollTo({ top: y, behavior: 'instant' })", down)
        before = page.evaluate(_TOP)
        assert page.evaluate(_REACHED)
        page.evaluate(_SAYS, "a message that is long enough for two lines on a phone, at least")
        bar = page.locator("#toasts .toast")
        expect(bar).to_be_in_viewport()
        assert page.evaluate(_COVERED) == []
        height = bar.evaluate("(one) => one.offsetHeight")
        assert page.evaluate(_TOP) == pytest.approx(before + height, abs=1)
        assert overflow(page) <= 0
        bar.get_by_role("button", name="Dismiss").click()
        expect(bar).to_have_count(0)


def test_a_message_is_announced_dismissed_with_keys_and_goes_away_by_itself(visit: Visits) -> None:
    page = visit("/runs")
    page.clock.install()
    region = page.locator("#toasts")
    expect(region).to_have_attribute("aria-live", "polite")
    _say(page, "first")
    page.keyboard.press("Escape")
    expect(region).to_be_empty()
    _say(page, "second")
    region.get_by_role("button", name="Dismiss").focus()
    page.clock.fast_forward(60_000)  # who is in it may take the time
    expect(region).to_contain_text("second")
    page.keyboard.press("Enter")
    expect(region).to_be_empty()
    _say(page, "third")
    page.clock.fast_forward(10_000)
    expect(region).to_be_empty()
    for _ in range(6):
        page.evaluate(_SAYS, "the same")
    _say(page, "another")
    expect(region.locator(".toast")).to_have_count(2)


def _say(page: Page, text: str) -> None:
    page.evaluate(_SAYS, text)
    page.clock.run_for(100)
    expect(page.locator("#toasts")).to_contain_text(text)


def test_a_button_that_copies_says_so_where_it_is(visit: Visits) -> None:
    page = visit(run_path("order-8841", step="charge_card"))
    button = page.locator("#drawer").get_by_role("button", name="Copy")
    width = button.evaluate("(one) => one.offsetWidth")
    button.click()
    shown = page.locator("#drawer").get_by_role("button", name="Copied")
    expect(shown).to_be_visible()
    assert shown.evaluate("(one) => one.offsetWidth") >= width
    expect(page.locator("#said")).to_contain_text("Copied: holdfast show order-8841")
    expect(page.locator("#toasts")).to_be_empty()
    expect(button).to_have_text("Copy")


@pytest.mark.parametrize("name", of_run(""))
def test_the_current_tab_is_seen_and_arrows_lead_to_the_others(visit: Visits, name: str) -> None:
    page = visit(of_run("order-8841")[name], width=PHONE)
    tabs = page.locator("#tabs")
    current = tabs.locator("[aria-current]")
    expect(current).to_be_in_viewport(ratio=0.9)
    inner, outer = current.bounding_box(), tabs.bounding_box()
    assert inner is not None
    assert outer is not None
    assert outer["x"] <= inner["x"]
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"] + 1
    assert _arrows(page) == {
        "before": page.evaluate("() => document.getElementById('tabs').scrollLeft > 2"),
        "after": page.evaluate(
            "() => { const t = document.getElementById('tabs');"
            " return t.scrollLeft + t.clientWidth < t.scrollWidth - 2; }"
        ),
    }
    assert any(_arrows(page).values())
    tabs.evaluate("(one) => one.scrollTo({ left: one.scrollWidth, behavior: 'instant' })")
    page.wait_for_function("() => !document.getElementById('tabs').hasAttribute('data-after')")
    assert _arrows(page) == {"before": True, "after": False}


def test_tabs_that_fit_have_no_arrows(visit: Visits) -> None:
    page = visit(run_path("order-8841"))
    assert _arrows(page) == {"before": False, "after": False}


def _arrows(page: Page) -> dict[str, bool]:
    """Which arrows are shown beside the tabs."""
    found: dict[str, bool] = page.evaluate(
        "() => Object.fromEntries(['before', 'after'].map((side) => [side,"
        " getComputedStyle(document.getElementById('tabs'), `::${side}`).visibility"
        " === 'visible']))"
    )
    return found
