"""Answering and changing runs in a real browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

import holdfast as hf
from holdfast.engine.people import requests
from holdfast.web.pages.inbox import LISTED
from tests.web import serving
from tests.web import small_flows as flows
from tests.web.browser.browsing import PHONE, Visits, overflow
from tests.web.browser.conftest import Serve
from tests.web.serving import Served

ROOT: Final = Path(__file__).parents[3]


RUNS: Final[dict[str, Callable[[], Any]]] = {
    "refund-1": lambda: flows.refund(219),
    "two-1": flows.two,
    "digest-1": lambda: flows.digest(["a"]),
    "digest-2": lambda: flows.digest([]),
    "any-1": flows.anything,
    "any-2": flows.anything,
}
FLOWS: Final = ("refund", "two", "digest", "anything")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that ask, and one that is done. Each test changes its own."""
    path = tmp_path_factory.mktemp("asked") / "runs.db"

    def work() -> None:
        for name, call in RUNS.items():
            flows.execute(path, call, name)

    thread = threading.Thread(target=work)  # Playwright has an event loop in this one
    thread.start()
    thread.join()
    return path


@pytest.fixture(scope="module")
def writable(store: Path) -> Iterator[Served]:
    """That store, with leave to write, and the flows that are executed by the UI."""
    named = [word for flow in FLOWS for word in ("--flow", f"tests.web.small_flows:{flow}")]
    with serving.serve(store, "--allow-writes", *named, cwd=ROOT) as started:
        yield started


def says(page: Page, text: str) -> None:
    expect(page.locator("#toasts")).to_contain_text(text)


def test_an_approval_is_given_and_the_run_continues(visit: Visits, writable: Served) -> None:
    page = visit("/runs/refund-1", of=writable, tolerated=["status of 4"])
    page.get_by_role("link", name="Approve…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Refund 219?")
    expect(dialog).to_contain_text("•••••")
    dialog.get_by_label("comment").fill("of course")
    dialog.get_by_label("Your name").fill("carl")
    dialog.get_by_role("button", name="Approve").click()
    expect(dialog).to_contain_text("not for 'carl'")
    dialog.get_by_label("Your name").fill("ann")
    dialog.get_by_role("button", name="Approve").click()
    says(page, "Answered: the run continues here.")
    expect(dialog).to_be_hidden()
    expect(page.locator("#question-bar .ask-bar")).to_have_count(0)
    expect(page.locator("#run-header")).to_contain_text("Completed")


def test_a_fork_is_made_with_an_edited_state(visit: Visits, writable: Served, store: Path) -> None:
    page = visit("/runs/two-1", of=writable)
    page.get_by_role("link", name="Fork…").first.click()
    dialog = page.get_by_role("dialog")
    editor = dialog.get_by_label("State, as JSON")
    state = json.loads(editor.input_value())
    editor.fill("{")
    expect(dialog).to_contain_text("Not JSON")
    state["fetch"]["rows"] = 99
    del state["fetch#2"]
    editor.fill(json.dumps(state))
    expect(dialog).not_to_contain_text("Not JSON")
    dialog.get_by_label("Id of the new run").fill("two-b")
    dialog.get_by_label("Your name").fill("ann")
    dialog.get_by_role("button", name="Fork").click()
    says(page, "Forked as two-b.")
    expect(page.locator("h1")).to_have_text("two-b")
    expect(page.locator("#run-header")).to_contain_text("Completed")
    with hf.SyncCheckpointer(store) as cp:
        found = cp.load("two-b")
    assert found is not None
    assert found.state["fetch"] == {"page": "a", "rows": 99, "api_key": "k-123"}


