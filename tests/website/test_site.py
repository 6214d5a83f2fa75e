"""The site as a reader gets it: built once, then looked at by a parser and by Chromium."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Page, ViewportSize, expect

from tests.waiting import run_process
from tests.web.browser.browsing import PHONE, Theme, chromium

ROOT = Path(__file__).parents[2]
# As the theme's button does it.
_COPY = """code => {
    code.setAttribute("data-md-copying", "");
    const text = code.innerText;
    code.removeAttribute("data-md-copying");
    return text;
}"""
LOOKED_AT = ("index.html", "guides/workflows.html", "reference/api/engine.html", "operate/ui.html")


class Parsed(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if "href" in given:
            (self.links if tag == "a" else self.loads).add(given["href"])
        if "src" in given:
            self.loads.add(given["src"])


def test_the_site_has_no_broken_link_and_asks_nobody_else(tmp_path: Path) -> None:
    """One test, because building the site takes seconds."""
    command = [sys.executable, "-m", "website.build", str(tmp_path)]
    built = run_process(command, cwd=ROOT, capture_output=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    site = tmp_path / "site"
    pages = {path: Parsed(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) > 100
    assert [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        for link in page.links | page.loads
        if not leads(path, link, pages) or (link in page.loads and urlsplit(link).netloc)
    ] == []
    found = {item["location"] for item in json.loads((site / "search.json").read_text())["items"]}
    assert {name for name in found if name.startswith(("adr/", "proof/"))} == {
        "proof/performance.html",
        "proof/reliability.html",
    }
    assert "concepts/decisions.html" in found
    with chromium() as browser:
        looks: tuple[tuple[int, Theme], ...] = ((PHONE, "light"), (1280, "dark"))
        for width, theme in looks:
            size = ViewportSize(width=width, height=900)
            with browser.new_context(viewport=size, color_scheme=theme) as context:
                look(context.new_page(), site)


def leads(path: Path, link: str, pages: dict[Path, Parsed]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or path.name == "404.html":  # that one is shown for any path
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not parts.fragment or target not in pages:
        return target.exists()
    return unquote(parts.fragment) in pages[target].anchors


def look(page: Page, site: Path) -> None:
    """Open pages from the disk, search, and see that nothing is missing, loaded or too wide."""
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: wrong.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for name in LOOKED_AT:
        page.goto((site / name).as_uri())
        page.locator("article h1").first.wait_for(state="attached")
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{name} is {wide} px too wide"
    page.goto((site / "operate/cli.html").as_uri())
    console = page.locator("div.highlight").filter(has_text="echo $?").first
    copied = console.locator("code").evaluate(_COPY)
    assert copied == "holdfast run jobs:nightly --input day=monday --run-id monday\necho $?\n"
    search = page.locator("input[role=combobox]")
    search.wait_for(state="attached")  # now the page listens to keys
    page.keyboard.press("Control+k")
    search.fill("rollback")
    expect(page.get_by_text(re.compile("[0-9]+ results"))).to_be_attached()
    assert wrong == []
    assert [url for url in asked if urlsplit(url).scheme not in ("file", "data", "blob")] == []
