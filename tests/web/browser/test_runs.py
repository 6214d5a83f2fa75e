"""The list of runs, in a real browser."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from playwright.sync_api import Page, Route, expect

import holdfast as hf
from tests.web.browser.browsing import PHONE, Visits
from tests.web.browser.conftest import Serve


def rows(page: Page) -> list[str]:
    return [str(row.get_attribute("data-run")) for row in page.locator("#rows tr").all()]


def saved(store: Path, *names: str) -> None:
    with hf.SyncCheckpointer(store) as cp:
        for name in names:
            cp.save(name, {"n": 1}, step="s", flow="nightly")


def test_a_new_run_appears_and_the_focus_stays(tmp_path: Path, serve: Serve, visit: Visits) -> None:
    store = tmp_path / "runs.db"
    saved(store, "one", "two")
    page = visit("/runs", of=serve(store))
    expect(page.locator("#live")).to_have_text("Live")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="one", exact=True)).to_be_focused()
    page.keyboard.press("x")
    saved(store, "three")
    expect(page.locator("#rows tr")).to_have_count(3)
    assert rows(page) == ["three", "two", "one"]
    expect(page.get_by_role("link", name="one", exact=True)).to_be_focused()
    expect(page.get_by_label("Select one")).to_be_checked()
    expect(page.locator("#tabs")).to_contain_text("All3")


def test_new_runs_wait_while_somebody_reads_further_down(
    tmp_path: Path, serve: Serve, visit: Visits
) -> None:
    store = tmp_path / "runs.db"
    saved(store, *(f"run-{n}" for n in range(60)))
    page = visit("/runs", of=serve(store), height=600)
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate("scrollTo(0, 900)")
    before = rows(page)
    saved(store, "new-1", "new-2", "run-40")
    expect(page.locator("#new")).to_have_text("2 new")
    expect(page.locator("[data-run=run-40]")).to_contain_text("2")
    assert rows(page) == before
    assert page.evaluate("scrollY") == 900
    page.locator("#new").click()
    expect(page.locator("#rows tr").first).to_have_attribute("data-run", "new-2")
    expect(page.locator("#new")).to_be_hidden()


def test_a_filter_is_shared_by_its_url(visit: Visits) -> None:
    page = visit("/runs")
    page.keyboard.press("/")
    page.keyboard.type("order-88")
    expect(page).to_have_url(re.compile(r"/runs\?q=order-88$"))
    expect(page.locator("#search")).to_be_focused()
    page.locator("#tabs").get_by_text("Failed").click()
    expect(page).to_have_url(re.compile(r"status=failed&q=order-88$"))
    expect(page.locator("#rows tr").first).to_have_attribute("data-status", "failed")
    found = rows(page)
    other = visit(page.url)
    assert rows(other) == found
    expect(other.locator("#search")).to_have_value("order-88")
    page.go_back()
    expect(page).to_have_url(re.compile(r"/runs\?q=order-88$"))
    expect(page.locator("#search")).to_have_value("order-88")
    page.locator(".cli-of-view").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("holdfast runs order-88 --store=")


def test_typing_on_while_an_answer_comes_loses_nothing(visit: Visits) -> None:
    page = visit("/runs")
    held: list[Route] = []
    page.route(re.compile(r"/runs\?.*q=order&"), lambda route: held.append(route))
    page.locator("#search").press_sequentially("order")
    while not held:
        page.wait_for_timeout(50)
    page.locator("#search").press_sequentially("-8836")
    held.pop().continue_()
    expect(page).to_have_url(re.compile("q=order-8836"))
    expect(page.locator("#search")).to_have_value("order-8836")


def test_a_late_answer_of_another_filter_is_dropped(
    tmp_path: Path, serve: Serve, visit: Visits
) -> None:
    store = tmp_path / "runs.db"
    saved(store, "one")
    page = visit("/runs", of=serve(store))
    expect(page.locator("#live")).to_have_text("Live")
    held: list[Route] = []
    page.route(re.compile("quiet=1"), lambda route: held.append(route))
    saved(store, "two")
    while not held:
        page.wait_for_timeout(50)
    page.locator("#tabs").get_by_text("Open").click()
    expect(page.locator("#tabs [aria-current]")).to_contain_text("Open")
    page.evaluate(
        """() => {
            const tabs = () => document.querySelector("#tabs [aria-current]").textContent;
            window.shown = [];
            new MutationObserver(() => window.shown.push(tabs())).observe(
                document.getElementById("main"), {subtree: true, childList: true, attributes: true})
        }"""
    )
    late = held.pop()
    page.route(re.compile("quiet=1"), lambda route: route.continue_())
    late.continue_()
    saved(store, "three")
    expect(page.locator("[data-run=three]")).to_be_visible()
    assert {text.strip("0123456789") for text in page.evaluate("window.shown")} == {"Open"}


def test_it_works_without_javascript(visit: Visits) -> None:
    page = visit("/runs", java_script_enabled=False)
    page.locator("#search").fill("order-88")
    page.get_by_role("button", name="Search").click()
    expect(page).to_have_url(re.compile("q=order-88"))
    assert all("order-88" in name for name in rows(page))
    page.locator("#tabs").get_by_text("Failed").click()
    expect(page.locator("#rows tr").first).to_have_attribute("data-status", "failed")
    expect(page.locator("#live")).to_be_hidden()


def test_keys_can_be_switched_off_and_on_again(visit: Visits) -> None:
    page = visit("/runs")
    page.keyboard.press("?")
    page.get_by_role("button", name="Switch keys off").click()
    page.keyboard.press("j")
    expect(page.locator("#rows a:focus")).to_have_count(0)
    page.locator("#show-keys").click()
    page.get_by_role("button", name="Switch keys on").click()
    page.keyboard.press("j")
    expect(page.locator("#rows tr").first.locator("th a")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/[^?]+"))


def test_two_selected_runs_can_be_compared(visit: Visits) -> None:
    page = visit("/runs")
    for _ in range(2):
        page.keyboard.press("j")
        page.keyboard.press("x")
    expect(page.locator("#picked")).to_contain_text("2 selected")
    path = page.locator("#picked").get_by_role("link", name="Compare").get_attribute("href")
    assert path is not None
    assert re.fullmatch(r"/compare\?a=[^&]+&b=[^&]+", path)


def test_a_server_that_stops_makes_the_page_stale(
    tmp_path: Path, serve: Serve, visit: Visits
) -> None:
    store = tmp_path / "runs.db"
    saved(store, "one")
    served = serve(store)
    page = visit("/runs", of=served, tolerated=["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE"])
    expect(page.locator("#live")).to_have_text("Live")
    os.kill(served.pid, signal.SIGTERM)
    expect(page.locator("#live")).to_have_text(re.compile(r"^Stale since \d\d:\d\d$"))


def test_the_menu_of_a_phone_has_the_theme_and_the_zone(visit: Visits) -> None:
    page = visit("/runs", width=PHONE)
    expect(page.locator("#theme")).to_be_hidden()
    page.locator("#menu").click()
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.locator("#zone").click()
    expect(page.locator("#zone")).to_have_text("UTC")
    page.keyboard.press("Escape")
    expect(page.locator("#theme")).to_be_hidden()