def test_the_inbox_remembers_who_answers(visit: Visits, writable: Served) -> None:
    page = visit("/inbox?run=digest-1&question=ask", of=writable)
    page.get_by_label("Your name").fill("zoe")
    page.get_by_role("button", name="No", exact=True).click()
    says(page, "Answered digest-1: the run continues here.")
    expect(page.get_by_role("link", name="digest-1")).to_have_count(0)
    page.get_by_role("link", name="Mine").click()
    expect(page.get_by_text("For zoe")).to_be_visible()
    expect(page.get_by_role("link", name="refund-1")).to_have_count(0)
    page.get_by_role("link", name="digest-2").first.click()
    expect(page.get_by_label("Your name")).to_have_value("zoe")
    page.get_by_role("button", name="Yes", exact=True).click()
    says(page, "Answered digest-2: the run continues here.")
    page.goto("/inbox?state=done")
    expect(page.locator(".done")).to_contain_text("zoe")


def test_without_scripts_forms_are_pages(visit: Visits, writable: Served) -> None:
    page = visit("/runs/any-1", of=writable, java_script_enabled=False)
    page.get_by_role("link", name="Cancel…").first.click()
    expect(page.get_by_role("heading", name="Cancel this run")).to_be_visible()
    page.get_by_label("Your name").fill("ann")
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("#run-header")).to_contain_text("Cancelled")


def test_where_nothing_may_change_a_button_copies_its_command(
    visit: Visits, serve: Serve, store: Path
) -> None:
    page = visit("/runs/two-1", of=serve(store))
    page.get_by_role("button", name="Fork", exact=True).first.click()
    says(page, "Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == f"holdfast fork two-1 --store={store}"


def test_dialogs_fit_a_phone(visit: Visits, writable: Served) -> None:
    page = visit("/runs/two-1", of=writable, width=PHONE)
    for action in ("Fork…", "Roll back…", "Prune…"):
        page.get_by_label("More actions").click()
        page.locator(".menu").get_by_role("link", name=action).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        across = dialog.bounding_box()
        assert across is not None
        assert (across["x"], across["width"]) == (0, PHONE), "from edge to edge"
        assert overflow(page) <= 0
        page.get_by_role("link", name="Back").click()
        expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_question_that_somebody_else_answered_says_so(
    visit: Visits, writable: Served, store: Path
) -> None:
    page = visit("/inbox?run=any-2&question=ask", of=writable)
    expect(page.locator(".panel")).to_contain_text("any-2")
    with hf.SyncCheckpointer(store) as cp:
        cp.core.drive(requests.answer(cp.core, "any-2", "kelp", by="bob"))
    expect(page.locator(".gone")).to_contain_text("not open any more")


def test_a_question_that_is_not_among_those_listed_stays_open(
    visit: Visits, serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"

    def work() -> None:
        with hf.Engine(path) as engine:
            for n in range(LISTED + 1):
                with suppress(hf.RunPausedError):
                    engine.run_sync(flows.anything(), run_id=f"any-{n:03}")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    page = visit(f"/inbox?run=any-{LISTED:03}&question=ask", of=serve(path, "--allow-writes"))
    expect(page.locator(".panel")).to_contain_text(f"any-{LISTED:03}")
    assert page.locator(f"[data-key='any-{LISTED:03}@ask']").count() == 0
    with hf.SyncCheckpointer(path) as cp:
        cp.core.drive(requests.answer(cp.core, "any-000", "kelp", by="bob"))
    expect(page.locator("#inbox-tabs")).to_contain_text(f"{LISTED}")
    expect(page.locator("[data-key='any-000@ask']")).to_have_count(0)
    assert page.locator(".gone").count() == 0
    assert page.locator(".panel .ends button:disabled").count() == 0


def test_the_number_in_the_header_follows_the_store(
    visit: Visits, serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"

    def asks(name: str) -> None:
        thread = threading.Thread(target=flows.execute, args=(path, flows.anything, name))
        thread.start()
        thread.join()

    asks("any-1")
    page = visit("/runs", of=serve(path))
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("#asking")).to_have_text("1 open")
    asks("any-2")
    expect(page.locator("#asking")).to_have_text("2 open", timeout=15_000)
    with hf.SyncCheckpointer(path) as cp:
        for name in ("any-1", "any-2"):
            cp.core.drive(requests.answer(cp.core, name, "kelp", by="bob"))
    expect(page.locator("#asking")).to_have_count(0)
