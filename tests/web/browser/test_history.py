"""State, evidence, journal and forks of a run, and two runs compared, in a real browser."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import APIResponse, Error, Route, expect

import holdfast as hf
from holdfast.web.rendering import run_path
from holdfast.workflow import step, workflow
from tests.web import small_flows as flows
from tests.web import store
from tests.web.browser.browsing import PHONE, Visits
from tests.web.browser.conftest import Serve
from tests.web.made_once import copied


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of one's own, with a run of 150 checkpoints."""
    made = tmp_path / "runs.db"
    with hf.SyncCheckpointer(made) as cp:
        text = "It was a dark and stormy night; the rain fell in torrents on the kelp."
        for number in range(150):
            state = {"n": number, "same": 1, "text": text.replace("dark", f"dark {number}")}
            cp.save("essay", state, step=f"s{number}")
    return made


def test_a_difference_is_read_and_back_leads_to_the_one_before(
    visit: Visits, serve: Serve, path: Path
) -> None:
    page = visit(run_path("essay", tab="state"), of=serve(path))
    panel = page.locator("#panel")
    expect(panel.locator("h2")).to_contain_text("@150 s149")
    page.locator("#places a", has_text="s120").click()
    expect(panel.locator("h2")).to_contain_text("@121 s120")
    expect(page).to_have_url(re.compile("at=121"))
    expect(panel.locator("tr.c", has_text="text").locator("del")).to_have_text("119")
    expect(panel.locator("tr.c", has_text="text").locator("ins")).to_have_text("120")
    panel.locator("nav a", has_text="Before").click()
    expect(page).to_have_url(re.compile("view=before"))
    expect(panel.locator("dd").first).to_have_text("119")
    page.go_back()
    expect(panel.locator("tr.c", has_text="text")).to_be_visible()
    page.go_back()
    expect(panel.locator("h2")).to_contain_text("@150 s149")


def test_the_list_goes_on_where_it_is_scrolled_and_shows_what_is_saved_meanwhile(
    visit: Visits, serve: Serve, path: Path
) -> None:
    page = visit(run_path("essay", tab="state"), of=serve(path))
    rows = page.locator("#places li[data-seq]")
    expect(rows).to_have_count(100)
    page.locator("#places .more-rows").scroll_into_view_if_needed()
    expect(rows).to_have_count(150)
    with hf.SyncCheckpointer(path) as cp:
        cp.rollback("essay", seq=149)
        cp.save("essay", {"n": -1}, step="again")
    expect(rows.first).to_contain_text("again")
    expect(rows.nth(1)).to_have_class(re.compile("left"))
    expect(rows).to_have_count(151)


def test_an_entry_unfolds_and_entries_are_found_by_kind(
    visit: Visits, serve: Serve, path: Path
) -> None:
    page = visit(run_path("essay", tab="journal", at=40), of=serve(path))
    page.locator("#e40 a").click()
    expect(page.locator(".below .detail")).to_contain_text('"n": 39')
    page.locator("#e40 a").click()
    expect(page.locator(".below")).to_have_count(0)
    page.get_by_label("Kind").select_option("open")
    expect(page.locator(".entries tr[data-seq]")).to_have_count(1)
    expect(page).to_have_url(re.compile("kind=open"))


def test_claims_are_verified_and_the_outcome_appears(
    visit: Visits, serve: Serve, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = copied(tmp_path_factory, "store")
    served = serve(directory / store.NAME, "--allow-writes", cwd=directory)
    page = visit(run_path("order-8841", tab="evidence"), of=served)
    page.get_by_role("button", name="Verify now").click()
    # The files were written in another directory, which this server may not look at.
    expect(page.locator(".outcome")).to_contain_text("Intact, but a claim is inconclusive")
    expect(page.locator(".claim").first).to_contain_text("inconclusive")
    expect(page.get_by_role("button", name="Verify now")).to_be_visible()


def test_a_late_answer_does_not_hide_that_claims_are_verified(
    visit: Visits, serve: Serve, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = copied(tmp_path_factory, "store")
    served = serve(directory / store.NAME, "--allow-writes", cwd=directory)
    page = visit("/runs", of=served)
    late: list[tuple[Route, APIResponse]] = []

    def hold_the_first(route: Route) -> None:
        if late:
            route.continue_()
        else:
            late.append((route, route.fetch()))

    page.route(re.compile("/order-8841/evidence$"), hold_the_first)
    page.goto(run_path("order-8841", tab="evidence"))
    while not late:  # the page asks once more for what may have changed while it was loaded
        page.wait_for_timeout(50)
    page.get_by_role("button", name="Verify now").click()
    expect(page.locator("#evidence[aria-busy], .outcome")).to_be_visible()
    route, answer = late[0]
    with suppress(Error):  # nobody waits for it any more
        route.fulfill(response=answer)
    expect(page.locator(".outcome")).to_contain_text("Intact, but a claim is inconclusive")


def test_a_fork_leads_to_what_it_does_otherwise(visit: Visits) -> None:
    page = visit(run_path("order-8841", tab="forks"))
    page.get_by_role("link", name="1 step differs").click()
    expect(page.locator("h1")).to_have_text("Compare")
    expect(page.locator("tr.c", has_text="send_receipt").first).to_contain_text("only b")
    folded = page.locator("[data-unfolds]")
    folded.click()
    expect(page.locator("tbody tr", has_text="validate_cart").last).to_be_visible()
    page.get_by_label("Swap a and b").click()
    expect(page.get_by_label("a: a run")).to_have_value(re.compile("^order-8841-b@"))
    expect(page.locator("tr.c", has_text="send_receipt").first).to_contain_text("only a")


def test_what_steps_differ_in_fits_a_phone(
    visit: Visits, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "runs.db"

    def work() -> None:
        for run in ("a", "b"):
            flows.execute(made, lambda text=run: writing(text), run)  # type: ignore[misc]

    thread = threading.Thread(target=work)  # Playwright has an event loop in this one
    thread.start()
    thread.join()
    page = visit("/compare?a=a&b=b", of=serve(made), width=PHONE)
    expect(page.locator(".tells").last).to_contain_text("~ evidence")
    for badge in page.locator("td.tells .badge").all():
        box, cell = badge.bounding_box(), badge.locator("..").bounding_box()
        assert box is not None
        assert cell is not None
        assert box["x"] + box["width"] <= cell["x"] + cell["width"], badge.inner_text()


@step(outputs="report.md")
def write_report(text: str) -> str:
    Path("report.md").write_text(text)
    return text


@workflow
async def writing(text: str) -> str:
    return await write_report(text)
