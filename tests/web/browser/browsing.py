"""Chromium, and pages that fail their test when something is wrong with them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tests.waiting import PATIENCE
from tests.web.serving import Served

Theme = Literal["light", "dark"]

PHONE: Final = 400
"""Pixels that the narrowest screen has."""

_FLAGS: Final = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_MILLISECONDS: Final = 2 * PATIENCE * 1000


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window. Its headless shell takes half of the CPU time.

    While it is open, this thread counts as one that runs an event loop: Playwright has one there.
    """
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if program is None:
        raise RuntimeError("the tests need Chromium: sudo apt-get install chromium-headless-shell")
    expect.set_options(timeout=_MILLISECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=_FLAGS,
            chromium_sandbox=_has_sandbox(),
            timeout=_MILLISECONDS,
        )
        try:
            yield browser
        finally:
            browser.close()


def _has_sandbox() -> bool:
    """Chromium's sandbox needs user namespaces, which some containers forbid, and no root."""
    if os.geteuid() == 0:
        return False
    tried = subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False)
    return tried.returncode == 0


class Visits:
    """Opens pages, each in a context of its own, and notes what went wrong in them."""

    def __init__(self, browser: Browser, served: Served) -> None:
        self.served = served
        self.problems: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def __call__(
        self,
        path: str,
        *,
        of: Served | None = None,
        theme: Theme = "light",
        width: int = 1280,
        height: int = 900,
        tolerated: Sequence[str] = (),
        **options: Any,
    ) -> Page:
        """A page of the store, or `of` another one, as a browser that was never here shows it.

        Errors in its console fail the test, but for those that match what is `tolerated`; so do a
        script that fails, a dialog, what the content security policy forbids, and any request to
        another host. `options` are those of a Playwright context, such as `java_script_enabled`.
        """
        home = (of or self.served).url
        context = self._browser.new_context(
            base_url=home,
            color_scheme=theme,
            viewport={"width": width, "height": height},
            locale="en-GB",
            timezone_id="Europe/Paris",
            **options,
        )
        self._contexts.append(context)
        context.set_default_timeout(_MILLISECONDS)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=home)
        self._watch(context, urlsplit(home).netloc, tolerated)
        page = context.new_page()
        page.goto(path)
        return page

    def _watch(self, context: BrowserContext, host: str, tolerated: Sequence[str]) -> None:
        def note(text: str) -> None:
            if not any(re.search(pattern, text) for pattern in tolerated):
                self.problems.append(text)

        def on_console(message: ConsoleMessage) -> None:
            if message.type == "error":
                note(f"{message.page and message.page.url}: {message.text}")

        def on_error(error: Any) -> None:
            note(f"a script failed: {getattr(error, 'error', error)}")

        def on_dialog(dialog: Dialog) -> None:
            note(f"a dialog: {dialog.message}")
            dialog.dismiss()

        def on_request(request: Request) -> None:
            parts = urlsplit(request.url)
            if parts.scheme not in ("data", "blob") and parts.netloc != host:
                note(f"a request to another host: {request.url}")

        context.on("console", on_console)
        context.on("weberror", on_error)
        context.on("dialog", on_dialog)
        context.on("request", on_request)

    def close(self) -> None:
        """Close all pages; fail if something was wrong with one."""
        for context in self._contexts:
            context.close()
        assert not self.problems, "\n".join(self.problems)


Shot = Callable[[Page, str], None]


def shoot(page: Page, directory: Path, name: str, *, full: bool = False) -> None:
    """Pictures of what a page shows now: light, dark, and light on a phone."""
    size = page.viewport_size
    assert size is not None
    for kind in ("light", "dark", "phone"):
        page.emulate_media(color_scheme="dark" if kind == "dark" else "light")
        page.set_viewport_size({**size, "width": PHONE} if kind == "phone" else size)
        picture(page, directory / f"{name}-{kind}.png", full=full)
    page.set_viewport_size(size)


def picture(page: Page, path: Path, *, full: bool = False) -> None:
    """One picture of a page, once its fonts are there; nothing moves in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path, full_page=full, animations="disabled", caret="hide")


def overflow(page: Page) -> int:
    """How many pixels of the page are beside the screen; what scrolls by itself does not count."""
    found: int = page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return found


__all__ = ["PHONE", "Error", "Shot", "Theme", "Visits", "chromium", "overflow", "picture", "shoot"]
