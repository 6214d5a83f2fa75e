"""The page of a run, in a real browser: its steps, its keys, and what changes while one looks."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

import holdfast as hf
from tests.web.browser.browsing import PHONE, Visits, overflow
from tests.web.browser.conftest import Serve


def test_steps_are_opened_left_and_walked_with_keys(visit: Visits) -> None:
    page = visit("/runs/order-8841")
    rows = page.locator("#rows a.name")
    expect(rows.first).to_be_visible()
    page.keyboard.press("j")
    expect(rows.first).to_be_focused()
    page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    drawer = page.locator("#drawer")
    expect(drawer).to_be_visible()
    expect(drawer.locator("b.m").first).to_have_text(rows.nth(1).inner_text())
    assert "step=" in page.url
    expect(page.locator("#rows tr.sel")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(rows.nth(1)).to_be_focused()
    page.go_back()
    expect(page.locator("#drawer")).to_be_visible()
    page.wait_for_load_state()  # htmx has the page loaded again, and with it what knows the keys
    page.keyboard.press("]")
    expect(page.locator("#tab")).to_have_attribute("data-tab", "graph")
    expect(page.locator("#graph svg a").first).to_be_visible()


def test_the_next_problem_opens_with_its_traceback(visit: Visits) -> None:
    page = visit("/runs/order-8841")
    expect(page.locator("#next-problem")).to_be_visible()
    page.keyboard.press("n")
    expect(page.locator("#drawer")).to_contain_text("Attempts")
    expect(page.locator("#rows tr.sel")).to_be_visible()


def test_folded_steps_are_unfolded_in_place(visit: Visits) -> None:
    page = visit("/runs/order-8841")
    fold = page.get_by_label("Unfold ship")
    before = page.locator("#rows tr").count()
    fold.click()
    expect(page.get_by_label("Fold ship", exact=True)).to_be_visible()
    assert page.locator("#rows tr").count() > before
    assert "open=" in page.url
    page.reload()
    page.get_by_label("Fold ship", exact=True).click()
    expect(page.locator("#rows tr")).to_have_count(before)


@pytest.mark.parametrize("width", [1280, PHONE])
def test_badges_never_hide_the_name_of_a_step(visit: Visits, width: int) -> None:
    page = visit("/runs/order-8841", width=width)
    expect(page.locator("#rows .badge").first).to_be_visible()
    cut = page.locator("#rows :is(.name, .badge)").evaluate_all(
        "(all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.title)"
    )
    assert cut in ([], ["approve_refund"]), "a name that is longer than its column, and no badge"


def test_a_long_run_grows_while_one_scrolls_and_while_it_runs(
    visit: Visits, serve: Serve, tmp_path: Path
) -> None:
    store = tmp_path / "runs.db"
    with hf.SyncCheckpointer(store) as cp:
        saves = ({"run_id": "long", "state": n, "step": f"step {n}"} for n in range(300))
        cp.save_many(saves)
        page = visit("/runs/long", of=serve(store))
        rows = page.locator("#rows tr[data-step]")
        expect(rows).to_have_count(200)
        page.locator("#more").scroll_into_view_if_needed()
        expect(rows).to_have_count(300)
        page.get_by_text("step 7", exact=True).click()
        expect(page.locator("#drawer")).to_contain_text("step 7")
        expect(page.locator("#live")).to_have_attribute("data-kind", "on")
        cp.save("long", {"n": 1}, step="one more")
        expect(rows).to_have_count(301)
        expect(page.locator("#drawer")).to_contain_text("step 7")
        expect(page.locator("#rows tr.sel")).to_contain_text("step 7")


def test_on_a_phone_a_step_is_a_sheet_over_the_page(visit: Visits) -> None:
    page = visit("/runs/order-8841", width=PHONE)
    assert overflow(page) <= 0
    page.locator("#rows a.name").nth(2).click()
    sheet = page.locator("#drawer")
    expect(sheet).to_be_visible()
    expect(page.locator("#close-drawer")).to_be_focused()
    assert overflow(page) <= 0
    page.locator("#close-drawer").click()
    expect(sheet).to_be_hidden()
