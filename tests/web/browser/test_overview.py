"""The overview in a real browser: charts that are drawn, read by keys, and follow the theme."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

import holdfast as hf
from tests.web.browser.browsing import PHONE, Theme, Visits, overflow
from tests.web.browser.conftest import Serve


def _drawn(page: Page) -> None:
    expect(page.locator(".charts[data-drawn=yes]")).to_be_visible()


def _colors(page: Page, chart: str) -> int:
    """The number of colors in a chart: nothing was drawn if there is one."""
    found: int = page.evaluate(
        """(name) => {
            const canvas = document.querySelector(`#chart-${name} canvas`);
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return new Set(new Uint32Array(data.buffer)).size;
        }""",
        chart,
    )
    return found


def test_charts_are_drawn_with_their_numbers_beside_them(
    serve: Serve, visit: Visits, tmp_path: Path
) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        for n in range(3):
            cp.save(f"run-{n}", {"n": n}, step="load", duration=1.0, flow="etl")
            cp.complete(f"run-{n}")
        cp.save("bad", 1, flow="etl", status="failed")
    page = visit("/overview?since=24h", of=serve(tmp_path / "runs.db"))
    _drawn(page)
    for name in ("runs", "times", "failures", "saves", "bytes"):
        assert _colors(page, name) > 3, name
    expect(page.locator("#chart-checks .plot")).to_have_text("No claim was checked in this time.")
    expect(page.locator("#chart-runs .legend")).to_contain_text("starts 4")
    assert "completions 3" in (page.locator("#chart-runs .plot").get_attribute("aria-label") or "")
    expect(page.locator("#chart-runs .limits")).to_contain_text("counts again")
    expect(page.locator("#chart-failures .legend")).to_contain_text("failures 1")
    page.locator("#chart-failures summary").click()
    expect(page.locator("#chart-failures tbody tr")).to_have_count(25)
    expect(page.locator("#chart-failures tbody tr").first.locator("td").first).to_have_text("1")
    page.locator("#chart-saves .plot").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#chart-saves .legend .when")).to_contain_text("so far")
    expect(page.locator("#chart-saves .legend")).to_contain_text("entries 10")
    expect(page.locator("#slowest")).to_be_visible()
    expect(page.locator("#health .findings")).to_be_visible()


def test_charts_follow_the_theme_and_the_zone(visit: Visits) -> None:
    page = visit("/overview?since=30d", theme="light")
    _drawn(page)
    before = page.locator("#chart-runs canvas").evaluate("(canvas) => canvas.toDataURL()")
    page.locator("#theme").click()
    after = page.locator("#chart-runs canvas").evaluate("(canvas) => canvas.toDataURL()")
    assert before != after
    page.locator("#chart-runs summary").click()
    local = page.locator("#chart-runs tbody th").first.inner_text()
    page.locator("#zone").click()
    expect(page.locator("#chart-runs tbody th").first).not_to_have_text(local)


@pytest.mark.parametrize("theme", get_args(Theme))
def test_all_of_it_fits_a_phone_and_has_no_serious_barriers(visit: Visits, theme: Theme) -> None:
    page = visit("/overview", width=PHONE, theme=theme)
    _drawn(page)
    for part in ("#slowest", "#errors", "#health .findings", "#now a"):
        expect(page.locator(part).first).to_be_visible()
    page.locator("#chart-runs summary").click()
    assert overflow(page) <= 0
    violations: list[dict[str, Any]] = Axe().run(page).response["violations"]
    assert not [each["id"] for each in violations if each["impact"] in ("serious", "critical")]


def test_a_flow_is_chosen_by_name_and_is_in_the_address(visit: Visits) -> None:
    page = visit("/overview?since=7d")
    page.locator("#flow").fill("no such flow")
    page.locator("#flow").press("Enter")
    page.wait_for_url("**/overview?since=7d&flow=no+such+flow")
    expect(page.get_by_role("heading", name="No run of no such flow yet")).to_be_visible()
