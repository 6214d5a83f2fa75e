"""Every page, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.web.browser.browsing import PHONE, Shot, Visits, overflow

PAGES = {"runs": "/runs"}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(visit: Visits, shot: Shot, name: str) -> None:
    page = visit(PAGES[name], width=PHONE)
    expect(page.locator("h1")).to_be_visible()
    assert overflow(page) <= 0
    page.set_viewport_size({"width": 1280, "height": 900})
    assert overflow(page) <= 0
    shot(page, name)
