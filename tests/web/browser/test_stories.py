"""What people do with the web UI, from beginning to end."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

import holdfast as hf
from tests.servers.redis import Redis
from tests.waiting import bounded, run_process
from tests.web import serving
from tests.web.addresses import compare
from tests.web.browser.browsing import Visits
from tests.web.browser.conftest import Serve

NETWORK = ["Failed to load resource", "ERR_"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where flows, their store and what they write are."""
    shutil.copy(Path(__file__).parent / "jobs.py", tmp_path)
    return tmp_path


def _command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "holdfast", *words, "--store", "runs.db"]


def holdfast(directory: Path, *words: str, code: int = 0) -> None:
    """A command, to its end."""
    done = run_process(_command(words), check=False, capture_output=True, cwd=directory)
    assert done.returncode == code, done.stderr


@contextmanager
def holdfast_meanwhile(directory: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that is executed while the block is."""
    with subprocess.Popen(
        _command(words), cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _stays(page: Page) -> None:
    page.evaluate("() => { window.stayed = true }")


def _stayed(page: Page) -> bool:
    """Whether it is still the same page, which was never loaded again."""
    return bool(page.evaluate("() => window.stayed === true"))


def test_a_crash_and_its_resume_are_watched(visit: Visits, serve: Serve, directory: Path) -> None:
    with hf.SyncCheckpointer(directory / "runs.db") as cp:
        cp.save("note", {"n": 1}, step="draft")
    served = serve(directory / "runs.db", cwd=directory)
    runs = visit("/runs", of=served)
    run = ["run", "jobs:tides", "--run-id", "tide-1", "--input", "place=Brest"]
    with holdfast_meanwhile(directory, *run) as process:
        row = runs.get_by_role("row").filter(has_text="tide-1")
        expect(row).to_contain_text("Running")  # nobody loaded the page again
        page = visit("/runs/tide-1", of=served)
        _stays(page)
        expect(page.locator("#run-header .chip")).to_contain_text("Running")
        expect(page.locator("#rows")).to_contain_text("measure")
        process.kill()
    expect(page.locator("#run-header .chip")).to_contain_text("Orphaned")
    expect(row).to_contain_text("Orphaned")
    (directory / "go").touch()
    with holdfast_meanwhile(directory, "resume", "tide-1", "--flow", "jobs:tides") as process:
        expect(page.locator("#run-header .chip")).to_contain_text("Completed")
        expect(page.locator("#rows")).to_contain_text("draw")
        expect(page.locator("#timeline")).to_contain_text("crash")
        expect(row).to_contain_text("Completed")
        with bounded(process):
            assert process.wait() == 0
    assert _stayed(page)


def test_an_approval_is_given(visit: Visits, serve: Serve, directory: Path) -> None:
    started = ["run", "jobs:refund", "--run-id", "refund-7", "--input", "amount=40"]
    holdfast(directory, *started, code=5)
    options = ["--allow-writes", "--flow", "jobs:refund"]
    served = serve(directory / "runs.db", *options, cwd=directory)
    page = visit("/runs/refund-7", of=served)
    page.locator("a[data-action=cancel]").click()
    dialog = page.locator("dialog#action")
    expect(dialog.locator("[name=reason]")).to_be_focused()
    page.keyboard.press("Escape")  # closes it, though the cursor is in a field
    expect(dialog).to_be_hidden()
    page.goto("/inbox")
    asked = page.locator(".asked")
    expect(asked).to_contain_text("Refund 40 EUR?")
    asked.get_by_label("Your name").fill("ann")
    asked.get_by_role("button", name="Approve").click()
    expect(page.locator("main")).to_contain_text("No open questions")
    page.goto("/runs/refund-7")
    expect(page.locator("#run-header .chip")).to_contain_text("Completed")  # by this very server
    expect(page.locator("#tab")).to_contain_text("refunded 40")
    page.goto("/inbox?state=done")
    expect(page.locator("main")).to_contain_text("ann")


def test_a_state_is_edited_forked_and_compared(
    visit: Visits, serve: Serve, directory: Path
) -> None:
    with hf.SyncCheckpointer(directory / "runs.db") as cp:
        cp.save("note", {"n": 1, "title": "Kelp"}, step="draft")
        cp.save("note", {"n": 2, "title": "Kelp"}, step="review")
    page = visit("/runs/note", of=serve(directory / "runs.db", "--allow-writes", cwd=directory))
    page.locator("a[data-action=fork]").first.click()
    form = page.locator("dialog #action-form")
    form.get_by_label("Id of the new run").fill("note-b")
    editor = form.get_by_label("State, as JSON")
    editor.fill('{"n": 100, ')
    expect(form.locator(".wrong")).to_contain_text("Not JSON")
    editor.fill('{"n": 100, "title": "Dulse"}')
    form.get_by_label("Your name").fill("ann")
    form.get_by_role("button", name="Fork").click()
    expect(page).to_have_url(re.compile("/runs/note-b"))
    with hf.SyncCheckpointer(directory / "runs.db") as cp:
        forked = cp.load("note-b")
        assert forked is not None
        assert forked.state == {"n": 100, "title": "Dulse"}
    page.goto(compare("note", "note-b"))
    difference = page.locator("table.keys")
    for text in ("n", "2", "100", "Kelp", "Dulse"):
        expect(difference).to_contain_text(text)


def test_everything_can_be_reached_by_keys(visit: Visits) -> None:
    page = visit("/runs")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/runs/."))
    page.goto("/runs/order-8841")
    page.keyboard.press("]")
    expect(page.locator("#tabs [aria-current]")).to_contain_text("Graph")
    page.goto("/runs/order-8841?tab=graph")
    page.keyboard.press("[")
    expect(page.locator("#tabs [aria-current]")).to_contain_text("Timeline")
    page.goto("/runs/order-8841")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("#drawer")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_be_hidden()
    page.goto("/runs/order-8841")
    color = "(body) => getComputedStyle(body).backgroundColor"
    before = page.locator("body").evaluate(color)
    page.keyboard.press("t")
    assert page.locator("body").evaluate(color) != before
    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog#keys")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("i")
    expect(page).to_have_url(re.compile("/inbox"))


def test_a_command_is_copied_as_it_is_shown(visit: Visits) -> None:
    page = visit("/runs/order-8841")
    page.locator(".cli-of-view").first.click()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied.startswith("holdfast show order-8841")


def test_secrets_are_shown_nowhere(visit: Visits) -> None:
    page = visit("/runs")
    for path in (
        "/runs/order-8841?tab=state", "/runs/order-8841?step=charge_card",
        "/runs/order-8841?tab=journal", "/runs/contract-219?tab=state", "/runs/notes?tab=state",
        "/runs/contract-219?step=read_contract",
    ):  # fmt: skip
        page.goto(path)
        for secret in ("tok_4471_secret", "sk-live-51H", "hunter2"):
            assert secret not in page.content(), path


def test_a_lost_store_says_since_when_and_comes_back_by_itself(visit: Visits, serve: Serve) -> None:
    server = Redis()
    try:
        with hf.SyncCheckpointer(server.url) as cp:
            cp.save("note", {"n": 1}, step="draft")
        served = serve(server.url, may_fail=True)
        page = visit("/runs", of=served, tolerated=NETWORK)
        expect(page.locator("#live")).to_contain_text("Live")
        _stays(page)
        server.kill()
        expect(page.locator("#live")).to_contain_text("lost since")
        other = visit("/runs/note", of=served, tolerated=NETWORK)
        expect(other.locator("main")).to_contain_text("since")
        server.start()
        expect(page.locator("#live")).to_contain_text("Live")
        with hf.SyncCheckpointer(server.url) as cp:
            cp.save("another", {"n": 1}, step="draft")
        expect(page.locator("#rows")).to_contain_text("another")
        assert _stayed(page)
    finally:
        server.stop()


def test_pages_follow_the_store_again_when_the_server_was_started_again(
    visit: Visits, directory: Path
) -> None:
    """Nobody has to load them anew."""
    store = directory / "runs.db"
    with hf.SyncCheckpointer(store) as cp:
        cp.save("note", {"n": 1}, step="draft")
    with serving.serve(store) as served:
        port = urlsplit(served.url).port
        pages = [visit(path, of=served, tolerated=NETWORK) for path in ("/runs", "/runs/note")]
        inbox = visit("/inbox", of=served, tolerated=NETWORK)
        for page in pages:
            expect(page.locator("#live")).to_contain_text("Live")
            _stays(page)
    for page in pages:
        expect(page.locator("#live")).to_contain_text("Stale since")
    with serving.serve(store, f"--port={port}"):
        for page in pages:
            expect(page.locator("#live")).to_contain_text("Live")
        with hf.SyncCheckpointer(store) as cp:
            cp.save("another", {"n": 1}, step="draft")
            cp.save("note", {"n": 2}, step="review")
        holdfast(directory, "run", "jobs:refund", "--run-id", "refund-7", "-i", "amount=1", code=5)
        expect(pages[0].locator("#rows")).to_contain_text("another")
        expect(pages[1].locator("#rows")).to_contain_text("review")
        expect(inbox.locator(".questions")).to_contain_text("refund-7")
        assert all(map(_stayed, pages))
        for page in (*pages, inbox):
            page.close()  # before the server stops, which would be an error in it


def test_a_damaged_entry_is_a_row_not_a_broken_page(
    visit: Visits, serve: Serve, directory: Path
) -> None:
    with hf.SyncCheckpointer(directory / "runs.db") as cp:
        for n in range(3):
            cp.save("note", {"n": n}, step=f"step {n}")
        cp.save("other", {"n": 1}, step="draft")
    with sqlite3.connect(directory / "runs.db") as db:
        found = db.execute(
            "UPDATE holdfast_entries SET body = x'00' WHERE run = 'note' AND seq = 2"
        )
        assert found.rowcount == 1
    db.close()
    served = serve(directory / "runs.db", cwd=directory)
    page = visit("/runs", of=served)
    expect(page.locator("#rows")).to_contain_text("other")
    expect(page.locator("#rows")).to_contain_text("note")
    for tab in ("timeline", "graph", "state", "evidence", "journal", "forks"):
        page.goto(f"/runs/note?tab={tab}")
        expect(page.locator("h1")).to_have_text("note")
    page.goto("/runs/note?tab=state&at=2")
    expect(page.locator("#tab")).to_contain_text("note@2 is damaged")
    page.goto("/runs/note?tab=journal")
    page.get_by_role("link", name="@2").click()
    expect(page.locator("#tab")).to_contain_text("holdfast rollback note 1")
